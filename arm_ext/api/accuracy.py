# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.accuracy`: where a quantised model loses accuracy, by the source model's nodes.

    source in onnxruntime → quantised model in onnxruntime, in float → our integers

Every tensor of the quantised model that stands for one of the source's is made an output of it before it is imported,
so that all else is compiled as usual.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from arm_ext.api.arguments import check_type
from arm_ext.api.compile import compile as compile_model
from arm_ext.api.mixed_precision import choose_float_layers
from arm_ext.board import open_board
from arm_ext.board.spec import default_target
from arm_ext.common.npz import read_npz
from arm_ext.common.scratch import temporary
from arm_ext.errors import UsageError
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.load import is_onnx
from arm_ext.frontends.onnx.check import check_valid, set_input_shapes
from arm_ext.frontends.onnx.functions import inline_model_functions
from arm_ext.frontends.onnx.importer import import_onnx, input_specs, read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.pipeline.selftest import host_runner
from arm_ext.quantization.error_sums import error_of
from arm_ext.quantization.float_layers import units_of, with_float_nodes
from arm_ext.quantization.layer_errors import LayerErrors, Values, errors
from arm_ext.quantization.layers import (
    DEQUANTIZE,
    RESCALED,
    Layer,
    Matching,
    noted,
    with_exact_inputs,
    with_outputs,
)
from arm_ext.quantization.metrics import Metric, chosen_metric, stacked
from arm_ext.quantization.mixed_precision import Judge
from arm_ext.quantization.samples import split_samples
from arm_ext.quantization.session import Session, leave_unlike_out
from arm_ext.quantization.static import fold_batch_norm
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.record import AccuracyReport, MetricValue, OutputAccuracy
from arm_ext.shapes.given import Given, static_shapes

Array = npt.NDArray[Any]
Feed = dict[str, Array]
Run = Callable[[Sequence[Array]], list[Array]]

STEPS = ("match", "compile", "samples", "bisect")
"""Of `accuracy`, for a progress display."""

HOST = "host"
"""Name of the board where nothing but this machine is asked for."""


def accuracy(
    model: str | Path | onnx.ModelProto,
    against: str | Path | onnx.ModelProto,
    data: str | Path | Mapping[str, Array],
    *,
    board: str | None = None,
    target: str | None = None,
    metric: str | None = None,
    bisect: Gate | None = None,
    shapes: Given | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> AccuracyReport:
    """Compare a quantised model with its float source, layer by layer, on the same samples.

    Args:
        model: An ONNX model in QDQ form.
        against: The float ONNX model that it was made of.
        data: .npz, or its arrays: one for each input, samples along the first axis, and `labels` for "top1".
        board: Where our integers are computed, such as "virtual" or "host:port"; by default on this machine, through
            the same phases.
        target: Profile to compile for, with a board; by default the board's, where its name is a profile.
        metric: "top1", "top5", "f1", "cosine", "iou", "map50", "wer", "cer", "perplexity", or "module:function", which
            takes the outputs by name, samples in front, and the arrays of the data; by default "top1" where there are
            labels.
        bisect: Bounds on the metric, to find the fewest layers that, in float, make the quantised model hold them.
        shapes: Input name → shape, for inputs with dynamic dimensions.
        progress: Called with each of STEPS as it begins; "bisect" is left out without `bisect`.

    Raises:
        UsageError: A model, the data or the metric is wrong, or the models do not belong together.
        ModelError: onnxruntime cannot run one of them, or it cannot be compiled, or bounds do not hold in float either.
        EnvError: The board is out of reach or lacks a feature.
    """
    check_type("board", "" if board is None else board, str)
    if target is not None and board is None and bisect is None:
        raise UsageError("--target is for a --board or --bisect; without one, this machine computes")
    progress("match")
    chain = _Chain.read(model, against, static_shapes(shapes, "accuracy"))
    arrays = read_npz(Path(data), "an array an input") if isinstance(data, str | Path) else data
    feeds = split_samples(arrays, input_specs(chain.source.graph), "samples")
    named = chosen_metric(metric, arrays, len(feeds))  # what is wrong with it is told before any work
    if bisect is not None:
        chain.check_bisect(bisect, named, len(feeds))
    chain.match(feeds[0])
    progress("compile")
    with _ours(chain, board, target) as run:
        progress("samples")
        try:
            for feed in feeds:
                chain.add(feed, run)
        except KeyboardInterrupt:  # what there is, is told
            if not chain.samples:
                raise
    count = chain.samples
    seen = {
        key: value[:count] if value.ndim and len(value) == len(feeds) else value
        for key, value in arrays.items()
    }
    judged = chosen_metric(metric, seen, count)
    report = chain.report(board or HOST, len(feeds), judged)
    if bisect is None or judged is None:
        return report
    progress("bisect")
    judge = Judge(chain.name, chain.source, feeds[:count], judged, bisect.holds)
    # Weights in float are those that quantisers start from.
    matching = Matching(fold_batch_norm(chain.source), chain.quantized)
    mixed = choose_float_layers(
        units_of(matching),
        partial(with_float_nodes, matching),
        judge,
        target or (default_target(board) if board else "arm"),
        bisect.describe(judged.name),
        fewest=True,
    )
    return report.model_copy(update={"mixed": mixed})


@dataclass
class _Chain:
    """The models of the chain, with the sums of what was compared.

    Attributes:
        source: The float model.
        quantized: In QDQ form.
        name: Of the quantised model.
        reference: Name of the float one.
        outputs: Of both.
    """

    source: onnx.ModelProto
    quantized: onnx.ModelProto
    name: str
    reference: str
    outputs: tuple[str, ...] = ()
    matching: Matching = field(init=False)
    uncovered: tuple[str, ...] = ()
    layers: list[LayerErrors] = field(default_factory=list)
    results: dict[str, list[list[Array]]] = field(
        default_factory=lambda: {"source": [], "fake": [], "integers": []}
    )

    @classmethod
    def read(
        cls, model: str | Path | onnx.ModelProto, against: str | Path | onnx.ModelProto, shapes: Shapes
    ) -> "_Chain":
        quantized, name = _read(model, shapes)
        source, reference = _read(against, shapes)
        if not any(node.op_type == DEQUANTIZE for node in quantized.graph.node):
            raise UsageError(
                f"{name}: holds no {DEQUANTIZE}; expected a quantised ONNX model in QDQ form, as onnxruntime's "
                "quantiser makes it"
            )
        if found := [n.name for n in source.graph.node if n.op_type == DEQUANTIZE]:
            raise UsageError(f"--against {reference}: is quantised itself ({found[0]}); name the float model")
        ours, theirs = ([each.describe() for each in input_specs(m.graph)] for m in (quantized, source))
        if sorted(ours) != sorted(theirs):
            raise UsageError(
                f"{name} takes {', '.join(ours)}, and --against {reference} {', '.join(theirs)}: "
                "they are not of the same model"
            )
        outputs = tuple(value.name for value in quantized.graph.output)
        if missing := set(outputs) ^ {value.name for value in source.graph.output}:
            raise UsageError(
                f"{name} and --against {reference} have different outputs: {', '.join(sorted(missing))} is of one alone"
            )
        return cls(source, quantized, name, reference, outputs)

    def check_bisect(self, gate: Gate, metric: Metric | None, samples: int) -> None:
        """Check that layers can be put back to float, and their effect be measured.

        Raises:
            UsageError: They cannot.
        """
        if metric is None:
            raise UsageError("--bisect: the data has no array 'labels' for top1; name a --metric")
        gate.check(metric.name, samples, less_is_better=metric.less_is_better)
        if noted(self.quantized, RESCALED) - noted(self.source, RESCALED):
            raise UsageError(
                f"--bisect: channels of {self.name} were rescaled before it was quantised, and those of --against "
                f"{self.reference} were not; quantize --max-drop chooses layers as it rescales"
            )

    def match(self, feed: Feed) -> None:
        """Match the layers, and open what runs them; one sample shows which tensors are alike.

        Raises:
            UsageError: Nothing of the two models is alike.
        """
        self.matching = matching = Matching(self.source, self.quantized)
        values = leave_unlike_out(matching, feed, self.reference, self.name)
        layers = matching.layers
        if not any(layer.integers or layer.constants for layer in layers):
            raise UsageError(
                f"{self.name} and --against {self.reference}: no tensor or node of the quantised model has a name of "
                "the float one; name the model that it was made of"
            )
        left = matching.uncovered()
        seen = Session(self.source, self.reference, [name for node in left for name in node.output if name])(
            feed
        )
        # Not those that compute shapes.
        self.uncovered = tuple(
            node.name
            for node in left
            if any(seen[name].dtype.kind == "f" for name in node.output if name in seen)
        )
        alone, fed = with_exact_inputs(matching)
        read = [layer.integers or layer.value for layer in layers]
        self._fed = fed
        self._exact = Session(
            self.source, self.reference, [*self.outputs, *(la.source for la in layers), *fed.values()]
        )
        self._alone = Session(alone, self.name, [layer.value for layer in layers])
        self._fake = Session(self.quantized, self.name, [*self.outputs, *(layer.value for layer in layers)])
        self.instrumented = with_outputs(self.quantized, read)
        # Typed, as shapes that follow from those of an output are folded by its type.
        kinds = {
            tensor: (layer.dequantizer.zero_point.dtype, values[layer.value].shape)
            if layer.integers and layer.dequantizer
            else (np.dtype(np.float32), values[layer.value].shape)
            for tensor, layer in zip(read, layers, strict=True)
        }
        for output in self.instrumented.graph.output[len(self.outputs) :]:
            dtype, shape = kinds[output.name]
            kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
            output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, kind, shape))
        self._others = Session.or_none(
            self.instrumented, self.name, [la.integers for la in layers if la.integers is not None]
        )
        self.layers = [LayerErrors(layer) for layer in layers]

    def add(self, feed: Feed, run: Run) -> None:
        """Compare one sample."""
        exact = feed | self._exact(feed)
        alone = self._alone(feed | {name: exact[tensor] for name, tensor in self._fed.items()})
        fake = self._fake(feed)
        others = {} if self._others is None else self._others(feed)
        inputs = [feed[spec.name] for spec in input_specs(self.quantized.graph)]
        names = [value.name for value in self.instrumented.graph.output]
        ours = dict(zip(names, run(inputs), strict=True))
        for each in self.layers:
            layer = each.layer
            integers = None if layer.integers is None else ours[layer.integers]
            each.add(
                Values(
                    exact[layer.source],
                    alone[layer.value],
                    fake[layer.value],
                    _float(layer, ours),
                    integers,
                    others.get(layer.integers or ""),
                )
            )
        for link, values in (("source", exact), ("fake", fake), ("integers", ours)):
            self.results[link].append([values[name] for name in self.outputs])

    @property
    def samples(self) -> int:
        """How many were compared."""
        return len(self.results["integers"])

    def report(self, board: str, given: int, metric: Metric | None) -> AccuracyReport:
        """Return what was compared."""
        links = {link: stacked(self.outputs, rows[: self.samples]) for link, rows in self.results.items()}
        value = None
        if metric is not None:
            found = {link: metric(outputs, links["source"]) for link, outputs in links.items()}
            value = MetricValue(
                name=metric.name,
                drop=metric.drop(found["integers"], found["source"]),
                less_is_better=metric.less_is_better,
                **found,
            )
        return AccuracyReport(
            model=self.name,
            reference=self.reference,
            board=board,
            samples=self.samples,
            given=given,
            layers=tuple(layer.record() for layer in self.layers),
            outputs=tuple(
                OutputAccuracy(
                    name=output,
                    fake=errors(error_of(links["fake"][output], links["source"][output])),
                    integers=errors(error_of(links["integers"][output], links["source"][output])),
                )
                for output in self.outputs
            ),
            metric=value,
            uncovered=self.uncovered,
            runtime=f"onnxruntime {onnxruntime.__version__}",
        )


def _float(layer: Layer, ours: Mapping[str, Array]) -> Array:
    if layer.integers is None or layer.dequantizer is None:
        return ours[layer.value]
    return layer.dequantizer.dequantize(ours[layer.integers])


def _read(model: str | Path | onnx.ModelProto, shapes: Shapes) -> tuple[onnx.ModelProto, str]:
    """A model with static shapes and names of its nodes, and its own name."""
    if not isinstance(model, onnx.ModelProto) and Path(model).is_file() and not is_onnx(Path(model)):
        raise UsageError(f"{model}: accuracy compares ONNX models: one in QDQ form and the float one of it")
    proto, name, _ = read_onnx(model)
    check_valid(proto, name)
    set_input_shapes(proto, shapes)
    inline_model_functions(proto)
    name_nodes(proto.graph)
    return proto, name


@contextmanager
def _ours(chain: _Chain, board: str | None, target: str | None) -> Iterator[Run]:
    """What runs the quantised model as this project compiles it."""
    if board is None:
        yield host_runner(import_onnx(chain.instrumented))
        return
    with temporary() as folder:
        package = compile_model(
            chain.instrumented, target or default_target(board), folder / "model.armpkg"
        ).package
        told = package.manifest.target
        with open_board(board, profile=told.profile, profile_cpu=told.qemu_cpu) as opened:
            opened.require(told.features, so=package.so)
            yield opened.load(package.so).run
