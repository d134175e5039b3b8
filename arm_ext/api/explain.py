# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.explain`: what each rewrite, up to the forming of composites, did to a model, and where not, and why."""

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import tvm

import relay_passes
from arm_ext.api.serial import serial
from arm_ext.common.names import near
from arm_ext.errors import UsageError
from arm_ext.frontends.load import trusted
from arm_ext.frontends.preprocess.options import Preprocess, read_preprocess
from arm_ext.frontends.preprocess.wrap import preprocessed
from arm_ext.package.manifest import Method
from arm_ext.pipeline.phases import PHASES, Context
from arm_ext.quantization.quantize_model import import_given
from arm_ext.report.explanation import ExplainReport, Miss, NearMiss, Rejected, RuleReport
from arm_ext.shapes.given import Given, static_shapes
from arm_ext.target.profiles import resolve
from relay_passes import Explanation, Rejection
from relay_passes.fusion.combine_matmuls import NAME as COMBINE_MATMULS
from relay_passes.fusion.fuse import pass_name, routines_of
from relay_passes.integerize.dynamic_products import NAME as DYNAMIC_PRODUCTS
from relay_passes.ir.sources import Names, bindings_of, global_callees, relax_functions, sources_of
from relay_passes.programs.control_flow import split
from relay_passes.rewriter.recording import Record, recording
from relay_passes.rules.registry import PRODUCT_RULES, RULES
from schedules.composites.specs import CompositeSpec
from schedules.composites.vocabulary import VOCABULARY

if TYPE_CHECKING:
    from jax.export import Exported
    from torch.export import ExportedProgram

_PHASES = PHASES[: 1 + [phase.name for phase in PHASES].index("fuse")]

# Steps, for a progress display.
STEPS = ("import", *(phase.name for phase in _PHASES), "explain")

_COMPOSITES = {pass_name(spec): spec for spec in VOCABULARY}

# Each rule and pass that is told about, in the order in which they are tried.
NAMES: tuple[str, ...] = (
    *(rule.name for rule in RULES),
    "layout",
    "integerize",
    DYNAMIC_PRODUCTS,
    *(rule.name for rule in PRODUCT_RULES),
    COMBINE_MATMULS,
    *_COMPOSITES,
)

_NOT_TRIED = "changes last bits of float results, which could move an integer, and the model quantises"


@serial
def explain(
    model: "str | Path | onnx.ModelProto | ExportedProgram | Exported",
    rule: str | None = None,
    *,
    target: str = "arm",
    trust: bool = False,
    mattr: str | None = None,
    shapes: Given | None = None,
    preprocess: Preprocess | str | Path | None = None,
    quantize: str | Path | None = None,
    calibration: Method = "minmax",
    progress: Callable[[str], None] = lambda step: None,
) -> ExplainReport:
    """Rewrite a model as `compile` does, up to the forming of composites, and tell what was done and what was left.

    Rejections and near misses are those of a rule's first run, when other rules have changed little, and of its last.

    Args:
        model: An ONNX, TFLite, StableHLO or .pt2 file, a loaded ONNX model, or an exported program of PyTorch or JAX.
        rule: The only one of NAMES to tell about; all run in any case, for they make way for each other.
        target: Name of a profile, whose core estimates are for.
        trust: As for `compile`.
        mattr: Features to add and remove, such as "+i8mm,-sve".
        shapes: Input name → static shape, for inputs with dynamic dimensions.
        preprocess: As for `compile`.
        quantize: As for `compile`.
        calibration: As for `compile`.
        progress: Called with each of STEPS as it begins.

    Raises:
        UsageError: There is no such rule (near names are listed) or target, or the model file is wrong.
        ModelError: The model holds what cannot be compiled.
    """
    wanted = [name for name in NAMES if rule in (None, name)]
    if not wanted:
        raise UsageError(f"unknown rule {rule!r}; {near(str(rule), NAMES)}")
    context = Context(resolve(target, mattr))
    progress("import")
    source = trusted(model) if trust else model
    imported = import_given(source, static_shapes(shapes, "explain"), quantize, calibration)
    imported = preprocessed(imported, read_preprocess(preprocess))
    pieces = split(imported.mod).pieces.values()
    records = [_recorded(piece, context.of_piece(), progress) for piece in pieces]
    progress("explain")
    reports = tuple(_report(name, _joined([r.explanation(name) for r in records])) for name in wanted)
    return ExplainReport(model=imported.name, rules=reports)


def _recorded(mod: tvm.IRModule, context: Context, progress: Callable[[str], None]) -> Record:
    with recording() as record:
        for phase in _PHASES:
            progress(phase.name)
            mod = phase.run(mod, context)
            if phase.name == "layout":
                kept = (Rejection(f"{c.operator} stays: {c.reason}", c.sources) for c in context.kept_layout)
                record.passes["layout"] = Explanation(tuple(_channels_last(mod)), tuple(kept))
            if phase.name == "integerize":
                left = (
                    Rejection(
                        f"{c.operator} stays in float: {c.reason}", c.sources, c.limit or None, c.actual
                    )
                    for c in context.left_float
                )
                record.passes["integerize"] = Explanation(tuple(_integers(mod)), tuple(left))
    return record


def _joined(explanations: Sequence[Explanation | None]) -> Explanation | None:
    """What became of a rule in all functions of a model; None if it was tried in none."""
    tried = [each for each in explanations if each is not None]
    if len(tried) <= 1:
        return next(iter(tried), None)
    return Explanation(
        tuple(names for each in tried for names in each.applied),
        tuple(rejection for each in tried for rejection in each.rejected),
        tuple(miss for each in tried for miss in each.near_misses),
    )


def _channels_last(mod: tvm.IRModule) -> Iterator[Names]:
    """The calls that have a data layout, and now channels last."""
    for _, func in relax_functions(mod):
        for binding in bindings_of(func):
            attrs = getattr(binding.value, "attrs", None)
            if any(str(getattr(attrs, name, "")).endswith("C") for name in ("data_layout", "layout")):
                yield sources_of(binding.value)


def _integers(mod: tvm.IRModule) -> Iterator[Names]:
    """What each call of a numerics' routine computes."""
    routines = routines_of(mod)
    for _, func in relax_functions(mod):
        for binding in bindings_of(func):
            if isinstance(binding.value, tvm.ir.Call) and set(global_callees(binding.value)) & set(routines):
                yield sources_of(binding.value)


def _definition(name: str) -> str:
    """What it does: the algebra that its module states, or how a composite is made up."""
    if name in _COMPOSITES:
        return _made_up(_COMPOSITES[name])
    functions: dict[str, Callable[..., object]] = {
        "layout": relay_passes.to_nhwc,
        "integerize": relay_passes.integerize,
        COMBINE_MATMULS: relay_passes.combine_matmuls,
        DYNAMIC_PRODUCTS: relay_passes.dynamic_products,
        **{rule.name: rule.rewrite for rule in (*RULES, *PRODUCT_RULES)},
    }
    return inspect.cleandoc(sys.modules[functions[name].__module__].__doc__ or "")


def _made_up(spec: CompositeSpec) -> str:
    steps = ", ".join(f"{step.name}{'' if step.required else ' or not'}" for step in spec.epilogue)
    after = f", then in this order: {steps}" if steps else ""
    return (
        f"{spec.name}: {spec.anchor}{after}.\n\n"
        "Applied is where one was formed; rejected is why each takes in no more, and why there is none elsewhere."
    )


def _report(name: str, explanation: Explanation | None) -> RuleReport:
    definition = _definition(name)
    effect = " ".join(definition.partition("\n\n")[0].split())
    if explanation is None:
        return RuleReport(rule=name, effect=effect, definition=definition, not_tried=_NOT_TRIED)
    return RuleReport(
        rule=name,
        effect=effect,
        definition=definition,
        applied=explanation.applied,
        rejected=tuple(map(_rejected, explanation.rejected)),
        near_misses=tuple(
            NearMiss(
                nodes=near_miss.nodes,
                misses=tuple(Miss(expected=m.expected, found=m.found, at=m.at) for m in near_miss.misses),
            )
            for near_miss in explanation.near_misses
        ),
    )


def _rejected(rejection: Rejection) -> Rejected:
    compared = rejection.limit is not None
    return Rejected(
        nodes=rejection.nodes,
        reason=rejection.reason,
        limit=str(rejection.limit) if compared else "",
        actual=str(rejection.actual) if compared else "",
        cost=rejection.cost,
    )
