# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.accuracy`: shows where a quantised model loses accuracy, by the source model's nodes.

    source in onnxruntime → quantised model in onnxruntime, in float → our integers → NPU

Every tensor of the quantised model that corresponds to one of the source model becomes an output before the import;
everything else is compiled as usual.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from arm_ext.api.accuracy_chain import Chain, Feed, SearchedChain, States
from arm_ext.api.accuracy_tflite import TfliteChain, checked_paths
from arm_ext.api.arguments import check_type
from arm_ext.api.compile import compile as compile_model
from arm_ext.api.mixed_precision import Choices, choose_precisions
from arm_ext.api.npu_division import partitioner
from arm_ext.api.options import ModelOptions, Options, gathered
from arm_ext.api.plugins import with_plugins
from arm_ext.api.sample_shapes import shaped_by
from arm_ext.board import open_board
from arm_ext.board.spec import default_target
from arm_ext.common.errors import UsageError
from arm_ext.common.scratch import temporary
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.refuse import Shapes, refuse_unknown_inputs
from arm_ext.frontends.common.state import read_initial, with_states
from arm_ext.frontends.load import is_exported_program, is_onnx, is_tflite, loading_torch, trusted
from arm_ext.frontends.onnx.check import check_valid, runtime_inputs, set_input_shapes
from arm_ext.frontends.onnx.fixed_inputs import fix_inputs
from arm_ext.frontends.onnx.functions import inline_model_functions
from arm_ext.frontends.onnx.importer import import_onnx, input_specs, read_onnx
from arm_ext.frontends.onnx.program import name_nodes
from arm_ext.frontends.onnx.state import take_defaults
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import Run, host_runner
from arm_ext.quantization.in_float32 import in_float32
from arm_ext.quantization.int16_layers import with_nodes
from arm_ext.quantization.layer_errors import LayerErrors, Values
from arm_ext.quantization.layers import (
    DEQUANTIZE,
    RESCALED,
    Matching,
    QdqLayer,
    noted,
    with_exact_inputs,
    with_outputs,
)
from arm_ext.quantization.metrics import Metric, chosen_metric
from arm_ext.quantization.mixed_precision import Judge
from arm_ext.quantization.quantize_model import float_onnx
from arm_ext.quantization.samples import Data, read_samples, split_samples
from arm_ext.quantization.session import TensorSession, leave_unlike_out
from arm_ext.quantization.static import fold_into_convolutions
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.record import AccuracyReport, MixedPrecision
from arm_ext.shapes.given import static_shapes
from arm_ext.target.profiles import resolve
from schedules.numerics import qdq, tosa

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from arm_ext.api.accuracy_torch import TorchChain
    from arm_ext.ethosu.partition.agreement import Agreement

Array = npt.NDArray[Any]

STEPS = ("match", "compile", "samples", "bisect")
"""Steps of `accuracy`, for a progress display."""

NPU_SAMPLES = 8
"""Number of samples that the functional model of the NPU computes; for a large model, each takes seconds."""

HOST = "host"
"""Name of the board in the report when our integers are computed on this machine."""


_TAKEN = frozenset({"shapes", "values", "trust", "plugins", "preprocess", "state", "state_init", "npu"})


@dataclass(frozen=True, kw_only=True)
class AccuracyOptions(Options):
    """The options of `accuracy`: some of `Options` (how models are read, `state`, `npu`), and those listed below.

    Both models get `values`; onnxruntime computes without plug-ins, and so does this machine without their rules and
    kernels. With `state` samples are consecutive steps: each link of the chain goes on from its own states, and a layer
    alone from the source's; a state that the data has an array for is an input like others. With `npu` our integers are
    those of TOSA, and on the first samples what a functional model of the NPU computes of each region is compared with
    them. `preprocess` is for a folder of images; by default float32 is 0 to 1.

    Attributes:
        metric: "top1", "top5", "f1", "cosine", "iou", "map50", "wer", "cer", "perplexity", or "module:function", which
            takes the outputs by name, samples in front, and the arrays of the data; by default "top1" where there are
            labels.
        gate: Bounds that the caller will hold the report against; that they can be told is checked before any work.
        bisect: Bounds on the metric, to find the fewest layers that, in int16 or float, make the quantised model hold
            them.
    """

    metric: str | None = None
    gate: Gate | None = None
    bisect: Gate | None = None


@with_plugins
@shaped_by("data")
def accuracy(
    model: "str | Path | onnx.ModelProto | ExportedProgram",
    against: "str | Path | onnx.ModelProto | ExportedProgram | None",
    data: Data,
    options: ModelOptions | None = None,
    *,
    board: str | None = None,
    target: str | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> AccuracyReport:
    """Compare a quantised model with its float source, layer by layer, on the same samples.

    Args:
        model: An ONNX model in QDQ form, a TFLite model, or a program that PyTorch's PT2E quantised.
        against: The float model that it was made of; None for a TFLite model, to compare with LiteRT's integers, or
            for a PT2E program, to compare with torch's own execution of it.
        data: .npz, or its arrays: one for each input, samples along the first axis, and `labels` for "top1"; or a
            folder of images; or an iterable of samples, each a mapping of names to arrays.
        options: Options in one record.
        board: Board that computes our integers, such as "virtual" or "host:port"; by default this machine
            computes them, through the same phases.
        target: Profile to compile for, with a board; by default the board's, where its name is a profile.
        progress: Called with each of STEPS as it begins; "bisect" is left out without `bisect`.
        more: Options by keyword: those of `AccuracyOptions`, and of `Options` those that the record names.

    A metric that fails on the outputs of a quantised link alone is no error: the report says so in `unmeasured`.

    Raises:
        UsageError: A model, the data or the metric is wrong, or the models do not belong together.
        ModelError: onnxruntime cannot run one of them, or it cannot be compiled, or bounds do not hold in float either.
        EnvError: The board is out of reach or lacks a feature.
    """
    o = gathered("accuracy", AccuracyOptions, options, more, _TAKEN)
    check_type("board", "" if board is None else board, str)
    if target is not None and board is None and o.bisect is None and o.npu is None:
        raise UsageError(
            "--target is only for --board, --bisect and --npu; without them, the model runs on this machine"
        )
    progress("match")
    fixed = static_shapes(o.shapes, "accuracy")
    of_onnx = {"--value": o.values, "--state": o.state, "--state-init": o.state_init}
    chain = _chain_of(model, against, fixed, o.values or {}, of_onnx, npu=o.npu is not None, trust=o.trust)
    if isinstance(chain, _OnnxChain):
        chain.keep_states(o.state or {}, read_initial(o.state_init))
    arrays = read_samples(data, chain.specs, o.preprocess)
    feeds = chain.feeds(arrays)
    named = chosen_metric(o.metric, arrays, len(feeds))  # a faulty metric is reported before any work
    if o.bisect is not None:
        _check_bisect(chain, o.bisect, named, len(feeds))
    if o.gate is not None:
        less = named is not None and named.less_is_better
        o.gate.check(None if named is None else named.name, len(feeds), less_is_better=less)
    if named is not None:
        chain.check_metric(named, feeds)
    numerics = qdq.NUMERICS if o.npu is None else tosa.NUMERICS
    whole = chain.prepare(feeds[0], numerics)
    progress("compile")
    agreement = None if o.npu is None else _agreement(chain, o.npu, target or "arm")
    with _ours(whole, numerics, board, target, o.npu, o.plugins) as run:
        progress("samples")
        try:
            for number, feed in enumerate(feeds):
                given = chain.inputs(feed)  # including the states before this step
                chain.add(feed, run)
                if agreement is not None and number < NPU_SAMPLES:
                    agreement.add(given)
        except KeyboardInterrupt:  # what there is, is told
            if not chain.samples:
                raise
    count = chain.samples
    seen = {
        key: value[:count] if value.ndim and len(value) == len(feeds) else value
        for key, value in arrays.items()
    }
    judged = chosen_metric(o.metric, seen, count)
    report = chain.report(board or HOST, len(feeds), judged)
    if agreement is not None:
        report = report.model_copy(update={"npu": agreement.link()})
    stopped = count < len(feeds)  # and a search would take longer than the remaining samples
    if o.bisect is None or judged is None or report.metric is None or stopped:
        return report
    assert isinstance(chain, SearchedChain)  # by _check_bisect
    progress("bisect")
    aim = target or (default_target(board) if board else "arm")
    try:
        mixed = _bisected(chain, feeds, judged, o.bisect, aim, o.npu)
    except KeyboardInterrupt:  # the search has found nothing yet, so only the comparison is reported
        return report
    return report.model_copy(update={"mixed": mixed})


def _chain_of(
    model: "str | Path | onnx.ModelProto | ExportedProgram",
    against: "str | Path | onnx.ModelProto | ExportedProgram | None",
    shapes: Shapes,
    values: Mapping[str, npt.ArrayLike],
    of_onnx: Mapping[str, object],
    *,
    npu: bool,
    trust: bool,
) -> "_OnnxChain | TfliteChain | TorchChain":
    """Return the chain for a model's format.

    `of_onnx` holds the options (name → value) that only ONNX models support.
    """
    path = Path(model) if isinstance(model, str | Path) and Path(model).is_file() else None
    tflite = path is not None and is_tflite(path)
    if (tflite or _is_torch(model)) and (found := [name for name, value in of_onnx.items() if value]):
        why = (
            "convert or export this one with the value in place of the input"
            if found[0] == "--value"
            else "a TFLite model's variables are states as they are, and begin as the file says"
            if tflite
            else "buffers that a PyTorch program changes are its states, with the program's initial values"
        )
        raise UsageError(f"{found[0]} is for ONNX models; {why}")
    if path is not None and tflite:
        return TfliteChain.read(*checked_paths(path, against), shapes, npu=npu)
    if not isinstance(model, str | Path | onnx.ModelProto) or _is_torch(model):
        with loading_torch(f"{model if isinstance(model, str | Path) else 'the model'} is a PyTorch program"):
            from arm_ext.api.accuracy_torch import TorchChain
        return TorchChain.read(model, against, shapes, trust=trust)
    if against is None:
        _read(model)  # faults of the model, such as a missing file, are reported first
        raise UsageError(
            "--against: name the float model that it was quantised from; only TFLite models and PyTorch programs work "
            "without it"
        )
    # `quantize` writes the ONNX model from a float model of another format by the same export.
    source, _ = float_onnx(trusted(against) if trust else against, (shapes,))
    return _OnnxChain.read(model, source, shapes, values)


def _is_torch(model: object) -> bool:
    """Whether a model is an exported program of PyTorch's, or a file of one."""
    if isinstance(model, str | Path):
        return Path(model).is_file() and is_exported_program(Path(model))
    return not isinstance(model, onnx.ModelProto) and model is not None


def _check_bisect(chain: Chain, gate: Gate, metric: Metric | None, samples: int) -> None:
    """Check that layers can be put back to float, and that the metric and the bounds can be computed.

    Raises:
        UsageError: Layers cannot be put back to float, or the effect cannot be measured.
    """
    if not isinstance(chain, SearchedChain):
        raise UsageError(
            f"--bisect: {chain.name} is TFLite, which has no float weights; the report names the layers with "
            "large errors, "
            "and `quantize --max-drop` chooses layers of the network exported to ONNX"
        )
    if metric is None:
        raise UsageError("--bisect: the data has no array 'labels' for top1; name a --metric")
    gate.check(metric.name, samples, less_is_better=metric.less_is_better)
    chain.check_searched()


def _bisected(
    chain: SearchedChain,
    feeds: Sequence[Feed],
    metric: Metric,
    gate: Gate,
    target: str,
    npu: NpuOptions | str | None,
) -> MixedPrecision:
    """Return the minimum set of layers that must be in int16 or float so that the quantised model meets the bounds."""
    mixed = choose_precisions(
        chain.choices(),
        chain.judge(feeds, metric, gate),
        target,
        gate.describe(metric.name),
        fewest=True,
        npu=NpuOptions(npu) if isinstance(npu, str) else npu,
    )
    return chain.chosen(mixed)


@dataclass(kw_only=True)
class _OnnxChain(SearchedChain):
    """The models that `accuracy` compares for an ONNX model in QDQ form.

    Attributes:
        source: The float model.
        quantized: The quantised model, in QDQ form.
        matching: The layers of both.
        states: Values that go from one sample to the next.
    """

    source: onnx.ModelProto
    quantized: onnx.ModelProto
    matching: Matching = field(init=False)
    states: States = field(default_factory=lambda: States({}, {}))

    @classmethod
    def read(
        cls,
        model: str | Path | onnx.ModelProto,
        against: str | Path | onnx.ModelProto,
        shapes: Shapes,
        values: Mapping[str, npt.ArrayLike],
    ) -> "_OnnxChain":
        (first, name), (second, reference) = map(_read, (model, against))
        second = in_float32(second)
        refuse_unknown_inputs(values, [value.name for value in runtime_inputs(second.graph)], "--value")
        quantized, source = _prepared(first, shapes, values), _prepared(second, shapes, values)
        if not any(node.op_type == DEQUANTIZE for node in quantized.graph.node):
            raise UsageError(
                f"{name}: has no {DEQUANTIZE}; expected a quantised ONNX model in QDQ form, as onnxruntime's "
                "quantiser makes it"
            )
        if found := [n.name for n in source.graph.node if n.op_type == DEQUANTIZE]:
            raise UsageError(f"--against {reference}: is itself quantised ({found[0]}); name the float model")
        ours, theirs = ([each.describe() for each in input_specs(m.graph)] for m in (quantized, source))
        if sorted(ours) != sorted(theirs):
            raise UsageError(
                f"{name} takes {', '.join(ours)}, and --against {reference} {', '.join(theirs)}: "
                "they are not of the same model"
            )
        outputs = tuple(value.name for value in quantized.graph.output)
        if missing := set(outputs) ^ {value.name for value in source.graph.output}:
            raise UsageError(
                f"{name} and --against {reference} have different outputs: only one of them has "
                f"{', '.join(sorted(missing))}"
            )
        return cls(
            source=source,
            quantized=quantized,
            name=name,
            reference=reference,
            outputs=outputs,
            runtime=f"onnxruntime {onnxruntime.__version__}",
        )

    def keep_states(self, pairs: Mapping[str, str], initial: Mapping[str, Array]) -> None:
        """Treat the samples as consecutive steps; each step starts from the states that the previous one computed.

        Args:
            pairs: Name of an input → the output that is its next value.
            initial: Name of an input → its value in the first step; by default the model's, or zeros.

        Raises:
            UsageError: A name or a value does not fit.
        """
        if not pairs and not initial:
            return
        defaults = take_defaults(self.source, pairs) | take_defaults(self.quantized, pairs)
        model = with_states(import_onnx(self.quantized), pairs, {**defaults, **initial})
        self.states = States(pairs, {state.input: state.initial for state in model.states})
        self.outputs = tuple(n for n in self.outputs if n not in pairs.values()) or self.outputs

    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the specs of the arrays in the samples: the model's inputs without its states."""
        return tuple(spec for spec in input_specs(self.source.graph) if spec.name not in self.states.pairs)

    def feeds(self, arrays: Mapping[str, Array]) -> list[Feed]:
        """Return one feed per sample; a state for which the samples have an array is treated as an input."""
        self.states = self.states.without(arrays)
        return split_samples(arrays, self.specs(), "samples")

    def inputs(self, feed: Feed) -> list[Array]:
        """Return the quantised model's inputs for a sample, in its order, with states as our integers computed them."""
        given = feed | self.states.at("integers")
        return [given[spec.name] for spec in input_specs(self.quantized.graph)]

    def imported(self) -> ImportedModel:
        """Return the imported model that is divided into regions for the NPU."""
        return import_onnx(self.quantized)

    def exact(self, feeds: Sequence[Feed]) -> Iterator[Feed]:
        """Yield the float model's outputs for each sample; its states are carried from step to step."""
        states = self.states
        session = TensorSession(self.source, self.reference, [*self.outputs, *states.pairs.values()])
        now: Feed = dict(states.initial)
        for feed in feeds:
            found = session(feed | now)
            yield found
            now = {name: found[output] for name, output in states.pairs.items()}

    def check_searched(self) -> None:
        """Check that the channels of the quantised model were not rescaled relative to the float model.

        Raises:
            UsageError: The float model has other channels.
        """
        if noted(self.quantized, RESCALED) - noted(self.source, RESCALED):
            raise UsageError(
                f"--bisect: channels of {self.name} were rescaled before quantisation, but those of --against "
                f"{self.reference} were not; use quantize --max-drop, which chooses layers of the rescaled model"
            )

    def choices(self) -> Choices:
        """Return the precisions that each layer can have, and the builder of models with such layers."""
        # A layer that is put back to float gets the weights from which a quantiser starts: batch norms are folded.
        matching = Matching(fold_into_convolutions(self.source), self.quantized)
        return Choices.of_onnx(matching, partial(with_nodes, matching))

    def judge(self, feeds: Sequence[Feed], metric: Metric, gate: Gate) -> Judge:
        """Return the judge of models that `choices` builds: it runs them in onnxruntime, from the source's states."""
        states = self.states
        stepped = [feed | held for feed, held in zip(feeds, states.exact, strict=True)]
        return Judge.of_onnx(self.name, self.source, stepped, metric, gate.holds, states.pairs)

    def prepare(self, feed: Feed, numerics: qdq.Qdq) -> ImportedModel:
        """Match the layers and open the sessions; one sample shows which tensors have the same shapes.

        Raises:
            UsageError: The two models have no layer in common.
        """
        feed = feed | self.states.at("source")
        self.matching = matching = Matching(self.source, self.quantized)
        values = leave_unlike_out(matching, feed, self.reference, self.name)
        layers = matching.layers
        if not any(layer.integers or layer.constants for layer in layers):
            raise UsageError(
                f"{self.name} and --against {self.reference}: no tensor or node of the quantised model has the name of "
                "one in the float model; name the model that it was quantised from"
            )
        left = matching.uncovered()
        seen = TensorSession(
            self.source, self.reference, [name for node in left for name in node.output if name]
        )(feed)
        # Tensors that compute shapes are left out.
        self.uncovered = tuple(
            node.name
            for node in left
            if any(seen[name].dtype.kind == "f" for name in node.output if name in seen)
        )
        alone, fed = with_exact_inputs(matching)
        read = [layer.integers or layer.value for layer in layers]
        self._fed = fed
        kept = [*self.outputs, *self.states.pairs.values()]
        self._exact = TensorSession(
            self.source, self.reference, [*kept, *(la.source for la in layers), *fed.values()]
        )
        self._alone = TensorSession(alone, self.name, [layer.value for layer in layers])
        self._fake = TensorSession(self.quantized, self.name, [*kept, *(layer.value for layer in layers)])
        self.instrumented = with_outputs(self.quantized, read)
        # Shapes that are computed from an output's shape can be folded only if the output has a type.
        kinds = {
            tensor: (layer.dequantizer.zero_point.dtype, values[layer.value].shape)
            if layer.integers and layer.dequantizer
            else (np.dtype(np.float32), values[layer.value].shape)
            for tensor, layer in zip(read, layers, strict=True)
        }
        for output in self.instrumented.graph.output[len(self.quantized.graph.output) :]:
            dtype, shape = kinds[output.name]
            kind = onnx.helper.np_dtype_to_tensor_dtype(dtype)
            output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, kind, shape))
        # onnxruntime has integer kernels only for 8 bits, and computes other types in float.
        bytes_ = [la.integers for la in layers if la.integers and la.dequantizer and la.dequantizer.bits <= 8]
        self._others = TensorSession.or_none(self.instrumented, self.name, bytes_)
        self.layers = [LayerErrors(layer) for layer in layers]
        return import_onnx(self.instrumented)

    def add(self, feed: Feed, run: Run) -> None:
        """Run all models on one sample, and add their errors to the layers' sums."""
        states = self.states
        exact = feed | states.at("source")
        exact |= self._exact(exact)
        alone = self._alone(exact | {name: exact[tensor] for name, tensor in self._fed.items()})
        fake = self._fake(feed | states.at("fake"))
        # onnxruntime starts each step from the states that our integers computed, so that the two differ only by this
        # step's error.
        others = {} if self._others is None else self._others(feed | states.at("integers"))
        names = [value.name for value in self.instrumented.graph.output]
        ours = dict(zip(names, run(self.inputs(feed)), strict=True))
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
        self.keep(source=exact, fake=fake, integers=ours)
        states.follow(source=exact, fake=fake, integers=ours)


def _float(layer: QdqLayer, ours: Mapping[str, Array]) -> Array:
    if layer.integers is None or layer.dequantizer is None:
        return ours[layer.value]
    return layer.dequantizer.dequantize(ours[layer.integers])


def _read(model: str | Path | onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """Return the ONNX model and its name."""
    if not isinstance(model, onnx.ModelProto) and Path(model).is_file() and not is_onnx(Path(model)):
        raise UsageError(
            f"{model}: accuracy compares a quantised model (ONNX in QDQ form, TFLite, a program of PyTorch's) with "
            "its float model; quantise this one by `arm-ext quantize`, which writes ONNX"
        )
    proto, name, _ = read_onnx(model)
    check_valid(proto, name)
    return proto, name


def _prepared(proto: onnx.ModelProto, shapes: Shapes, values: Mapping[str, npt.ArrayLike]) -> onnx.ModelProto:
    """Return the model with static shapes and named nodes."""
    inputs = {value.name for value in runtime_inputs(proto.graph)}
    # A model that `quantize --value` wrote no longer has these inputs.
    if held := {each: numbers for each, numbers in values.items() if each in inputs}:
        proto = fix_inputs(proto, held)
    set_input_shapes(proto, shapes)
    inline_model_functions(proto)
    name_nodes(proto.graph)
    return proto


def _agreement(chain: Chain, npu: NpuOptions | str, target: str) -> "Agreement":
    """Return the comparison of the NPU's regions with our integers, for the division that `compile` makes."""
    model = chain.imported()
    divide = partitioner(npu, model)
    options = PhaseOptions(resolve(target, None), numerics=tosa.NUMERICS, divide=divide)
    result = last(run_phases(PhaseResult(model.mod), options, until="partition"))
    # Not imported above: without an NPU, the packages that this needs may be missing.
    from arm_ext.ethosu.partition.agreement import Agreement
    from arm_ext.ethosu.partition.divider import Offloaded

    assert isinstance(result.division, Offloaded)
    return Agreement(divide.divider, result.division)


@contextmanager
def _ours(
    model: ImportedModel,
    numerics: qdq.Qdq,
    board: str | None,
    target: str | None,
    npu: NpuOptions | str | None,
    plugins: Sequence[str | Path],
) -> Iterator[Run]:
    """Yield a function that runs the compiled model, on this machine or on a board."""
    if board is None:
        yield host_runner(model, numerics=numerics)
        return
    with temporary() as folder:
        package = compile_model(
            model,
            target or default_target(board),
            folder / "model.armpkg",
            npu=npu,
            plugins=plugins,
        ).package
        told = package.manifest.target
        with open_board(board, profile=told.profile, profile_cpu=told.qemu_cpu) as opened:
            opened.require(told.features, so=package.so)
            yield opened.load(package.so, package.manifest.so_sha256).run
