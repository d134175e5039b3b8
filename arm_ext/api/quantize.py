# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.quantize`: quantises a float model to ONNX in QDQ form, or its weights only, and measures its accuracy."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from onnx import numpy_helper

from arm_ext.api.accuracy import accuracy
from arm_ext.api.arguments import check_choice, check_type
from arm_ext.api.mixed_precision import Choices, choose_precisions
from arm_ext.api.npu_division import check_npu
from arm_ext.api.options import ModelOptions, gathered
from arm_ext.api.plugins import with_plugins
from arm_ext.api.sample_shapes import shaped_by
from arm_ext.common.errors import ArmExtError, ModelError, UsageError
from arm_ext.common.names import near
from arm_ext.common.outputs import checked_file, refuse_inputs, write_file
from arm_ext.common.scratch import temporary
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.common.state import read_initial, with_states
from arm_ext.frontends.load import prepared
from arm_ext.frontends.onnx.check import check_valid, set_input_shapes
from arm_ext.frontends.onnx.external_files import with_external_files
from arm_ext.frontends.onnx.importer import import_onnx, input_specs, read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.frontends.preprocess.options import Preprocess
from arm_ext.package.manifest import ActivationType, Correction, Method, Sparsity, WeightType
from arm_ext.pipeline.estimate import estimate
from arm_ext.quantization.in_float32 import in_float32
from arm_ext.quantization.layers import DEQUANTIZE, Matching
from arm_ext.quantization.metrics import Metric, chosen_metric
from arm_ext.quantization.mixed_precision import Judge
from arm_ext.quantization.prune import LEAST, prune_two_of_four
from arm_ext.quantization.quantize_model import float_onnx
from arm_ext.quantization.samples import Data, read_samples
from arm_ext.quantization.static import Quantizer
from arm_ext.quantization.steps import OnnxStates
from arm_ext.quantization.weight_only import WeightOnly, with_dims_of
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.record import GOOD_DB, AccuracyReport, MixedPrecision, Remedy, not_compared
from arm_ext.shapes.given import static_shapes
from arm_ext.target.profiles import resolve

STEPS = ("quantize", "search", "compare")
"""Steps of `quantize`, for a progress display."""

_REMEDY = 2
"""Largest number of layers that a remedy leaves in float, the worst ones first."""

_LEAST_DB = 1.0
"""Smallest gain of the outputs' SQNR, in dB, for which a remedy is reported."""

_NO_NOISE = 1e-20
"""Stands in for no noise at all: 200 dB."""

GROUP = 32
"""Weights of 4 bits that share a scale, by default: 5 bits a weight with it."""
_MOST_OF_GROUP = 1 << 16
"""Most weights that share a scale; matrices are padded to whole groups, which takes memory."""


@dataclass(frozen=True)
class QuantizeResult:
    """The result of `quantize`.

    Attributes:
        path: File of the quantised model.
        accuracy: Comparison with the float model on the samples of the calibration.
    """

    path: Path
    accuracy: AccuracyReport


_TAKEN = frozenset(
    {"shapes", "values", "trust", "preprocess", "state", "state_init", "calibration", "plugins", "npu"}
)


@dataclass(frozen=True, kw_only=True)
class QuantizeOptions(ModelOptions):
    """The options of `quantize`; of `Options` it has `shapes`, `values`, `preprocess`, `state` and `calibration`.

    What is written has no inputs of `values`, and static `shapes`; with `weights` the comparison alone is of these
    shapes. With `state` samples are consecutive steps.

    Attributes:
        weights: Type of the weights of matrix products where these alone are quantised: "int8" with a scale an output
            channel, or "int4" with a scale a group.
        activations: Type of the activations.
        int16: Source nodes that read int16 where others read int8; so do others that read these tensors.
        float16: Source nodes that compute in binary16, between casts of the written model.
        group: Weights of int4 along the sum that share a scale; by default GROUP.
        correct: What loses less: "equalize" and "smooth" bring channels of the float model to like ranges, before a
            product and behind a LayerNormalization; "bias" makes up for shifts of the mean; "round" rounds weights so
            that results are nearest, not the weights.
        keep_float: Source nodes that stay in float.
        only: If given, all source nodes stay in float but these and those of `int16` and `float16`.
        sparsity: "2:4" sets the two smallest of each four weights along the input channels to 0 first, for an
            Ethos-U85; the accuracy is against the model with all weights.
        plugins: As for `compile`; onnxruntime calibrates without them.
        trust: As for `compile`.
        metric: As for `accuracy`.
        max_drop: Greatest drop of the metric from the float model, in QDQ form; layers are in int16, float16 or float32
            for it, in the way that is the fastest by the estimates of kernels.
        npu: An Ethos-U, as for `compile`: what it takes restricts that choice and is priced with it, by Vela's
            estimates and hand-overs. The comparison is then of TOSA's numerics, as for `accuracy`.
    """

    weights: WeightType | None = None
    activations: ActivationType = "int8"
    int16: Sequence[str] = ()
    float16: Sequence[str] = ()
    group: int | None = None
    correct: Sequence[Correction] = ()
    keep_float: Sequence[str] = ()
    only: Sequence[str] = ()
    sparsity: Sparsity | None = None
    plugins: Sequence[str | Path] = ()
    trust: bool = False
    metric: str | None = None
    max_drop: float | None = None
    npu: NpuOptions | str | None = None


@with_plugins
@shaped_by("data")
def quantize(
    model: str | Path,
    data: Data | None,
    output: str | Path,
    options: ModelOptions | None = None,
    *,
    target: str = "arm",
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> QuantizeResult:
    """Quantise a float model in QDQ form, and compare it with the float model layer by layer.

    Weights are symmetric, a scale each channel; activations of int8 have a scale and a zero point, those of int16 are
    symmetric; or activations stay in float.

    Args:
        model: A file of any format that `compile` takes; what is written is ONNX, with the nodes' names of the source.
        data: Calibration samples, as for `accuracy`. None with `weights`: these need no samples, and the comparison is
            on random inputs.
        output: The .onnx file to write.
        options: Options in one record.
        target: Profile that the estimates of kernels are for, with `max_drop`.
        progress: Called with each of STEPS as it begins; "search" is left out without `max_drop`.
        more: Options by keyword, the attributes of `QuantizeOptions`.

    KeyboardInterrupt during a search for `max_drop`, and after it, is no error: it ends the step that is running, and
    the best choice so far is written. A comparison that it ends before its first sample tells of no samples.

    Raises:
        UsageError: The model, the data, a node's name or the output is wrong, or options do not go together.
        ModelError: There is nothing to prune or to quantise; onnxruntime cannot quantise the model, or it cannot be
            compiled, or its metric drops further even with all layers in float.
    """
    o = gathered("quantize", QuantizeOptions, options, more, _TAKEN)
    _check_choices(o)
    _check_nodes(keep_float=o.keep_float, int16=o.int16, float16=o.float16, only=o.only)
    how = _weight_only(o.weights, o.group)
    if how is not None:
        _refuse_activations(
            o.calibration,
            o.correct,
            {
                "--sparsity": o.sparsity is not None,
                "--max-drop": o.max_drop is not None,
                "int16": bool(o.int16) or o.activations != "int8",
                "--float16": bool(o.float16),
                "--npu": o.npu is not None,
            },
        )
    source, path = Path(model), Path(output)
    if data is None and (how is None or o.correct):
        raise UsageError(
            f"--data is missing: {'--correct' if o.correct else 'quantising activations'} needs calibration "
            "samples: an .npz file with one array for each input, or a folder of images; --weights int8 and "
            "int4 alone need no samples"
        )
    _check_files(source, data, path)
    npu = NpuOptions(o.npu) if isinstance(o.npu, str) else o.npu
    resolve(target, None)  # an unknown target is reported before any work
    if npu is not None:
        check_npu(npu)
    progress("quantize")
    fixed = static_shapes(o.shapes, "quantize")
    float_model, _ = float_onnx(prepared(source, o.values, trust=o.trust), (fixed,))
    arrays = _arrays(data, partial(_inputs, float_model, fixed), o.preprocess)
    keep_float = o.keep_float
    if o.only:
        keep_float = [node for node in _others(float_model, o.only) if node not in {*o.int16, *o.float16}]
    steps = OnnxStates(o.state or {}, read_initial(o.state_init))
    make = partial(
        Quantizer, samples=arrays, method=o.calibration, choices=(fixed,), weights=how, steps=steps
    )
    whole = None if o.sparsity is None else make(float_model)
    given, pruned = (float_model, ()) if o.sparsity is None else _pruned(float_model)
    quantizer = make(
        given,
        keep_float=keep_float,
        corrections=o.correct,
        pruned_from=whole,
        activations=o.activations,
        int16=o.int16,
        float16=o.float16,
    )
    # A faulty metric is reported before any work.
    judged = chosen_metric(o.metric, arrays, quantizer.samples)
    if o.state or o.state_init is not None:
        with_states(import_onnx(quantizer.float_model(fixed)), steps.pairs, steps.initial)
    gate = Gate(max_drop=o.max_drop)
    gate.check(None if judged is None else judged.name, quantizer.samples)
    # It measures the float model, and so reports faults of a user's metric function.
    judge = None if judged is None else _judge(quantizer, whole or quantizer, fixed, judged, gate, steps)
    mixed = None
    if o.max_drop is not None and judge is not None:
        progress("search")
        mixed = _mixed(quantizer, (whole or quantizer).float_model(fixed), fixed, judge, gate, target, npu)
    chosen = ((), (), ()) if mixed is None else (mixed.nodes, mixed.int16_nodes, mixed.float16_nodes)
    made = quantizer.quantized(fixed, *chosen)
    if mixed is not None and not any(node.op_type == DEQUANTIZE for node in made.graph.node):
        if mixed.complete and len(mixed.choices) == 1:  # none is cheaper, and so not all int8 either
            raise ModelError(
                f"{source.stem}: the float model is the fastest by the estimates for {target}; compile it as it is, or "
                "quantise it for its size, without --max-drop"
            )
        raise ModelError(
            f"{source.stem}: {mixed.bound} holds only with all {len(mixed.layers)} layers in float, which leaves "
            "nothing to quantise; "
            + (
                "allow a larger --max-drop, or compile the float model"
                if mixed.complete
                else "the search was stopped before it found another choice, and nothing is written"
            )
        )
    if how is not None:
        made = with_dims_of(made, read_onnx(float_model)[0])
    # The quantised model keeps the states' default values of its source.
    made.graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in quantizer.defaults.items())
    progress("compare")
    with temporary() as folder:
        against = float_model
        if {"equalize", "smooth"} & set(o.correct):
            # Rescaled channels are compared with a float model whose channels are rescaled, too.
            against = _written(quantizer.float_model(fixed), folder / f"{source.stem}.onnx")
        try:
            report = accuracy(
                _written(made, folder / "quantized" / path.name),
                against,
                arrays,
                metric=o.metric,
                plugins=o.plugins,
                shapes=o.shapes,
                state=o.state,
                state_init=o.state_init,
                npu=npu,
                target=None if npu is None else target,
            )
        except KeyboardInterrupt:
            if mixed is None:
                raise
            report = not_compared(path.stem, source.stem, quantizer.samples)  # what was chosen is kept
    write_file(path, made.SerializeToString(), "-o")
    worst = min((output.integers.sqnr_db for output in report.outputs), default=GOOD_DB)
    if mixed is None and how is None and npu is None and worst < GOOD_DB and not o.only:
        if judge is None:
            cosine = chosen_metric("cosine", arrays, quantizer.samples)
            assert cosine is not None
            judge = _judge(quantizer, whole or quantizer, fixed, cosine, gate, steps)
        named = None if judged is None else judged.name
        kept = _Kept(judge, partial(quantizer.quantized, fixed), o.keep_float, target, named)
        with suppress(ArmExtError):  # the model is written, with or without a remedy
            report = report.model_copy(update={"remedy": kept.remedy(made, report)})
    if mixed is not None and (found := report.metric) is not None:
        mixed = mixed.model_copy(update={"in_integers": gate.holds(found.integers, found.drop)})
    return QuantizeResult(path, report.model_copy(update={"mixed": mixed, "pruned": pruned}))


@dataclass(frozen=True)
class _Kept:
    """Measures the gain and the cost of leaving the worst layers in float.

    Attributes:
        judge: Measures models.
        build: Returns the quantised model with nodes left in float, besides `given`.
        given: Nodes that are left in float already.
        target: Target that cycles are estimated for.
        metric: Name of the metric that was asked for, if one was.
    """

    judge: Judge
    build: Callable[[Sequence[str]], onnx.ModelProto]
    given: Sequence[str]
    target: str
    metric: str | None

    def remedy(self, made: onnx.ModelProto, report: AccuracyReport) -> Remedy | None:
        """Return the remedy for a quantised model; None if the outputs gain less than 1 dB."""
        bad = report.to_blame() or [layer for layer in report.worst() if layer.kept_db < GOOD_DB]
        bad = [layer for layer in bad if layer.nodes]  # an input has none
        for count in range(min(_REMEDY, len(bad)), 0, -1):
            nodes = [node for layer in bad[:count] for node in layer.nodes]
            other = self.build(nodes)
            if any(node.op_type == DEQUANTIZE for node in other.graph.node):
                return self._measured(made, other, nodes, count)
        return None

    def _measured(
        self, made: onnx.ModelProto, other: onnx.ModelProto, nodes: Sequence[str], layers: int
    ) -> Remedy | None:
        before, after = (_decibels(max(self.judge.noises(model))) for model in (made, other))
        if after - before < _LEAST_DB:
            return None
        metrics: list[float] = []
        if self.metric is not None:
            metrics = [self.judge.trial(model, frozenset()).metric for model in (made, other)]
        profile = resolve(self.target, None)
        cycles, more = (estimate(import_onnx(model), profile).cycles for model in (made, other))
        return Remedy(
            nodes=(*self.given, *nodes),
            layers=layers,
            before_db=before,
            after_db=after,
            metric=self.metric,
            before=metrics[0] if metrics else None,
            after=metrics[1] if metrics else None,
            target=self.target,
            cycles=more / (cycles or 1),
        )


def _decibels(noise: float) -> float:
    return round(-10 * math.log10(max(noise, _NO_NOISE)), 2)


def _check_choices(options: QuantizeOptions) -> None:
    check_choice("activations", options.activations, ActivationType)
    for each in options.correct:
        check_choice("correct", each, Correction)
    if options.sparsity is not None:
        check_choice("sparsity", options.sparsity, Sparsity)
        _refuse_rescaling(options.correct)


def _check_nodes(**options: Sequence[str]) -> None:
    """Check the options that are lists of node names."""
    for option, names in options.items():
        for name in names:
            check_type(option, name, str)
    if options["only"] and options["keep_float"]:
        raise UsageError("--only and --keep-float exclude each other: --only keeps all other nodes in float")


def _check_files(source: Path, data: Data | None, path: Path) -> None:
    """Check that the file to write is ONNX, and none of those that are read."""
    if path.suffix != ".onnx":
        raise UsageError(f"{path}: the quantised model is ONNX; name a file that ends with .onnx by -o")
    read = [source, *([Path(data)] if isinstance(data, str | Path) else [])]
    refuse_inputs(checked_file(path, "-o"), "-o", with_external_files(read))


def _arrays(
    data: Data | None,
    inputs: Callable[[], tuple[TensorSpec, ...]],
    preprocess: Preprocess | str | Path | None,
) -> Mapping[str, npt.NDArray[Any]]:
    """Return samples: input → array with samples along the first axis; without data, one random sample."""
    if data is not None:
        return read_samples(data, inputs, preprocess, "calibration samples, an array an input")
    drawn = zip(inputs(), random_inputs(inputs()), strict=True)
    return {spec.name: value[None] for spec, value in drawn}


def _written(model: onnx.ModelProto, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    write_file(path, model.SerializeToString(), "-o")
    return path


def _others(source: onnx.ModelProto | Path, only: Sequence[str]) -> list[str]:
    """Return the names of all nodes except those in `only`."""
    proto, name, _ = read_onnx(source)
    name_nodes(proto.graph)
    nodes = [node.name for node in proto.graph.node]
    for each in only:
        if each not in nodes:
            raise UsageError(f"--only {each}: {name} has no such node; {near(each, nodes)}")
    return [each for each in nodes if each not in only]


def _weight_only(weights: WeightType | None, group: int | None) -> WeightOnly | None:
    if group is not None and weights != "int4":
        raise UsageError("--group is for --weights int4; 8-bit weights have one scale per output channel")
    if weights is None:
        return None
    check_choice("weights", weights, WeightType)
    group = GROUP if group is None else group
    check_type("group", group, int)
    if group < 1:
        raise UsageError(f"--group {group}: a group has at least one weight; {GROUP} and 128 are usual")
    if group > _MOST_OF_GROUP:
        raise UsageError(
            f"--group {group}: a group has at most {_MOST_OF_GROUP} weights; {GROUP} and 128 are usual"
        )
    return WeightOnly(weights, group)


def _refuse_activations(
    calibration: Method, correct: Sequence[Correction], others: Mapping[str, bool]
) -> None:
    """Refuse options that only affect integer activations.

    `others` maps further such options to whether they are given.
    """
    asked = {
        f"--calibration {calibration}": calibration != "minmax",
        **{f"--correct {name}": name in correct for name in ("equalize", "smooth")},
        **others,
    }
    if found := [name for name, given in asked.items() if given]:
        raise UsageError(
            f"{found[0]} cannot be combined with --weights, which leaves activations in float; leave one of the two out"
        )


def _inputs(source: onnx.ModelProto | Path, shapes: Shapes) -> tuple[TensorSpec, ...]:
    proto, name, _ = read_onnx(source)
    proto = in_float32(proto)
    check_valid(proto, name)
    set_input_shapes(proto, shapes)
    return input_specs(proto.graph)


def _refuse_rescaling(correct: Sequence[Correction]) -> None:
    """Refuse corrections that rescale channels: the accuracy's baseline would be a rescaled, pruned model."""
    if found := [each for each in correct if each in ("equalize", "smooth")]:
        raise UsageError(
            f"--sparsity and --correct {found[0]} cannot be combined; quantise a model that was pruned before"
        )


def _pruned(source: onnx.ModelProto | Path) -> tuple[onnx.ModelProto | Path, tuple[str, ...]]:
    proto, name, _ = read_onnx(source)
    proto = in_float32(proto)
    name_nodes(proto.graph)
    pruned, nodes = prune_two_of_four(proto)
    if not nodes:
        raise ModelError(
            f"{name}: it has no weights to prune 2:4: no Conv of one group, MatMul or Gemm has constant weights for "
            f"at least {LEAST} input channels"
        )
    return pruned, nodes


def _judge(
    quantizer: Quantizer, whole: Quantizer, shapes: Shapes, metric: Metric, gate: Gate, steps: OnnxStates
) -> Judge:
    """Return the `Judge` that measures quantised models on the samples; `whole` quantises the unpruned float model."""
    source = whole.float_model(shapes)
    carried = {name: output for name, output in steps.pairs.items() if name not in quantizer.given}
    return Judge.of_onnx(source.graph.name, source, quantizer.feeds(), metric, gate.holds, carried)


def _mixed(
    quantizer: Quantizer,
    source: onnx.ModelProto,
    shapes: Shapes,
    judge: Judge,
    gate: Gate,
    target: str,
    npu: NpuOptions | None,
) -> MixedPrecision:
    """Choose the layers in int16 and in float that give the fastest model within the bounds."""
    return choose_precisions(
        Choices.of_onnx(Matching(source, quantizer.quantized(shapes)), partial(quantizer.quantized, shapes)),
        judge,
        target,
        gate.describe(judge.metric.name),
        fewest=False,
        npu=npu,
    )
