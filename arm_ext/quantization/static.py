# SPDX-License-Identifier: Apache-2.0
"""Static quantisation to QDQ form: int8 weights per channel; int8 activations, or int16 for selected nodes.

onnxruntime's quantiser does the work. This keeps the names of the float model's nodes and turns what can go wrong
into messages. A relu that the zero point of its quantised output covers is dropped by the quantiser.
"""

import contextlib
import io
import logging
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationMethod, QDQQuantizer, QuantType
from onnxruntime.quantization.calibrate import (
    EntropyCalibrater,
    MinMaxCalibrater,
    PercentileCalibrater,
    TensorsData,
)
from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

from arm_ext.common.errors import ArmExtError, ModelError, UsageError
from arm_ext.common.names import near
from arm_ext.frontends.common.refuse import Shapes, reason_of
from arm_ext.frontends.onnx.check import check_supported, check_valid, set_input_shapes
from arm_ext.frontends.onnx.importer import input_specs, read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.frontends.onnx.reference import (
    REFUSALS,
    IsolatedSession,
    open_file,
    open_session,
    write_optimised,
)
from arm_ext.frontends.onnx.shapes import infer_shapes
from arm_ext.frontends.onnx.state import take_defaults
from arm_ext.frontends.onnx.values import values_read
from arm_ext.frontends.onnx.weights import serialise
from arm_ext.package.manifest import ActivationType, Calibration, Correction, Method
from arm_ext.quantization.accuracy import Accuracy
from arm_ext.quantization.bias_correction import correct_biases, mean_shifts
from arm_ext.quantization.float16_layers import IN_HALVES, with_float16_nodes
from arm_ext.quantization.float_layers import units_of
from arm_ext.quantization.in_float32 import in_float32
from arm_ext.quantization.int16_layers import with_int16_nodes, without_effect
from arm_ext.quantization.layers import CORRECTED, RESCALED, Matching, note
from arm_ext.quantization.mse import mse_ranges
from arm_ext.quantization.opset import at_least_opset
from arm_ext.quantization.rescale import rescale
from arm_ext.quantization.rounding import rounded_weights, with_integers
from arm_ext.quantization.samples import split_samples
from arm_ext.quantization.steps import Feed, OnnxStates
from arm_ext.quantization.weight_only import OPSETS, WeightOnly, quantize_weights

_METHODS: dict[str, tuple[Any, dict[str, object]]] = {
    "minmax": (MinMaxCalibrater, {}),
    "percentile": (PercentileCalibrater, {"symmetric": True}),
    # The number of bins of TensorRT's calibrator, whose algorithm this is. onnxruntime's default, one bin for each
    # of the 128 levels, allows no choice and gives the ranges of min-max; its quantize_static accepts no other
    # number, so its two parts are called here separately.
    "entropy": (EntropyCalibrater, {"num_bins": 2048}),
    # Only the calibrator's histograms are used; `mse_ranges` computes the ranges.
    "mse": (PercentileCalibrater, {"symmetric": True, "num_bins": 2048}),
}

_OPERATORS = sorted({*QLinearOpsRegistry, *QDQRegistry})

# The first opset whose QuantizeLinear has an axis, which weights per channel need.
_MIN_OPSET = 13

# Disabled, because it replaces MatMul and Add of rank 3 by Reshape, Gemm, Reshape with new names.
_RENAMING = ["MatMulAddFusion"]

_CONVOLUTIONS, _SOFTMAXES = ("Conv", "ConvTranspose"), ("Softmax", "LogSoftmax")

_NO_STEPS = OnnxStates()

# Maximum number of samples on which a quantised model is compared with its float model, spread evenly.
_COMPARED = 64

# Attention adds such numbers where it does not attend: -1e9, or the least of all floats.
_LEAST_OF_MASKS = 1e6

# -1e4 is such a number, too, before a softmax: of values so large, int8 has a step of 8, and e^-8 is nothing.
_LEAST_OF_MASKED_SCORES = 1e3

# Severity levels of onnxruntime's logger: its default, and one that no message has.
_WARNING, _FATAL = 2, 4


def quantize(
    model: onnx.ModelProto | str | Path,
    samples: Mapping[str, npt.NDArray[Any]],
    *,
    method: Method = "minmax",
    shapes: Shapes | None = None,
) -> onnx.ModelProto:
    """Quantise a float ONNX model for one set of shapes; see `Quantizer`."""
    return Quantizer(model, samples, method, (shapes or {},)).quantized(shapes or {})


class Quantizer:
    """Quantises a float ONNX model for several sets of shapes with one calibration, so that all have equal weights.

    "percentile" (99.999 %), "entropy" and "mse" hold every activation of every sample in memory; "minmax" two numbers
    each.

    Attributes:
        samples: Number of samples.
        given: Names of the inputs that samples hold.
        defaults: The model's default values of states, by the name of the input.
    """

    def __init__(
        self,
        model: onnx.ModelProto | str | Path,
        samples: Mapping[str, npt.NDArray[Any]],
        method: Method,
        choices: Sequence[Shapes],
        steps: OnnxStates = _NO_STEPS,
        keep_float: Sequence[str] = (),
        corrections: Sequence[Correction] = (),
        pruned_from: "Quantizer | None" = None,
        weights: WeightOnly | None = None,
        activations: ActivationType = "int8",
        int16: Sequence[str] = (),
        float16: Sequence[str] = (),
    ) -> None:
        """Read the model and the samples; ranges are computed when they are first needed.

        Args:
            model: A path, or a loaded model, which is left as it was.
            samples: Input name → [n, *shape]; see `split_samples`. States may be left out.
            method: How an activation's range follows from the samples.
            choices: Sets of shapes: input name → static shape, for inputs with dynamic dimensions. The samples are of
                the first set that they fit.
            steps: States of the model.
            keep_float: Nodes that stay in float.
            corrections: Changes of the float model that lower the error in int8; they need a single set of
                shapes.
            pruned_from: If the model was pruned here, the quantiser of the unpruned model, whose means bias correction
                restores.
            weights: How to quantise weights only; activations stay in float then.
            activations: Type of the activations.
            int16: Nodes that read int16, whatever `activations` says.
            float16: Nodes that compute in binary16.

        Raises:
            UsageError: A node that is named does not exist, is in two lists, or cannot be in binary16; the model is
                quantised already or has dynamic inputs without a shape; or samples do not fit.
            ModelError: The model has operators that cannot be compiled.
        """
        self._model, self._steps, self._keep_float = model, steps, keep_float
        self._method, self._corrections = method, corrections
        self._whole, self._weights = pruned_from or self, weights
        self._activations, self._int16, self._float16 = activations, int16, float16
        self._floats = [*keep_float, *float16]
        self._latest: tuple[object, onnx.ModelProto] | None = None
        self._shapes, self._proto, self._feeds = self._fitting(samples, choices)
        self.samples, self.given = len(self._feeds), frozenset(self._feeds[0])

    @cached_property
    def _ready(self) -> onnx.ModelProto:
        with _refusing(self._name):
            proto = self._prepared(self._proto)
            proto, rescaled = rescale(proto, self._corrections, self._followed_all(proto))
            if rescaled:
                note(proto, RESCALED, rescaled)
            return proto

    @cached_property
    def _shifts(self) -> Mapping[str, npt.NDArray[Any]]:
        if "bias" not in self._corrections:
            return {}
        quantized = self._inserted(self._ready, self._floats)
        source = self._whole._ready
        return mean_shifts(source, quantized, self._followed_all(source))

    @cached_property
    def _integers(self) -> Mapping[str, npt.NDArray[Any]]:
        if "round" not in self._corrections:
            return {}
        nearest = self._nearest(self._ready, self._floats)
        return rounded_weights(self._ready, nearest, self._followed_all(self._ready))

    @cached_property
    def _ranges(self) -> "_Ranges":
        with _refusing(self._name):
            return _calibrated(self._ready, self._followed(self._feeds), self._method)

    def quantized(
        self,
        shapes: Shapes,
        keep_float: Sequence[str] = (),
        int16: Sequence[str] = (),
        float16: Sequence[str] = (),
    ) -> onnx.ModelProto:
        """Return the model in QDQ form, with static shapes, and without default values of its states.

        Nodes keep their names (the front end's, where they had none); what quantisation added has names of its own.

        Args:
            shapes: One of the sets of shapes that the constructor was given.
            keep_float: Nodes that stay in float besides those of the constructor.
            int16: Nodes that read int16 besides those of the constructor.
            float16: Nodes that compute in binary16 besides those of the constructor.

        Raises:
            UsageError: As the constructor, or int16 would change nothing about a node that the constructor was given.
            ModelError: As the constructor, or onnxruntime cannot run or quantise the model.
        """
        made_for = (shapes, list(keep_float), list(int16), list(float16))
        if self._latest is None or self._latest[0] != made_for:
            self._latest = made_for, self._quantized(*made_for)
        # The measurement of accuracy and the import both get this model, and each may change its copy.
        copy = onnx.ModelProto()
        copy.CopyFrom(self._latest[1])
        return copy

    def _quantized(
        self, shapes: Shapes, keep_float: Sequence[str], int16: Sequence[str], float16: Sequence[str]
    ) -> onnx.ModelProto:
        with _refusing(self._name):
            kept = [*self._floats, *keep_float, *float16]
            proto = correct_biases(self.float_model(shapes), self._shifts, kept)
            if self._shifts:
                note(proto, CORRECTED, sorted(set(self._shifts).difference(kept)))
            return with_float16_nodes(self._inserted(proto, kept, int16), {*self._float16, *float16})

    def feeds(self) -> list[Feed]:
        """Return the samples, each with the states that its step starts from."""
        with _refusing(self._name):
            return list(self._followed_all(self._ready))

    def float_model(self, shapes: Shapes) -> onnx.ModelProto:
        """Return the float model to quantise: with static shapes and folded batch norms, without default states."""
        if shapes == self._shapes:
            return self._ready
        return self._prepared(self._read(shapes))

    def calibration(self, method: Method, sha256: str) -> Calibration:
        """Return how the model was quantised, and its distance from the float model on the samples."""
        with _refusing(self._name), tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "model.onnx"
            onnx.save(self._ready, path)
            accuracy = _compared(
                self._ready, self.quantized(self._shapes), self._followed(self._feeds)(path), self.samples
            )
        return Calibration(
            method=method,
            samples=self.samples,
            sha256=sha256,
            compared=accuracy.compared,
            distance=accuracy.distances(),
            largest={
                name: _rounded(max(float(np.max(np.abs(feed[name]), initial=0.0)) for feed in self._feeds))
                for name, value in self._feeds[0].items()
                if value.dtype.kind == "f"
            },
        )

    def _inserted(
        self, proto: onnx.ModelProto, keep_float: Sequence[str], int16: Sequence[str] = ()
    ) -> onnx.ModelProto:
        made = with_integers(self._nearest(proto, keep_float), self._integers)
        everything = [node.name for node in proto.graph.node] if self._activations == "int16" else []
        wide = {*everything, *self._int16, *int16}.difference(keep_float)
        if not wide:
            return made
        matching = Matching(proto, made)
        self._refuse_without_effect(matching, wide)
        return with_int16_nodes(matching, wide)

    def _refuse_without_effect(self, matching: Matching, wide: Collection[str]) -> None:
        """Refuse --int16 for a node that reads no quantised tensor."""
        idle = set(without_effect(matching, wide))
        for name in (name for name in self._int16 if name in idle):
            owner = next((unit.name for unit in units_of(matching) if name in unit.nodes), name)
            why = (
                f"it is part of the layer {owner}; name that"
                if owner != name
                else "what it reads stays in float; leave it out"
            )
            raise UsageError(
                f"--int16 {name}: it reads no quantised tensor, so int16 would have no effect: {why}"
            )

    def _nearest(self, proto: onnx.ModelProto, keep_float: Sequence[str]) -> onnx.ModelProto:
        """Return the quantised model, with weights rounded to the nearest integers."""
        if self._weights is not None:
            return quantize_weights(proto, self._weights, keep_float)
        return _insert_qdq(proto, self._ranges, keep_float)

    def _prepared(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        least = _MIN_OPSET if self._weights is None else OPSETS[self._weights.type]
        infer_shapes(proto, self._name)
        proto = fold_into_convolutions(at_least_opset(proto, self._name, least))
        infer_shapes(proto, self._name)
        return proto

    def _read(self, shapes: Shapes) -> onnx.ModelProto:
        proto, self._name, _ = read_onnx(self._model)
        proto = in_float32(proto)
        self.defaults = take_defaults(proto, self._steps.pairs)
        check_valid(proto, self._name)
        if quantized := [node.op_type for node in proto.graph.node if "QuantizeLinear" in node.op_type]:
            raise UsageError(
                f"{self._name}: is already quantised ({len(quantized)}x {quantized[0]}); compile it unchanged, or "
                "quantise the float model that it was quantised from"
            )
        set_input_shapes(proto, shapes)
        name_nodes(proto.graph)
        check_supported(proto, refused={})
        nodes = {node.name for node in proto.graph.node}
        named = {"--keep-float": self._keep_float, "--int16": self._int16, "--float16": self._float16}
        for option, names in named.items():
            for name in names:
                if name not in nodes:
                    raise UsageError(f"{option} {name}: {self._name} has no such node; {near(name, nodes)}")
        for (one, names), (other, others) in combinations(named.items(), 2):
            if both := [name for name in others if name in names]:
                raise UsageError(f"{other} {both[0]}: is also named by {one}; remove one of the two")
        for node in proto.graph.node:
            if node.name in self._float16 and node.op_type not in IN_HALVES:
                raise UsageError(
                    f"--float16 {node.name}: {node.op_type} is computed in float32; name it by --keep-float"
                )
        return proto

    def _fitting(
        self, samples: Mapping[str, npt.NDArray[Any]], choices: Sequence[Shapes]
    ) -> tuple[Shapes, onnx.ModelProto, list[Feed]]:
        """Return the first shapes that the samples match, the model with these shapes, and the list of samples."""
        faults: list[str] = []
        for shapes in choices:
            proto = self._read(shapes)
            specs = input_specs(proto.graph)
            needed = [spec for spec in specs if spec.name in samples or spec.name not in self._steps.pairs]
            try:
                return shapes, proto, split_samples(samples, needed)
            except UsageError as err:
                faults.append(str(err))
        raise UsageError("; ".join(dict.fromkeys(faults)))

    def _followed(self, feeds: list[Feed]) -> Callable[[Path], Iterator[Feed]]:
        return lambda path: self._steps.follow(path, self.defaults, feeds)

    def _followed_all(self, proto: onnx.ModelProto) -> Iterator[Feed]:
        """Yield the samples, each with the states from which its step starts."""
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "model.onnx"
            onnx.save(proto, path)
            yield from self._followed(self._feeds)(path)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


@contextlib.contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Open a scope in which the quantiser's exceptions become ModelErrors, and its output is discarded."""
    try:
        with _quiet():
            yield
    except (ArmExtError, OSError):  # such as a full disk, which the command line reports
        raise
    # The quantiser raises exceptions of many types, plain Exception included.
    except Exception as err:
        raise ModelError(f"{name}: onnxruntime cannot quantise it: {reason_of(err, line=0)}") from err


@dataclass(frozen=True)
class _Ranges:
    """What calibration found of a model's tensors.

    Attributes:
        data: Ranges of activations, as onnxruntime's TensorsData.
        masks: Tensors with values of masks, for which no scale would leave a step to other values.
    """

    data: Any
    masks: frozenset[str]

    def masking(self, graph: onnx.GraphProto) -> list[str]:
        """Return the nodes that read or write values of masks."""
        masks = {*self.masks, *(tensor.name for tensor in graph.initializer if _is_mask(tensor))}
        return [node.name for node in graph.node if not masks.isdisjoint([*node.input, *node.output])]


def _is_mask(tensor: onnx.TensorProto) -> bool:
    value = onnx.numpy_helper.to_array(tensor)
    return value.dtype.kind == "f" and bool(np.max(np.abs(value), initial=0) >= _LEAST_OF_MASKS)


def _calibrated(
    proto: onnx.ModelProto,
    feeds: Callable[[Path], Iterator[Feed]],
    method: Method,
) -> _Ranges:
    """Run the samples and return each activation's range."""
    make, options = _METHODS[method]
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "model.onnx"
        onnx.save(proto, source)
        augmented = Path(scratch) / "augmented.onnx"
        # create_calibrator would open a session in this process, which the model might crash.
        calibrator = make(source, _OPERATORS, str(augmented), **options)
        calibrator.augment_graph()
        calibrator.infer_session = watched = _Watched(open_file(augmented, optimised=False), proto.graph)
        calibrator.collect_data(_FeedReader(feeds(source)))
        if method == "mse":
            found = TensorsData(CalibrationMethod.MinMax, mse_ranges(calibrator.collector.histogram_dict))
        else:
            found = calibrator.compute_data()
    kept = {name: data for name, data in found.items() if name not in watched.masks}
    return _Ranges(TensorsData(found.calibration_method, kept), frozenset(watched.masks))


def _insert_qdq(source: onnx.ModelProto, ranges: _Ranges, keep_float: Sequence[str]) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    proto.CopyFrom(source)
    quantizer = QDQQuantizer(
        proto,
        per_channel=True,
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QInt8,
        tensors_range=ranges.data,
        nodes_to_quantize=[],
        nodes_to_exclude=[*keep_float, *ranges.masking(proto.graph)],
        op_types_to_quantize=_OPERATORS,
        extra_options={},
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    _sort_after_reads_of_subgraphs(quantizer.model.model.graph)
    return quantizer.model.model


def _sort_after_reads_of_subgraphs(graph: onnx.GraphProto) -> None:
    """Move a branch or loop behind the nodes whose values it captures; onnxruntime's own sort ignores captures."""
    producers = {name: node for node in graph.node for name in node.output if name}
    ordered: dict[tuple[str, ...], onnx.NodeProto] = {}
    for first in graph.node:
        waiting = [first]
        while waiting:
            node = waiting[-1]
            read = (producers[name] for name in values_read(node) if name in producers)
            if before := [each for each in read if tuple(each.output) not in ordered]:
                waiting += before
            else:
                ordered.setdefault(tuple(node.output), waiting.pop())
    nodes = list(ordered.values())
    del graph.node[:]
    graph.node.extend(nodes)


class _Watched:
    """A session that records the tensors with values of masks, and returns zeros for them.

    Attributes:
        masks: Names of these tensors so far.
    """

    def __init__(self, session: IsolatedSession, graph: onnx.GraphProto) -> None:
        self._session, self._sample, self.masks = session, -1, set[str]()
        self._scores = {node.input[0] for node in graph.node if node.op_type in _SOFTMAXES}
        self._computed = [name for node in graph.node for name in node.output]
        self.get_inputs, self.get_outputs = session.get_inputs, session.get_outputs

    def run(self, names: Sequence[str] | None, feed: Feed) -> list[npt.NDArray[Any]]:
        found = self._session.run(names, feed)
        self._sample += 1
        spoilt = set()
        for k, (output, value) in enumerate(zip(self.get_outputs(), found, strict=True)):
            if value.dtype.kind != "f":
                continue
            most = np.max(np.abs(value), initial=0)
            tensor = output.name.removesuffix("_ReduceMin").removesuffix("_ReduceMax")  # of minmax
            if np.isnan(most):
                spoilt.add(tensor)
            elif most >= (_LEAST_OF_MASKED_SCORES if tensor in self._scores else _LEAST_OF_MASKS):
                self.masks.add(tensor)
                found[k] = np.zeros_like(value)
        if spoilt:
            first = min(spoilt, key=[*spoilt.difference(self._computed), *self._computed].index)
            raise ValueError(f"'{first}' is NaN in sample {self._sample} (from 0)")
        return found


class _FeedReader:
    """The samples as onnxruntime's CalibrationDataReader."""

    def __init__(self, feeds: Iterator[Feed]) -> None:
        self._feeds = feeds

    def get_next(self) -> Feed | None:
        return next(self._feeds, None)


def fold_into_convolutions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with batch norms, and constant factors and biases, in the convolutions before them.

    Between the two a quantised value would cost accuracy, and a kernel.
    """
    known = {tensor.name for tensor in proto.graph.initializer}
    convolved = {node.output[0] for node in proto.graph.node if node.op_type in _CONVOLUTIONS}

    def folds(node: onnx.NodeProto) -> bool:
        scales = node.op_type in ("Add", "Mul") and not known.isdisjoint(node.input)
        return node.op_type == "BatchNormalization" or (scales and not convolved.isdisjoint(node.input))

    if not any(map(folds, proto.graph.node)):
        return proto
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "folded.onnx"
        write_optimised(proto.SerializeToString(), path, _RENAMING)
        return onnx.load(path)


def _compared(
    reference: onnx.ModelProto, quantized: onnx.ModelProto, feeds: Iterable[Feed], count: int
) -> Accuracy:
    """Return the distance of a quantised model from its float model in onnxruntime, on at most _COMPARED samples.

    Args:
        reference: The float model.
        quantized: The quantised model in QDQ form, computed in integers where onnxruntime can.
        feeds: Samples to compare on.
        count: Number of samples.
    """
    accuracy = Accuracy([value.name for value in reference.graph.output])
    chosen = {round(index) for index in np.linspace(0, count - 1, min(count, _COMPARED))}
    exact, ours = _opened(reference), _opened(quantized)
    if exact is None or ours is None:
        return accuracy
    for index, feed in enumerate(feeds):
        if index in chosen:
            accuracy.add(*(session.run(list(accuracy.outputs), feed) for session in (ours, exact)))
    return accuracy


def _opened(model: onnx.ModelProto) -> IsolatedSession | None:
    for integers in (True, False):
        try:
            return open_session(serialise(model), integers=integers)
        except REFUSALS:
            continue
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the quantiser's output to stdout, and its messages to the root logger."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(_FATAL)
    try:
        # Overflows are reported later as errors, so numpy's warnings are ignored.
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            yield
    finally:
        logging.disable(before)
        onnxruntime.set_default_logger_severity(_WARNING)
