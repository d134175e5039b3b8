# SPDX-License-Identifier: Apache-2.0
"""Branches and loops that are decided at run time: a model under import is Relax functions that call each other.

    y = f(x); z = then(y) if c(y) else other(y); w = g(z, x)
        →    main(x): y, c = main_part(x); z = choice(c, y); w = main_part_2(z, x)

Front ends convert each branch and each loop's round as a function of one dataflow block, and call `choice` and `loop`
functions by name. `Program.module` then takes the straight-line parts out of the functions that make such calls, since
only those pass the phases, one by one.

A loop is a function that ends by calling itself, which `loops` turns into a while loop:

    loop(go, states, fixed): if go: loop(*round(states, fixed), fixed)  else: states
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

import tvm
from tvm import relax, tirx
from tvm.ir import Call, Constant, Expr, GlobalVar, TupleGetItem, Type, Var
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_equal, structural_map

from arm_ext.common.errors import ModelError
from relay_passes.ir.sources import bindings_of, identifier, sources_of, union, with_source
from relay_passes.programs.merge_modules import MAIN, add_functions, merge_modules, module_of
from relay_passes.programs.outline import Part, function_of

SCALAR = {name: relax.TensorType((), name) for name in ("bool", "int64")}

Region = Callable[[relax.BlockBuilder, list[Expr]], Sequence[Expr]]
"""Converter of a branch or of a round: given the builder of its function and the values that it reads, it emits the
operators there and returns their results."""

_Kernels = Mapping[GlobalVar, tirx.PrimFunc]


def call(symbol: str, args: Sequence[Expr], ret_ty: Type, sources: Iterable[str]) -> Call:
    """Return a call of a function by the function's name, with source names attached."""
    callee = GlobalVar(symbol)
    relax.expr._update_type(callee, relax.FuncType([arg.ty for arg in args], ret_ty))
    return with_source(Call(callee, list(args), ret_ty=ret_ty), sources)


@dataclass(frozen=True)
class Callee:
    """A function's name, the names of its inputs, and its return type."""

    symbol: str
    inputs: tuple[str, ...]
    ret_ty: Type

    def call(self, given: Mapping[str, Expr], sources: Iterable[str]) -> Call:
        """Return a call of the function; `given` maps names of inputs to values."""
        return call(self.symbol, [given[name] for name in self.inputs], self.ret_ty, sources)


class Block:
    """Collects the bindings of a binding block."""

    def __init__(self) -> None:
        """Start without bindings."""
        self._bindings: list[relax.Binding] = []

    def bind(self, name: str, value: Expr) -> Var:
        """Bind a value to a new variable."""
        var = Var(name, value.ty)
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def fields(self, name: str, value: Expr) -> list[Var]:
        """Bind a call's result; return its variable, or the variables of its fields if it is a tuple."""
        var = self.bind(name, value)
        if not isinstance(var.ty, relax.TupleType):
            return [var]
        return [self.bind(f"{name}_{i}", TupleGetItem(var, i)) for i in range(len(var.ty.fields))]

    def end(self, result: Var) -> relax.SeqExpr:
        """Return the collected bindings as a sequence expression with the given result."""
        return relax.SeqExpr([relax.BindingBlock(self._bindings)], result)


@dataclass(frozen=True)
class Rounds:
    """The parts from which a loop's function is built.

    Rows that are given by each round are written where they belong in `wholes`, of which there is one for all rounds.

    Attributes:
        symbol: Name of the function.
        source: The node that it comes from.
        body: Computes a round: whether there is another, its number if rounds have numbers, the states, and rows.
        states: Name → type, in order.
        fixed: Further values that the body reads: name → type.
        number: Name in the body of the round number, an int64 scalar; "" for rounds without.
        wholes: Types of what rows are written to; rounds have numbers then.
        writers: Kernels that write a row, by name; of each whole, in order.
    """

    symbol: str
    source: str
    body: Callee
    states: Mapping[str, Type]
    fixed: Mapping[str, Type]
    number: str = ""
    wholes: tuple[Type, ...] = ()
    writers: tuple[str, ...] = ()

    def check(self) -> None:
        """Check that states have the same shape and dtype before and after an iteration.

        Raises:
            ModelError: A round returns a state, or its condition, of another type than it takes.
        """
        more, *after = self.body.ret_ty.fields if self.states or self.number else [self.body.ret_ty]
        states = after[1:] if self.number else after
        given = {"its condition": (SCALAR["bool"], more)}
        given |= {
            f"'{name}'": (ty, new) for (name, ty), new in zip(self.states.items(), states, strict=False)
        }
        for what, (before, new) in given.items():
            if not structural_equal(before, new):
                raise ModelError(
                    f"{what} is {before} before an iteration and {new} after it; a compiled model has static shapes"
                )

    def function(self) -> relax.Function:
        """Return the loop as a Relax function."""
        go, own = Var("go", SCALAR["bool"]), {self.number: SCALAR["int64"]} if self.number else {}
        params = {name: Var(name, ty) for name, ty in {**own, **self.states, **self.fixed}.items()}
        wholes = [Var("whole", ty) for ty in self.wholes]
        again, block = Block(), Block()
        results = again.fields("results", self.body.call(params, [self.source]))
        elements = results[len(results) - len(wholes) :]
        for writer, whole, row in zip(self.writers, wholes, elements, strict=True):
            written = [whole, row, params[self.number]]
            again.bind("written", call(writer, written, relax.TupleType([]), [self.source]))
        nexts = results[: len(results) - len(wholes)]
        ends = [*(params[name] for name in self.states), *wholes]
        done = block.bind("done", relax.Tuple(ends))
        given = [*nexts, *(params[name] for name in self.fixed), *wholes]
        repeat = call(self.symbol, given, done.ty, [self.source])
        choice = chosen(go, again.end(again.bind("repeated", repeat)), block.end(done), done.ty)
        outer = Block()
        result = outer.bind("results", choice)
        # Not in a dataflow block: TVM would compile functions that are called there as a part of their caller.
        return relax.Function([go, *params.values(), *wholes], outer.end(result), result.ty, is_pure=False)


def chosen(condition: Expr, yes: relax.SeqExpr, no: relax.SeqExpr, ty: Type) -> relax.If:
    """Return an `if` on a Boolean scalar, whose two branches give values of type `ty`."""
    choice = relax.If(condition, yes, no)
    relax.expr._update_type(choice, ty)
    return choice


class Program:
    """The functions of a model under import.

    Attributes:
        straight: Name → module, whose `main` is a function without decisions.
    """

    def __init__(self, named: Callable[[relax.Function], relax.Function] = lambda func: func) -> None:
        """Start without functions.

        Args:
            named: Gives the bindings of a converted function their source names.
        """
        self.straight: dict[str, tvm.IRModule] = {}
        self._named = named
        self._added: dict[str, tvm.IRModule] = {}
        self._joining: dict[str, tvm.ir.BaseFunc] = {}
        self._symbols = {MAIN}

    def symbol(self, node: str, role: str) -> str:
        """Return an unused name for a function."""
        base = f"{identifier(node)}_{role}"
        name = next(n for n in chain([base], (f"{base}_{k}" for k in count(2))) if n not in self._symbols)
        self._symbols.add(name)
        return name

    def put(self, symbol: str, func: tvm.ir.BaseFunc) -> None:
        """Add a function that contains branches or calls of functions, or a kernel that it calls."""
        self._joining[symbol] = func

    def add(self, symbol: str, mod: tvm.IRModule) -> Callee:
        """Add a function of one dataflow block, in which calls of functions by name are control flow.

        Args:
            symbol: Name of the function.
            mod: The module with the function and the kernels that it calls.
        """
        self._added[symbol], func = mod, mod[symbol]
        return Callee(symbol, tuple(str(param.name) for param in func.params), func.ret_ty)

    def function(
        self, symbol: str, params: Sequence[Var], convert: Callable[[relax.BlockBuilder], Sequence[Expr]]
    ) -> Callee:
        """Add a function, which returns a tuple, or its only result.

        Args:
            symbol: Name of the function.
            params: Parameters of the function.
            convert: Emits the body in a builder, and returns its results.
        """
        builder = relax.BlockBuilder()
        failure: Exception | None = None
        with builder.function(symbol, list(params)):
            with builder.dataflow():
                try:
                    results = list(convert(builder))
                # The error is raised after the function is complete, since a builder with an unfinished function
                # prints to stderr.
                except Exception as err:
                    failure, results = err, []
                output = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
            builder.emit_func_output(output)
        if failure is not None:
            raise failure
        mod = builder.get()
        mod[symbol] = self._named(mod[symbol])
        return self.add(symbol, mod)

    def choice(
        self, source: str, conditions: Sequence[Expr], branches: Sequence[Region], read: Sequence[Expr]
    ) -> Call:
        """Return a call that runs the branch of the first condition that holds, or else the last branch.

        Args:
            source: The node that it comes from.
            conditions: Boolean scalars, of all branches but the last.
            branches: Converters of the branches.
            read: Values that branches read; of these, constants become a part of the branches' functions.

        Raises:
            ModelError: Branches give values of different types.
        """
        fixed, given = _parameters(read)
        callees = []
        for branch in branches:

            def convert(builder: relax.BlockBuilder, branch: Region = branch) -> Sequence[Expr]:
                return branch(builder, given)

            callees.append(self.function(self.symbol(source, "branch"), fixed, convert))
        for callee in callees[1:]:
            if not structural_equal(callee.ret_ty, callees[0].ret_ty):
                raise ModelError(
                    f"its branches give {callees[0].ret_ty} and {callee.ret_ty}; a compiled model has static shapes, "
                    "so all branches must give the same types"
                )
        args = {f"choice_{k}": condition for k, condition in enumerate(conditions)}
        args |= dict(zip((str(var.name) for var in fixed), _run_time(read), strict=True))
        last = callees.pop()
        for name, callee in reversed(list(zip(args, callees, strict=False))):
            types = {each: args[each].ty for each in (name, *callee.inputs, *last.inputs)}
            last = self._choice(source, types, callee, last)
        return last.call(args, [source])

    def _choice(self, source: str, types: Mapping[str, Type], yes: Callee, no: Callee) -> Callee:
        """Add a function that calls `yes` if its first parameter is true, and otherwise `no`."""
        symbol = self.symbol(source, "choice")
        params = {name: Var(name, ty) for name, ty in types.items()}

        def run(callee: Callee) -> relax.SeqExpr:
            block = Block()
            return block.end(block.bind(callee.symbol, callee.call(params, [source])))

        outer = Block()
        result = outer.bind("results", chosen(next(iter(params.values())), run(yes), run(no), yes.ret_ty))
        self.put(symbol, relax.Function(list(params.values()), outer.end(result), result.ty, is_pure=False))
        return Callee(symbol, tuple(types), yes.ret_ty)

    def loop(
        self, source: str, go: Expr, states: Sequence[Expr], convert: Region, read: Sequence[Expr]
    ) -> Call:
        """Return a call that repeats iterations while their condition holds; its result is a tuple of the states.

        Args:
            source: The node that it comes from.
            go: Whether there is a first round, a Boolean scalar.
            states: Values that each round changes.
            convert: Converter of a round, from states and `read` to: whether there is another round, the states.
            read: Values that rounds read; of these, constants become a part of the round's function.

        Raises:
            ModelError: A state gets another shape or dtype.
        """
        fixed, given = _parameters(read)
        own = [Var(f"state_{k}", value.ty) for k, value in enumerate(states)]
        symbol = self.symbol(source, "round")
        body = self.function(symbol, [*own, *fixed], lambda builder: convert(builder, [*own, *given]))
        types, others = ({str(var.name): var.ty for var in group} for group in (own, fixed))
        rounds = Rounds(self.symbol(source, "loop"), source, body, types, others)
        rounds.check()
        self.put(rounds.symbol, func := rounds.function())
        return call(rounds.symbol, [go, *states, *_run_time(read)], func.ret_ty, [source])

    def module(self, prepared: Callable[[tvm.IRModule], tvm.IRModule] = lambda mod: mod) -> tvm.IRModule:
        """Return all functions as one module.

        Args:
            prepared: Applied to each function's module before its straight-line parts are taken out of it.
        """
        for symbol, mod in self._added.items():
            self._stage(symbol, prepared(mod))
        if not self._joining:
            return self.straight[MAIN]
        merged = merge_modules(self.straight, reserved=self._joining).mod
        add_functions(merged, self._joining)
        return merged

    def _stage(self, symbol: str, mod: tvm.IRModule) -> None:
        """Move the straight-line parts of a function with branches or loops into functions of their own."""
        func = mod[symbol]
        kernels = {gvar: f for gvar, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
        if any(_decides(binding.value) for binding in bindings_of(func)):
            self.put(symbol, self._staged(symbol, func, kernels))
        else:
            self.straight[symbol] = module_of(func, kernels)

    def _staged(self, symbol: str, func: relax.Function, kernels: _Kernels) -> relax.Function:
        func = _without_aliases(func)
        *bindings, last = bindings_of(func)
        block, result = Block(), last.value
        bindings = _needed(bindings, result)
        values: dict[Var, Expr] = {param: param for param in func.params}
        for stage in _stages(bindings, result):
            if stage.outputs:
                part = stage.part(self.symbol(symbol, "part"))
                straight = function_of(func, part)
                self.straight[part.name] = module_of(straight, kernels)
                names = union(sources_of(binding.value) for binding in stage.straight)
                given = [values[var] for var in part.inputs]
                results = block.fields(part.name, call(part.name, given, straight.ret_ty, names))
                values.update(zip(part.outputs, results, strict=True))
            for binding in stage.decisions:
                values[binding.var] = block.bind(str(binding.var.name), _with(binding.value, values))
        returned = block.bind("outputs", _with(result, values))
        staged = relax.Function(func.params, block.end(returned), func.ret_ty, is_pure=False)
        staged = staged.with_attr("num_input", len(func.params))
        return staged.with_attr("global_symbol", MAIN) if symbol == MAIN else staged


def _parameters(read: Sequence[Expr]) -> tuple[list[Var], list[Expr]]:
    """Return parameters for the values that are computed at run time, and all values in the form that readers use."""
    given = [
        value if isinstance(value, Constant) else Var(f"fixed_{k}", value.ty) for k, value in enumerate(read)
    ]
    return [value for value in given if isinstance(value, Var)], given


def _run_time(read: Sequence[Expr]) -> list[Expr]:
    return [value for value in read if not isinstance(value, Constant)]


@dataclass(frozen=True)
class _Stage:
    """A part of a function between two groups of branches and loops.

    Attributes:
        straight: Bindings that depend on the decisions of earlier stages alone, and those of constants alone that this
            stage reads.
        decisions: Decisions that depend on these.
        outputs: Variables of `straight` that are read outside of it.
    """

    straight: list[relax.Binding]
    decisions: list[relax.Binding]
    outputs: tuple[Var, ...] = ()

    def part(self, name: str) -> Part:
        """Return the straight-line bindings as a function and its call."""
        inner = frozenset(binding.var for binding in self.straight)
        read = dict.fromkeys(var for binding in self.straight for var in free_vars(binding.value))
        return Part(name, inner, tuple(var for var in read if var not in inner), self.outputs)


def _decides(value: Expr) -> bool:
    return isinstance(value, Call) and isinstance(value.op, GlobalVar)


def _without_aliases(func: relax.Function) -> relax.Function:
    """Return a function without bindings of one variable to another."""
    *bindings, last = bindings_of(func)
    same: dict[Var, Expr] = {}
    kept = []
    for binding in bindings:
        value = _with(binding.value, same)
        if isinstance(value, Var):
            same[binding.var] = value
        else:
            kept.append(relax.VarBinding(binding.var, value))
    block = relax.DataflowBlock([*kept, relax.VarBinding(last.var, _with(last.value, same))])
    body = relax.SeqExpr([block], func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def _needed(bindings: Sequence[relax.Binding], result: Expr) -> list[relax.Binding]:
    """Return the bindings that the result depends on, in their order."""
    needed, found = set(free_vars(result)), []
    for binding in reversed(bindings):
        if binding.var in needed:
            found.append(binding)
            needed.update(free_vars(binding.value))
    return found[::-1]


def _stages(bindings: Sequence[relax.Binding], result: Expr) -> Iterator[_Stage]:
    number: dict[Var, int] = {}
    stages = [_Stage([], [])]
    decided: set[Var] = set()
    # Constant expressions, such as transposed weights: each stage that reads them computes them, so that they stay
    # constant.
    fixed: set[Var] = set()
    for binding in bindings:
        reads = free_vars(binding.value)
        at = max((number.get(var, 0) for var in reads), default=0)
        if _decides(binding.value):
            stages[at].decisions.append(binding)
            decided.add(binding.var)
            at += 1
            if at == len(stages):
                stages.append(_Stage([], []))
        elif fixed.issuperset(reads):
            fixed.add(binding.var)
        elif isinstance(binding.value, TupleGetItem) and binding.value.tuple_value in decided:
            stages[at - 1].decisions.append(binding)
        else:
            stages[at].straight.append(binding)
        number[binding.var] = at
    for place, stage in enumerate(stages):
        ends = [*(binding.value for binding in stage.decisions), *([result] if place == 0 else [])]
        own = [*(binding.value for binding in stage.straight), *ends]
        inner = {b.var for b in stage.straight} | {
            b.var for b in _needed(bindings, relax.Tuple(own)) if b.var in fixed
        }
        straight = [binding for binding in bindings if binding.var in inner]
        outside = [result, *(binding.value for binding in bindings if binding.var not in inner)]
        readers = [_read(ends) & fixed, _read(outside) - fixed]
        outputs = tuple(b.var for b in straight if any(b.var in group for group in readers))
        yield _Stage(straight, stage.decisions, outputs)


def _read(values: Iterable[Expr]) -> set[Var]:
    return {var for value in values for var in free_vars(value)}


def _with(value: Expr, values: dict[Var, Expr]) -> Expr:
    """Return an expression with variables replaced."""
    return structural_map(value, [(Var, lambda var: values.get(var, var))])
