# SPDX-License-Identifier: Apache-2.0
"""The chain of `accuracy` from a program quantised by PT2E: float program in torch → QDQ in torch → our integers.

Without the float program the quantised one in torch is the reference, and a layer alone is computed by us, fed with its
integers. Buffers that the programs change are states: samples are consecutive steps then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.export import ExportedProgram

from arm_ext.api.accuracy_chain import Feed, SearchedChain, States, with_results
from arm_ext.api.mixed_precision import Choices
from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.torch.importer import import_torch, read_exported, returned_names
from arm_ext.frontends.torch.reference import NodeValues, Replaced, one_thread
from arm_ext.pipeline.selftest import Run, host_runner
from arm_ext.quantization.layer_errors import LayerErrors, Values
from arm_ext.quantization.layers import QdqLayer
from arm_ext.quantization.metrics import Metric
from arm_ext.quantization.mixed_precision import Infer, Judge
from arm_ext.quantization.samples import split_samples
from arm_ext.quantization.torch_float_layers import TorchFloatLayers
from arm_ext.quantization.torch_layers import TorchLayer, TorchMatching, returning_nodes
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.record import MixedPrecision
from relay_passes.ir.main_signature import fed, returned, returning
from relay_passes.programs.control_flow import has_control_flow
from schedules.numerics.qdq import Qdq

Array = npt.NDArray[Any]


@dataclass(kw_only=True)
class TorchChain(SearchedChain):
    """The models that `accuracy` compares for a program quantised by PT2E.

    Attributes:
        model: The imported program.
        quantized: The program.
        source: The float program, if there is one.
        shapes: Input name → shape, for inputs with dynamic dimensions.
        states: Buffers that the programs change, which go from one sample to the next.
    """

    model: ImportedModel
    quantized: NodeValues
    source: NodeValues | None
    shapes: Shapes
    states: States
    _layers: list[TorchLayer] = field(default_factory=list)
    # Names of the output nodes, in the quantised and in the float program.
    _returned: tuple[list[str], list[str]] = ([], [])
    _alone: Run | None = None
    # Names of the compiled program's results: outputs, then nodes of layers.
    _results: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        model: str | Path | ExportedProgram,
        against: str | Path | ExportedProgram | None,
        shapes: Shapes,
        *,
        trust: bool,
    ) -> "TorchChain":
        """Read the programs, and check that they belong together.

        Args:
            model: The quantised program.
            against: The float program, if there is one.
            shapes: Input name → shape, for inputs with dynamic dimensions.
            trust: Whether files may run code of their own when they are opened.

        Raises:
            UsageError: The programs do not belong together, or a file is wrong.
            ModelError: The quantised one cannot be imported.
        """
        program, name, _ = read_exported(model, trust=trust)
        imported = import_torch(model, shapes, trust=trust)
        if not imported.quantized:
            raise UsageError(f"{name}: has no quantize operator; expected a program that PT2E quantised")
        decides = has_control_flow(imported.mod)
        if decides and against is None:
            raise UsageError(
                f"{name}: has branches or loops; its layers can be compared only with its float program: "
                "name the float program by --against"
            )
        pairs = {state.input: state.output for state in imported.states}
        quantized, source, reference = NodeValues(program, name, pairs), None, "QDQ"
        own, others = returned_names(program), returned_names(program)
        if against is not None:
            float_program, reference, _ = read_exported(against, trust=trust)
            source, others = NodeValues(float_program, reference, pairs), returned_names(float_program)
            _check_alike(quantized, source, name, reference)
        matching = TorchMatching(quantized, source or quantized)
        layers = matching.layers(None if decides else imported.mod)
        if not any(each.layer.integers for each in layers):
            raise UsageError(
                f"{name} and --against {reference}: no node of one has a name of the other; name the program that it "
                "was made of"
                if against is not None
                else f"{name}: no tensor is quantised with a constant scale, as PT2E does for static quantisation"
            )
        return cls(
            name=name,
            reference=reference,
            outputs=tuple(spec.name for spec in imported.outputs if spec.name not in pairs.values()),
            runtime=f"torch {torch.__version__}",
            uncovered=tuple(matching.uncovered(layers)),
            layers=[LayerErrors(each.layer) for each in layers],
            model=imported,
            quantized=quantized,
            source=source,
            shapes=shapes,
            states=States(pairs, {state.input: state.initial for state in imported.states}),
            _layers=layers,
            _returned=(own, others),
        )

    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the specs of the arrays in the samples: the program's inputs without its states."""
        return tuple(spec for spec in self.model.inputs if spec.name not in self.states.pairs)

    def feeds(self, arrays: Mapping[str, Array]) -> list[Feed]:
        """Return one feed per sample; a state for which the samples have an array is treated as an input.

        Raises:
            UsageError: As `split_samples`.
        """
        self.states = self.states.without(arrays)
        return split_samples(arrays, self.specs(), "samples")

    def inputs(self, feed: Feed) -> list[Array]:
        """Return the program's inputs for a sample, in its order, with the states that our integers have computed."""
        return self._ordered(feed | self.states.at("integers"))

    def _ordered(self, given: Feed) -> list[Array]:
        return [given[spec.name] for spec in self.model.inputs]

    def imported(self) -> ImportedModel:
        """Return the imported model that is divided into regions for the NPU."""
        return self.model

    def exact(self, feeds: Sequence[Feed]) -> Iterator[Feed]:
        """Yield, for each sample, the outputs of the float program, or else of the quantised program in torch."""
        now = dict(self.states.initial)
        for feed in feeds:
            if self.source is None:
                found = self._outputs_of(self.quantized, self._returned[0], feed | now)
            else:
                found = self._outputs_of(self.source, self._returned[1], self._renamed(feed | now))
            yield found
            now = {name: found[output] for name, output in self.states.pairs.items()}

    def _outputs_of(self, program: NodeValues, returned: Sequence[str], feed: Feed) -> Feed:
        """Return a program's outputs by the quantised model's names, and its states after the step."""
        found = program(feed, returned)
        return found | self._named(found, returned)

    def prepare(self, feed: Feed, numerics: Qdq) -> ImportedModel:
        """Return the program with all layers' values as outputs.

        Without a float program, also compile each layer on its own.
        """
        mod, variables = self.model.mod, [each.variable for each in self._layers if each.variable is not None]
        if self.source is None:
            alone = replace(self.model, mod=fed(mod, variables, dequantized=False))
            self._alone = host_runner(alone, numerics=numerics)
        names = [each.layer.value for each in self._layers]
        if has_control_flow(mod):  # `main` only calls other functions
            model = import_torch(returning_nodes(self.quantized.program, names), self.shapes)
            self._results = tuple(spec.name for spec in model.outputs)
            return with_results(model, model.mod)
        self._results = (*(spec.name for spec in self.model.outputs), *names)
        return with_results(self.model, returning(mod, [*returned(mod), *variables]))

    def add(self, feed: Feed, run: Run) -> None:
        """Run all programs on one sample, and add their errors to the layers' sums."""
        names, (own, others) = [each.layer.value for each in self._layers], self._returned
        states = self.states
        fake = self.quantized(feed | states.at("fake"), {*names, *own})
        ours = dict(zip(self._results, run(self.inputs(feed)), strict=True))
        given = feed | states.at("source")
        if self.source is None:
            exact = fake | {each.layer.source: _float(each.layer, fake) for each in self._layers}
            assert self._alone is not None
            integers = [fake[name] for name in names]
            alone = dict(zip(names, self._alone([*self._ordered(given), *integers]), strict=True))
        else:
            exact = self.source(
                self._renamed(given), {*(each.layer.source for each in self._layers), *others}
            )
            alone = self.quantized(given, names, _exact_inputs(self._layers, exact))
        for sums, each in zip(self.layers, self._layers, strict=True):
            layer, value = each.layer, each.layer.value
            whole = (None, None) if layer.integers is None else (ours[value], fake[value])
            floats = (_float(layer, values) for values in (alone, fake, ours))
            sums.add(Values(exact[layer.source], *floats, *whole))
        references = (fake, own) if self.source is None else (exact, others)
        self.keep(
            source=self._named(*references),
            fake=self._named(fake, own),
            integers=ours,
        )
        states.follow(source=exact, fake=fake, integers=ours)

    def _named(self, values: Feed, returned: Sequence[str]) -> Feed:
        """Return the values of the nodes `returned` by the names of the quantised model's outputs."""
        return {name: values[node] for name, node in zip(self.outputs, returned, strict=True)}

    def _renamed(self, feed: Feed) -> Feed:
        """Return a sample with arrays named as the float program's inputs; states keep their names."""
        assert self.source is not None
        renamed = zip(self.source.inputs, (feed[name] for name in self.quantized.inputs), strict=True)
        return {name: feed[name] for name in self.quantized.states} | dict(renamed)

    @cached_property
    def _float_layers(self) -> TorchFloatLayers:
        return TorchFloatLayers(TorchMatching(self.quantized, self.source or self.quantized), self._layers)

    def check_searched(self) -> None:
        """Check that there is a float program, from which layers that are put back to float take their weights.

        Raises:
            UsageError: There is none.
        """
        if self.source is None:
            raise UsageError(
                "--bisect: layers in float get their weights from the float program; name it by --against"
            )

    def choices(self) -> Choices:
        """Return the choices for each layer: int8 or float32; PT2E has no other precision that can be compiled."""
        layers, refused = self._float_layers, "layers of PyTorch's programs go to float32 at once"

        def build(
            *, keep_float: Sequence[str], int16: Sequence[str], float16: Sequence[str]
        ) -> ExportedProgram:
            return layers.with_float(keep_float)

        return Choices(
            layers.units,
            {"float32": [unit.name for unit in layers.units]},
            {"int16": refused, "float16": refused},
            build,
            partial(import_torch, shapes=self.shapes),
        )

    def judge(self, feeds: Sequence[Feed], metric: Metric, gate: Gate) -> Judge:
        """Return the judge of programs that `choices` builds: it runs them in torch on the samples."""
        states, source = self.states, self.source
        assert source is not None

        def opened(program: ExportedProgram) -> Infer:
            values = NodeValues(program, self.name, states.pairs)
            return partial(self._outputs_of, values, returned_names(program))

        def exact(feed: Feed) -> Feed:
            return self._outputs_of(source, self._returned[1], self._renamed(feed))

        stepped = [feed | held for feed, held in zip(feeds, states.exact, strict=True)]
        return Judge(
            self.name, self.outputs, exact, opened, stepped, metric, gate.holds, states.pairs, one_thread
        )

    def chosen(self, mixed: MixedPrecision) -> MixedPrecision:
        """Return the choice with the names of the modules that PyTorch's quantiser must leave in float."""
        chosen = next(each for each in mixed.choices if each.chosen)
        modules = self._float_layers.modules(chosen.layers)

        def labels(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(map(self.label, names))

        choices = (each.model_copy(update={"layers": labels(each.layers)}) for each in mixed.choices)
        costs = (each.model_copy(update={"name": self.label(each.name)}) for each in mixed.layers)
        return mixed.model_copy(
            update={
                "modules": modules,
                "choices": tuple(choices),
                "nodes": labels(mixed.nodes),
                "layers": tuple(costs),
            }
        )

    def label(self, node: str) -> str:
        """Return a node's module and operator, in the float program if there is one."""
        names = {**self.quantized.names, **(self.source.names if self.source is not None else {})}
        return names.get(node, node)


def _exact_inputs(layers: Sequence[TorchLayer], exact: Mapping[str, Array]) -> Replaced:
    """Return a function that replaces layers' inputs by the float program's values, so that each is quantised alone."""
    quantized = {(each.layer.value, each.root) for each in layers}
    values = {name: exact[each.layer.source] for each in layers for name in (each.root, *each.dequantized)}
    return lambda reader, name: None if (reader, name) in quantized else values.get(name)


def _check_alike(quantized: NodeValues, source: NodeValues, name: str, reference: str) -> None:
    nodes = [{node.name: node for node in each.program.graph.nodes} for each in (quantized, source)]
    ours, theirs = (
        [[_described(of[n]) for n in found] for found in (values.inputs, returned_names(values.program))]
        for of, values in zip(nodes, (quantized, source), strict=True)
    )
    for what, one, other in zip(("inputs", "outputs"), ours, theirs, strict=True):
        if one != other:
            raise UsageError(
                f"the {what} of {name} and --against {reference} are {', '.join(one)} and {', '.join(other)}: they are "
                "not of the same model"
            )
    if missing := sorted({*quantized.states} - {*source.states}):
        raise UsageError(
            f"{name} changes its buffer {missing[0]}, which --against {reference} does not have: they are not of the "
            "same model"
        )
    if found := [n.name for n in source.program.graph.nodes if "quantize" in str(n.target)]:
        raise UsageError(f"--against {reference}: is itself quantised ({found[0]}); name the float program")


def _described(node: torch.fx.Node) -> str:
    value = node.meta["val"]
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"


def _float(layer: QdqLayer, values: Mapping[str, Array]) -> Array:
    value = values[layer.value]
    if layer.dequantizer is None:
        return value
    return np.asarray(layer.dequantizer.dequantize(value))
