# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.explain`: shows where each rewrite, up to the forming of composites, applied to a model, and why not."""

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import onnx
import tvm
from tvm import relax, tirx

import relay_passes
from arm_ext.api.mutual_exclusion import serial
from arm_ext.api.npu_division import partitioner
from arm_ext.api.options import IMPORT, Options, gathered
from arm_ext.api.plugins import load_plugins, with_plugins
from arm_ext.api.sample_shapes import shaped_by
from arm_ext.common.errors import UsageError
from arm_ext.common.names import near, node_of
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import prepared
from arm_ext.frontends.preprocess.options import read_preprocess
from arm_ext.frontends.preprocess.wrap import preprocessed
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases, up_to
from arm_ext.quantization.quantize_model import import_given
from arm_ext.report.calls import CallRow, SourceNodes
from arm_ext.report.explanation import (
    ExplainReport,
    NodePhase,
    NodeReport,
    OperatorFate,
    PhaseCount,
    RuleReport,
    Unapplied,
)
from arm_ext.shapes.given import static_shapes
from arm_ext.target.profiles import resolve
from relay_passes import Explanation
from relay_passes.fusion.combine_matmuls import NAME as COMBINE_MATMULS
from relay_passes.fusion.fuse import pass_name, routines_of
from relay_passes.integerize.dynamic_products import NAME as DYNAMIC_PRODUCTS
from relay_passes.integerize.grouped_products import NAME as GROUPED_PRODUCTS
from relay_passes.ir.sources import Names, bindings_of, global_callees, relax_functions, sources_of
from relay_passes.programs.control_flow import split
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Rule
from relay_passes.rules import subtract_to_add
from relay_passes.rules.registry import PRODUCT_RULES, RULES, TIDY
from schedules.composites.specs import CompositeSpec
from schedules.composites.vocabulary import VOCABULARY
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.numerics import qdq, tosa

if TYPE_CHECKING:
    from jax.export import Exported
    from torch.export import ExportedProgram

    from arm_ext.ethosu.partition.divider import Offloaded

_REWRITES = up_to("fuse")

# Steps, for a progress display.
STEPS = ("import", *(phase.name for phase in _REWRITES), "lower", "explain", "compare")

_COMPOSITES = {pass_name(spec): spec for spec in VOCABULARY}

# Each rule and pass that is reported, in the order in which they run.
NAMES: tuple[str, ...] = (
    *(rule.name for rule in RULES),
    "layout",
    "integerize",
    DYNAMIC_PRODUCTS,
    GROUPED_PRODUCTS,
    *(rule.name for rule in PRODUCT_RULES),
    COMBINE_MATMULS,
    *_COMPOSITES,
)

_NO_LAYERS = (
    *("Constant", "Identity"),
    *(
        "If",
        "Loop",
        "Scan",
        "IF",
        "WHILE",
        "cond",
        "while_loop",
        "stablehlo.if",
        "stablehlo.case",
        "stablehlo.while",
    ),
)
"""Operators that compute nothing themselves: constants, and those that choose and repeat others."""

_SWITCHED = {*(rule.name for rule in (*RULES, *PRODUCT_RULES)), COMBINE_MATMULS}
"""Rules without which a model compiles, too."""

_NOT_TRIED = "changes last bits of float results, which could move an integer, and the model is quantised"


@serial
@with_plugins
@shaped_by("inputs", "quantize")
def explain(
    model: "str | Path | onnx.ModelProto | ExportedProgram | Exported",
    rule: str | None = None,
    node: str | None = None,
    options: Options | None = None,
    *,
    target: str = "arm",
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> ExplainReport:
    """Rewrite a model as `compile` does, up to the forming of composites, and report where each rule applied or failed.

    Rejections and near misses are those of a rule's first run, when other rules have changed little, and of its last.

    Args:
        model: An ONNX, TFLite, StableHLO or .pt2 file, a loaded ONNX model, or an exported program of PyTorch or JAX.
        rule: The only one of NAMES, or of the plugins' rules, to tell about; all run in any case, for they make way
            for each other.
        node: A source node to tell all about: what it became phase by phase, which kernel computes it, who declined.
        options: Options in one record.
        target: Name of a profile, whose core estimates are for.
        progress: Called with each of STEPS as it begins.
        more: Options by keyword: those by which a model is read, `mattr` and `npu`, as for `compile`. With `npu` the
            report has how the model is divided, and where the node asked about runs.

    Raises:
        UsageError: There is no such rule or node (near names are listed) or target, or the model file is wrong.
        ModelError: The model holds what cannot be compiled.
    """
    o = gathered("explain", Options, options, more, IMPORT | {"mattr", "npu"})
    brought = load_plugins(o.plugins)
    names = (*NAMES, *(rule.name for rule in brought.rules))
    wanted = [name for name in names if rule in (None, name)]
    if not wanted:
        raise UsageError(f"unknown rule {rule!r}; {near(str(rule), names)}")
    phases = PhaseOptions(
        resolve(target, o.mattr),
        numerics=qdq.NUMERICS if o.npu is None else tosa.NUMERICS,
        more_rules=brought.rules,
        more_kernels=brought.kernels,
    )
    progress("import")
    source = prepared(model, o.values, trust=o.trust)
    imported = import_given(source, static_shapes(o.shapes, "explain"), o.quantize, o.calibration)
    if o.npu is not None and imported.for_npu is not None:
        imported = imported.for_npu()
    imported = preprocessed(imported, read_preprocess(o.preprocess))
    if node is not None:
        found = node_of(node, imported.nodes)
        if found is None:
            raise UsageError(f"{imported.name} has no node {node!r}; {near(node, imported.nodes)}")
        node = found
    if o.npu is not None:
        phases = replace(phases, divide=partitioner(o.npu, imported))
    pieces = split(imported.mod).pieces.values()
    runs = [_run(piece, phases, progress) for piece in pieces]
    progress("explain")
    nodes = SourceNodes(imported.nodes, count_macs(imported.mod))
    calls = tuple(row for run in runs for row in run.calls(nodes, phases.profile.core))
    gain = Gain(calls, nodes)
    explained = {name: _joined([run.record.explanation(name) for run in runs]) for name in wanted}
    reports = [
        _report(name, _definition(name, brought.rules), found, gain) for name, found in explained.items()
    ]
    if node is None and rule is None:
        progress("compare")
        alone = _Without(imported, phases, nodes, sum(call.cycles_with_caches for call in calls))
        reports = [alone.compared(report) for report in reports]
    return ExplainReport(
        model=imported.name,
        fates=tuple(_fates(nodes, calls)),
        rules=tuple(reports),
        phases=tuple(
            PhaseCount(phase=phase, operators=sum(len(run.operators[phase]) for run in runs))
            for phase in runs[0].operators
        ),
        kernel_calls=len(calls),
        cycles_with_caches=sum(call.cycles_with_caches for call in calls),
        npu=None if o.npu is None else _division(runs).report,
        node=None if node is None else _node(node, imported.nodes[node], runs, calls),
    )


@dataclass
class _PhaseRun:
    """The result of the phases for one straight-line function.

    Attributes:
        record: Record of what rules and passes did.
        result: Result of the last phase.
        operators: Phase → the operators after it, each with its source nodes.
    """

    record: RewriteRecord
    result: PhaseResult
    operators: dict[str, list[tuple[str, Names]]]

    def calls(self, nodes: SourceNodes, core: Core) -> tuple[CallRow, ...]:
        """Return the rows of the kernel calls, with their estimates."""
        return self.result.rows(nodes, core)


def _fates(nodes: SourceNodes, calls: Sequence[CallRow]) -> Iterator[OperatorFate]:
    """Yield what became of the layers, by operator, those with the most cycles first."""
    computed = {name for call in calls for name in call.sources}
    named: dict[str, list[CallRow]] = {}
    for call in calls:
        named.setdefault(call.anchor, []).append(call)
    whole = sum(call.cycles_with_caches for call in calls) or 1
    layers: dict[str, list[str]] = {}
    for name, operator in nodes.kinds.items():
        if nodes.is_operator(name) and operator not in _NO_LAYERS:
            layers.setdefault(operator, []).append(name)
    found = []
    for operator, names in layers.items():
        own = [name for name in names if name in named]
        cost = sum(call.cycles_with_caches for name in own for call in named[name])
        found.append(
            OperatorFate(
                operator=operator,
                layers=len(names),
                kernels=dict(Counter(_costliest(named[name]).kernel for name in own).most_common()),
                merged=sum(name in computed and name not in named for name in names),
                gone=sum(name not in computed for name in names),
                share=cost / whole,
            )
        )
    yield from sorted(found, key=lambda fate: -fate.share)


def _costliest(calls: Sequence[CallRow]) -> CallRow:
    return max(calls, key=lambda call: call.cycles_with_caches)


@dataclass(frozen=True)
class _Without:
    """Estimates of a model with one rule switched off at a time.

    Attributes:
        model: The imported model.
        phases: Options of the phases.
        nodes: The source nodes.
        cycles: Estimated cycles with all rules.
    """

    model: ImportedModel
    phases: PhaseOptions
    nodes: SourceNodes
    cycles: int

    def compared(self, report: RuleReport) -> RuleReport:
        """Return a rule's report with what it saves, if it can be switched off and applied anywhere."""
        if report.rule not in _SWITCHED or not report.applied:
            return report
        options = replace(self.phases, divide=None, kernel_cache=KernelCache())
        others = [
            last(
                run_phases(
                    PhaseResult(piece), replace(options, record=RewriteRecord(frozenset({report.rule})))
                )
            )
            for piece in split(self.model.mod).pieces.values()
        ]
        core = self.phases.profile.core
        without = sum(row.cycles_with_caches for other in others for row in other.rows(self.nodes, core))
        return report.model_copy(update={"saved": (without - self.cycles) / (self.cycles or 1)})


_TIDYING = frozenset(rule.name for rule in (*TIDY, subtract_to_add.RULE))


@dataclass(frozen=True)
class Gain:
    """Upper bounds of a rewrite's gain: the cost of calls without products, which could be merged into other calls.

    Attributes:
        calls: Calls of all kernels.
        nodes: The source nodes.
    """

    calls: Sequence[CallRow]
    nodes: SourceNodes

    def has_products(self, nodes: Iterable[str]) -> bool:
        """Return whether source nodes compute products, whose calls cannot be merged into other calls."""
        return any(call.macs and call.anchor in set(nodes) for call in self.calls)

    def of(self, nodes: Iterable[str]) -> float:
        """Return the share of the model's cycles that is saved if the source nodes become one call."""
        # A conversion between float and integers counts as part of the operators on both sides.
        wanted = {name for name in nodes if self.nodes.is_operator(name)}
        found = [call for call in self.calls if wanted & set(call.sources)]
        saved = [call.cycles_with_caches for call in found if not call.macs]
        if len(saved) == len(found):  # one call is left
            saved = sorted(saved)[:-1]
        return sum(saved) / (sum(call.cycles_with_caches for call in self.calls) or 1)

    def place(self, rule: str, diagnostic: Diagnostic) -> Unapplied:
        """Return a rejection, with the gain that the rule would have had without it.

        A rule that only tidies has none: where a call does something, no change of the model lets it go.
        """
        if rule in _TIDYING:
            return Unapplied(
                diagnostic=diagnostic, anchor=self.nodes.anchor(diagnostic.others or diagnostic.nodes)
            )
        nodes, others = diagnostic.nodes, diagnostic.others
        gain = 0.0 if self.has_products(others) else self.of((*nodes, *others))
        return Unapplied(diagnostic=diagnostic, anchor=self.nodes.anchor(others or nodes), gain=gain)


def _node(
    node: str,
    operator: str,
    runs: Sequence[_PhaseRun],
    calls: Sequence[CallRow],
) -> NodeReport:
    phases: list[NodePhase] = []
    for phase in runs[0].operators:
        found = tuple(said for run in runs for said, names in run.operators[phase] if node in names)
        if not phases or phases[-1].operators != found:
            phases.append(NodePhase(phase=phase, operators=found))
    symbols = {call.symbol for call in calls if node in call.sources}
    kernels = [kernel for run in runs for kernel in run.result.kernels if node in kernel.sources]
    divided = None if runs[0].result.division is None else _division(runs)
    return NodeReport(
        node=node,
        operator=operator,
        phases=tuple(phases),
        calls=tuple(call for call in calls if node in call.sources),
        kernels=tuple(kernel for kernel in kernels if kernel.symbol in symbols),
        npu="" if divided is None else divided.report.where(node)[1],
    )


def _division(runs: Sequence[_PhaseRun]) -> "Offloaded":
    """Return the division of a model for an NPU; such a model has only one straight-line function."""
    return cast("Offloaded", runs[0].result.division)


def _operators(mod: tvm.IRModule) -> list[tuple[str, Names]]:
    """Return the operators of a module, each with its result's type and its source nodes."""
    routines, found = routines_of(mod), []
    for _, func in relax_functions(mod):
        if func.attrs and {"Composite", "Primitive"} & set(func.attrs.keys()):
            continue
        for binding in bindings_of(func):
            call = binding.value
            if isinstance(call, tvm.ir.Call):
                name = _callee(mod, call, routines)
                found.append((f"{name} {_type(call.ty)}".rstrip(), sources_of(call)))
    return found


def _callee(mod: tvm.IRModule, call: tvm.ir.Call, routines: Mapping[str, str]) -> str:
    callees = global_callees(call)
    if not callees:
        return str(getattr(call.op, "name", call.op)).removeprefix("relax.")
    attributes = getattr(mod[callees[0]], "attrs", None)
    if attributes and "Composite" in attributes:
        return str(attributes["Composite"])
    return routines.get(callees[0], callees[0])


def _type(ty: tvm.ir.Type) -> str:
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return ""
    sizes = (str(int(dim)) if isinstance(dim, tirx.IntImm) else str(dim) for dim in ty.shape.values)
    return f"{'x'.join(sizes) or '1'} {ty.dtype}"


def _run(mod: tvm.IRModule, options: PhaseOptions, progress: Callable[[str], None]) -> _PhaseRun:
    record, operators = RewriteRecord(), {"import": _operators(mod)}
    steps = run_phases(PhaseResult(mod), replace(options, record=record), until=_REWRITES[-1].name)
    for phase in _REWRITES:
        progress(phase.name)
        _, result = next(steps)
        operators[phase.name] = _operators(result.mod)
        if phase.name == "layout":
            kept = (replace(c, reason=f"{c.operator} stays: {c.reason}") for c in result.kept_layout)
            record.passes["layout"] = Explanation(tuple(_channels_last(result.mod)), tuple(kept))
        if phase.name == "integerize":
            left = (replace(c, reason=f"{c.operator} stays in float: {c.reason}") for c in result.left_float)
            record.passes["integerize"] = Explanation(tuple(_integers(result.mod)), tuple(left))
    progress("lower")
    return _PhaseRun(record, last(run_phases(result, options, after=_REWRITES[-1].name)), operators)


def _joined(explanations: Sequence[Explanation | None]) -> Explanation | None:
    """Return a rule's reports on all functions of a model as one; None if the rule was tried on none."""
    tried = [each for each in explanations if each is not None]
    if len(tried) <= 1:
        return next(iter(tried), None)
    return Explanation(
        tuple(names for each in tried for names in each.applied),
        tuple(rejection for each in tried for rejection in each.rejected),
        tuple(miss for each in tried for miss in each.near_misses),
    )


def _channels_last(mod: tvm.IRModule) -> Iterator[Names]:
    """Yield the source nodes of each call with a channels-last layout."""
    for _, func in relax_functions(mod):
        for binding in bindings_of(func):
            attrs = getattr(binding.value, "attrs", None)
            if any(str(getattr(attrs, name, "")).endswith("C") for name in ("data_layout", "layout")):
                yield sources_of(binding.value)


def _integers(mod: tvm.IRModule) -> Iterator[Names]:
    """Yield the source nodes of each call of a routine for quantised operators."""
    routines = routines_of(mod)
    for _, func in relax_functions(mod):
        for binding in bindings_of(func):
            if isinstance(binding.value, tvm.ir.Call) and set(global_callees(binding.value)) & set(routines):
                yield sources_of(binding.value)


def _definition(name: str, brought: Sequence[Rule]) -> str:
    """Return the docstring of a rule's module, which states its algebra, or a composite's pattern.

    `brought`: plugins' rules.
    """
    if name in _COMPOSITES:
        return _made_up(_COMPOSITES[name])
    functions: dict[str, Callable[..., object]] = {
        "layout": relay_passes.to_nhwc,
        "integerize": relay_passes.integerize,
        COMBINE_MATMULS: relay_passes.combine_matmuls,
        DYNAMIC_PRODUCTS: relay_passes.dynamic_products,
        GROUPED_PRODUCTS: relay_passes.grouped_products,
        **{rule.name: rule.rewrite for rule in (*RULES, *PRODUCT_RULES, *brought)},
    }
    return inspect.cleandoc(sys.modules[functions[name].__module__].__doc__ or "")


def _made_up(spec: CompositeSpec) -> str:
    steps = ", ".join(f"{step.name}{'' if step.required else ' or not'}" for step in spec.epilogue)
    after = f", then in this order: {steps}" if steps else ""
    return (
        f"{spec.name}: {spec.anchor}{after}.\n\n"
        "Applied is where one was formed; rejected is why each takes in no more, and why there is none elsewhere."
    )


def _report(name: str, definition: str, explanation: Explanation | None, gain: Gain) -> RuleReport:
    effect = " ".join(definition.partition("\n\n")[0].split())
    if explanation is None:
        return RuleReport(rule=name, effect=effect, definition=definition, not_tried=_NOT_TRIED)
    return RuleReport(
        rule=name,
        effect=effect,
        definition=definition,
        applied=explanation.applied,
        rejected=tuple(gain.place(name, each) for each in explanation.rejected),
        near_misses=tuple(gain.place(name, each) for each in explanation.near_misses),
    )
