# SPDX-License-Identifier: Apache-2.0
"""Application of rewrite rules to a fixed point, and explanations where rules did not apply.

A rule replaces the value of the variable to which its pattern's root is bound. Calls that the pattern matches below the
root must have no other consumers, or the rewrite would compute them twice; the engine checks this before the rule's
check. The calls of the replacement get the source names of all matched calls.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tvm import IRModule, relax
from tvm.ir import Call, Expr, GlobalVar, Op, Type, Var
from tvm.relax.analysis import free_vars, get_var2val, remove_all_unused
from tvm.relax.dpl import CallPattern, DFPattern, ExprPattern, OrPattern
from tvm.tirx import IntImm
from tvm_ffi import structural_map

from relay_passes.ir.shapes import element_count
from relay_passes.ir.sources import Names, bindings_of, relax_functions, sources_of, union, with_source
from relay_passes.ir.upstream import run_upstream
from relay_passes.ir.verify import verify
from relay_passes.rewriter.near_misses import INNER, near_misses
from relay_passes.rewriter.pattern_text import CONSTRAINTS
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Explanation, Match, Rule
from schedules.diagnostic import Diagnostic

# Maximum number of sweeps; rules that still apply then undo each other or grow the graph, which is a defect.
_MAX_SWEEPS = 100


def apply_rules(
    mod: IRModule, rules: Sequence[Rule], *, debug: bool = False, record: RewriteRecord | None = None
) -> IRModule:
    """Apply each rule to its fixed point, in order, and repeat this until no rule applies.

    Args:
        mod: Module whose functions are in A-normal form, with source names on all calls.
        rules: Rules in the order in which they are tried.
        debug: Whether to verify the module after each rule.
        record: Records each run of a rule, unless None; rules that it switches off are not applied.

    Raises:
        ValueError: The rules do not terminate, or, with `debug`, a rule made the module invalid; the message names
            the rule.
    """
    graphs: _Graphs = {}
    if record is not None:
        rules = [rule for rule in rules if rule.name not in record.off]
    for _ in range(_MAX_SWEEPS):
        before = mod
        for rule in rules:
            mod, explanation = apply_rule(mod, rule, graphs)
            if record is not None:
                record.note(rule, mod, explanation)
            if debug:
                verify(mod, after=f"rule {rule.name}")
        if mod.same_as(before):
            return mod
    raise ValueError(
        f"rules {', '.join(rule.name for rule in rules)} undo each other: {_MAX_SWEEPS} rounds did not end"
    )


def explain(mod: IRModule, rule: Rule) -> Explanation:
    """Return where `rule` applies in `mod`, where its check rejects a match, and where its pattern nearly matches.

    Rejections and near misses are those of the module in which the rule no longer applies.
    """
    mod, explanation = apply_rule(mod, rule)
    return replace(explanation, near_misses=near_misses(mod, rule.pattern, rule.parts))


def _check_types(func: relax.Function, rule: Rule, replaced: Collection[Var]) -> None:
    """Raise ValueError if a rule's replacement has another shape or dtype than the call that it replaces.

    Args:
        func: A normalised function.
        rule: The rule that was applied to the function.
        replaced: The variables whose values the rule replaced.

    Raises:
        ValueError: The rule changes a static shape or a dtype.
    """
    values = get_var2val(func)
    for var in replaced:
        if var in values and _differ(values[var].ty, var.ty):
            raise ValueError(f"rule {rule.name} gives {values[var].ty} in place of {var.ty}")


def _differ(found: Type, wanted: Type) -> bool:
    if not (isinstance(found, relax.TensorType) and isinstance(wanted, relax.TensorType)):
        return False
    if str(found.dtype) != str(wanted.dtype):
        return True
    if found.shape is None or wanted.shape is None:
        return False
    pairs = list(zip(found.shape, wanted.shape, strict=False))
    known = [(int(a), int(b)) for a, b in pairs if isinstance(a, IntImm) and isinstance(b, IntImm)]
    return len(found.shape) != len(wanted.shape) or any(a != b for a, b in known)


def apply_rule(mod: IRModule, rule: Rule, graphs: "_Graphs | None" = None) -> tuple[IRModule, Explanation]:
    """Apply one rule until no match passes its check; near misses are not searched.

    Args:
        mod: See `apply_rules`.
        rule: The rule to apply.
        graphs: Cache of use graphs of functions; it is updated to the functions of the returned module.
    """
    graphs = {} if graphs is None else graphs
    applied: list[Names] = []
    # A rule whose result contains several matches of its pattern would double the module in each sweep.
    most = _MAX_SWEEPS * sum(len(block.bindings) for _, f in relax_functions(mod) for block in f.body.blocks)
    for _ in range(_MAX_SWEEPS):
        rejected: list[Diagnostic] = []
        changed: list[Var] = []
        new = mod.clone()
        for gv, func in relax_functions(mod):
            found, refused = _sweep(_graph_of(func, gv, graphs), rule)
            rejected += refused
            changed += found
            if not found:
                continue
            applied += (match.nodes for match in found.values())
            if len(applied) > most:
                raise ValueError(f"rule {rule.name} still applies after {most} times, last at {applied[-1]}")
            new.update_func(gv, _replaced(func, rule, found))
        if all(new[gv].same_as(func) for gv, func in relax_functions(mod)):
            return mod, Explanation(tuple(applied), tuple(rejected))
        mod = run_upstream(new, relax.transform.Normalize())
        for _, func in relax_functions(mod):
            _check_types(func, rule, changed)
        mod.update({gv: remove_all_unused(func) for gv, func in relax_functions(mod)})
    raise ValueError(f"rule {rule.name} still applies after {_MAX_SWEEPS} sweeps, last at {applied[-1]}")


def find_matches(mod: IRModule, pattern: DFPattern) -> list[Names]:
    """Return the source nodes of each match in `mod` that is not contained in a larger match."""
    found: list[Names] = []
    for _, func in relax_functions(mod):
        matches = [(inside, match) for _, inside, match in _UseGraph(func).matches(pattern, {})]
        longest = [
            match.nodes
            for inside, match in matches
            if not any(set(inside) < set(other) for other, _ in matches)
        ]
        found += longest
    return found


def _sweep(graph: "_UseGraph", rule: Rule) -> tuple[dict[Var, Match], list[Diagnostic]]:
    """Return the accepted, non-overlapping matches of one rule, by root variable, and the rejections."""
    passed: list[tuple[Var, list[Var], Match]] = []
    rejected: list[Diagnostic] = []
    for root, inside, match in graph.matches(rule.pattern, rule.parts):
        result = graph.shared(inside, root, match) or rule.check(match)
        if isinstance(result, Diagnostic):
            rejected.append(result)
        else:
            passed.append((root, inside, result))
    found: dict[Var, Match] = {}
    taken: set[Var] = set()
    # Use the longest matches first: a match without an optional last step is contained in the match with it. The next
    # sweep matches again where matches overlapped.
    for root, inside, match in sorted(passed, key=lambda item: len(item[1]), reverse=True):
        if taken.isdisjoint(inside):
            found[root] = match
            taken.update(inside)
    return {root: found[root] for root, _, _ in passed if root in found}, rejected


class _UseGraph:
    """The use graph of a function: producers and consumers of its values."""

    def __init__(self, func: relax.Function) -> None:
        self.func = func
        bindings = bindings_of(func)
        self._values = get_var2val(func)
        self._bindings = {b.var: b for b in bindings}
        self._order = {var: index for index, var in enumerate(self._bindings)}
        # Aliases are no roots: matching looks through an alias at its value, which has a separate binding.
        self._roots = [
            (b.var, b.value, _operator_of(b.value)) for b in bindings if not isinstance(b.value, Var)
        ]
        # An alias does not compute its value, and may come after other users of the value.
        self._owner = {b.value.id_: b.var for b in bindings if not isinstance(b.value, Var)}
        self._outputs = set(free_vars(func.body.body))
        self._consumers: dict[Var, list[Var]] = {}
        for b in bindings:
            for operand in free_vars(b.value):
                self._consumers.setdefault(operand, []).append(b.var)

    def matches(
        self, pattern: DFPattern, parts: Mapping[str, DFPattern]
    ) -> Iterator[tuple[Var, list[Var], Match]]:
        """Yield (root variable, variables inside of the match, match) of each match, in program order."""
        operators = root_operators(pattern)
        for root, value, operator in self._roots:
            if operators is not None and operator not in operators:
                continue
            found = pattern.extract_matched_expr(value, self._values)
            if found is not None:
                inside = self._bound(expr for p, expr in found.items() if isinstance(p, INNER))
                yield root, inside, self._match(inside, {n: found[p] for n, p in parts.items() if p in found})

    def _bound(self, values: Iterable[Expr]) -> list[Var]:
        """Return the variables that are bound to `values`, in program order."""
        wanted = {self._owner[value.id_] for value in values if value.id_ in self._owner}
        return sorted(wanted, key=self._order.__getitem__)

    def _match(self, inside: Sequence[Var], parts: Mapping[str, Expr]) -> Match:
        nodes = union(sources_of(self._bindings[var].value) for var in inside)
        return Match(nodes, {name: self._owner.get(e.id_, e) for name, e in parts.items()}, parts)

    def shared(self, inside: Sequence[Var], root: Var, match: Match) -> Diagnostic | None:
        """Return a rejection if a call outside of the match reads one of its inner values; None if there is none."""
        for var in inside:
            outside = [user for user in self._consumers.get(var, []) if user not in inside]
            if var != root and (outside or var in self._outputs):
                users = union(sources_of(self._bindings[user].value) for user in outside) or ("the output",)
                value = ", ".join(sources_of(self._bindings[var].value)) or var.name
                count = element_count(var.ty)
                hint = "" if count is None else f"{count} elements would be computed twice"
                return match.reject(f"{value} is also needed by {', '.join(users)}", hint=hint)
        return None


_Graphs = dict[GlobalVar, _UseGraph]


def _graph_of(func: relax.Function, gv: GlobalVar, graphs: _Graphs) -> _UseGraph:
    graph = graphs.get(gv)
    if graph is None or not graph.func.same_as(func):
        graph = graphs[gv] = _UseGraph(func)
    return graph


def _operator_of(value: Expr) -> str | None:
    return str(value.op.name) if isinstance(value, Call) and isinstance(value.op, Op) else None


def root_operators(pattern: DFPattern) -> frozenset[str] | None:
    """Return the names of the operators that a pattern's root can match; None if it may match other expressions."""
    match pattern:
        case CallPattern():
            return _called(pattern.op)
        case OrPattern():
            left, right = root_operators(pattern.left), root_operators(pattern.right)
            return None if left is None or right is None else left | right
        case _ if isinstance(pattern, CONSTRAINTS):
            return root_operators(pattern.pattern)
    return None


def _called(callee: DFPattern) -> frozenset[str] | None:
    match callee:
        case ExprPattern() if isinstance(callee.expr, Op):
            return frozenset((str(callee.expr.name),))
        case OrPattern():
            left, right = _called(callee.left), _called(callee.right)
            return None if left is None or right is None else left | right
    return None


def _replaced(func: relax.Function, rule: Rule, found: Mapping[Var, Match]) -> relax.Function:
    def name(nodes: Names, call: Call) -> Call:
        return with_source(call, nodes) if isinstance(call.op, Op | GlobalVar) else call

    def put(binding: relax.VarBinding) -> relax.VarBinding:
        match = found.get(binding.var)
        if match is None:
            return binding
        new = structural_map(rule.rewrite(match), [(Call, partial(name, match.nodes))])
        return relax.VarBinding(binding.var, new, binding.span)

    return structural_map(func, [(relax.VarBinding, put)])
