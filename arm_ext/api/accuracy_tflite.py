# SPDX-License-Identifier: Apache-2.0
"""The chain of `accuracy` from a TFLite model: the float model in LiteRT → LiteRT's integers → our integers.

Without the float model LiteRT's integers are the reference. Layers are the outputs of operators, known by the names
that the files have for their tensors. A layer alone is computed by us, fed with the float model's values.

Samples of a model that keeps variables are consecutive steps: each link of the chain goes on from its own values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.api.accuracy_chain import Chain, Feed, with_results
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.load import is_tflite
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import Tensors
from arm_ext.pipeline.selftest import Run, host_runner
from arm_ext.quantization.layer_errors import LayerErrors, Values
from arm_ext.quantization.layers import QuantizerConstants
from arm_ext.quantization.samples import ONLY_INPUT, split_samples
from arm_ext.quantization.tflite_layers import File, TfliteLayer, layers_of
from relay_passes.canonicalize.define_division import divides_integers
from relay_passes.ir.main_signature import fed, returned, returning
from relay_passes.programs.control_flow import has_control_flow
from schedules.numerics.qdq import Qdq

Array = npt.NDArray[Any]


@dataclass(kw_only=True)
class TfliteChain(Chain):
    """The models that `accuracy` compares for a TFLite model.

    Attributes:
        model: The imported model.
        file: What its file says of tensors.
        against: The float model's file, if there is one.
    """

    # States of our integers before the next step; LiteRT keeps its own states.
    _states: list[Array] = field(default_factory=list)

    model: ImportedModel
    file: File
    against: File | None
    _layers: list[TfliteLayer] = field(default_factory=list)
    # Names of the named variables (resources) that the model keeps.
    _resources: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path, against: Path | None, shapes: Shapes, *, npu: bool) -> "TfliteChain":
        """Read the models, and check that they belong together.

        Raises:
            UsageError: The models do not belong together, or a file is wrong.
            ModelError: A model cannot be imported, or keeps states or decides at run time.
            EnvError: LiteRT is not installed.
        """
        model, name = import_tflite(path, shapes, own_integers=not npu), path.stem
        file, other = File(path), None
        if has_control_flow(model.mod) or divides_integers(model.mod):
            raise ModelError(
                f"{name}: has branches, loops or integer divisions, which accuracy does not support in TFLite models"
            )
        resources = [state.input for state in model.states[len(file.variables) :]]
        if unread := [name for name in resources if name not in file.resources]:
            raise ModelError(
                f"{name}: has named variables that its main graph does not read ({', '.join(unread)}), so that "
                "LiteRT does not expose their values; accuracy does not support them"
            )
        if against is not None:
            import_tflite(against, _by_place(shapes, file, against))  # which checks it
            other = File(against)
            for what, ours, theirs in (
                ("inputs", file.inputs, other.inputs),
                ("outputs", file.outputs, other.outputs),
                ("states", file.kept(resources), other.kept(resources)),
            ):
                shapes_of = [[file.spec(n).shape for n in ours], [other.spec(n).shape for n in theirs]]
                if shapes_of[0] != shapes_of[1]:
                    both = " and ".join(str([list(shape) for shape in each]) for each in shapes_of)
                    raise UsageError(
                        f"the {what} of {name} and --against {other.name} are {both}: they are not of the same model"
                    )
            if found := [n for n in (*other.inputs, *other.outputs) if other.quantizer(n)]:
                raise UsageError(
                    f"--against {other.name}: is itself quantised ({other.tensor_name(found[0])}); name the float model"
                )
        chain = cls(
            name=name,
            reference="LiteRT" if other is None else other.name,
            outputs=tuple(spec.name for spec in model.outputs[: len(file.outputs)]),
            middle="LiteRT",
            model=model,
            file=file,
            against=other,
            _resources=resources,
        )
        chain._open()
        return chain

    def _open(self) -> None:
        """Match the layers and open the interpreters."""
        self._layers, left = layers_of(self.file, self.against, self.model.mod)
        if len(self._layers) <= len(self.file.inputs) and self.file.operators:
            raise UsageError(
                f"{self.name} and --against {self.reference}: no tensor of one has a name of the other; name the model "
                "that it was made of"
            )
        self.uncovered = tuple(left)
        self._states = [state.initial for state in self.model.states]
        self._fake = Tensors(self.file.content, self.name)
        self._exact = None if self.against is None else Tensors(self.against.content, self.reference)
        self.runtime = self._fake.runtime

    def specs(self) -> tuple[TensorSpec, ...]:
        """Return the specs of the arrays in a sample: the model's inputs, in float if --against has a float model."""
        return self._taken if self.against is None else tuple(map(_in_float, self._taken))

    @property
    def _taken(self) -> tuple[TensorSpec, ...]:
        """The model's inputs without its states, which come last."""
        return self.model.inputs[: len(self.file.inputs)]

    def feeds(self, arrays: Mapping[str, Array]) -> list[Feed]:
        """Return one feed per sample, in the model's own dtypes or in float.

        Raises:
            UsageError: As `split_samples`.
        """
        named = dict(arrays)
        for place, spec in enumerate(self._taken):
            others = [] if self.against is None else [self.against.tensor_name(self.against.inputs[place])]
            others += [ONLY_INPUT] if len(self._taken) == 1 else []
            found = next((other for other in (spec.name, *others) if other in named), None)
            if found is not None:
                named[spec.name] = named[found]
        own = [
            spec if spec.name in named and str(named[spec.name].dtype) == spec.dtype else _in_float(spec)
            for spec in self._taken
        ]
        return split_samples(named, own, "samples")

    def inputs(self, feed: Feed) -> list[Array]:
        """Return the model's inputs for a sample in the model's order, followed by the current values of the states."""
        return [*self._given(feed, own=True), *self._states]

    def imported(self) -> ImportedModel:
        """Return the imported model that is divided into regions for the NPU."""
        return self.model

    def exact(self, feeds: Sequence[Feed]) -> Iterator[Feed]:
        """Yield the reference's outputs for each sample; its variables are carried from step to step."""
        file = self.against or self.file
        run = Tensors(file.content, file.name)
        for feed in feeds:
            found = run(self._given(feed, own=self.against is None), file.outputs, file.variables)
            yield {
                name: _dequantized(found[number], file.quantizer(number))
                for name, number in zip(self.outputs, file.outputs, strict=True)
            }

    def _given(self, feed: Feed, *, own: bool) -> list[Array]:
        """Return the inputs of a sample in the model's own dtypes (`own`), or in float."""
        as_typed = _quantized if own else _dequantized
        return [
            as_typed(feed[spec.name], self.file.quantizer(number))
            for spec, number in zip(self._taken, self.file.inputs, strict=True)
        ]

    def prepare(self, feed: Feed, numerics: Qdq) -> ImportedModel:
        """Return the model with all layers' values as outputs.

        Also compile the model that computes each layer on its own.
        """
        inner = [each.variable for each in self._layers[len(self.file.inputs) :]]
        following = returned(self.model.mod)[len(self.file.outputs) :]
        alone = replace(self.model, mod=fed(self.model.mod, inner, dequantized=self.against is not None))
        self._alone = host_runner(alone, numerics=numerics)
        self.layers = [LayerErrors(each.layer) for each in self._layers]
        return with_results(self.model, returning(self.model.mod, [*inner, *following]))

    def add(self, feed: Feed, run: Run) -> None:
        """Run all models on one sample, and add their errors to the layers' sums."""
        given, count = self.inputs(feed), len(self.file.inputs)
        numbers, kept = [each.number for each in self._layers], self.file.kept(self._resources)
        shown = [*numbers, *self.file.outputs, *kept[len(self.file.variables) :]]
        fake = self._fake(given[:count], shown, self.file.variables)
        exact = self._references(feed, fake)
        # Layers are fed with the float model's values, if there is one, so that errors of preceding layers are left
        # out.
        floats = [exact[number] for number in (*numbers[:count], *kept, *numbers[count:])]
        integers = [
            _quantized(exact[number], self.file.quantizer(number)) for number in (*kept, *numbers[count:])
        ]
        found = run(given)
        results, self._states = found[: len(numbers) - count], found[len(numbers) - count :]
        first = [fake[number] for number in self.file.inputs]
        own = self._alone([*given[:count], *integers, *([] if self.against is None else floats)])
        ours, alone = (dict(zip(numbers, [*first, *values], strict=True)) for values in (results, own))
        for sums, each in zip(self.layers, self._layers, strict=True):
            number, quantizer = each.number, each.layer.quantizer
            values = (_dequantized(of[number], quantizer) for of in (alone, fake, ours))
            whole = (None, None) if quantizer is None else (ours[number], fake[number])
            sums.add(Values(exact[number], *values, *whole))
        links = {"source": exact, "fake": fake, "integers": ours}
        self.keep(
            **{
                link: {
                    name: _dequantized(of[number], None if link == "source" else self.file.quantizer(number))
                    for name, number in zip(self.outputs, self.file.outputs, strict=True)
                }
                for link, of in links.items()
            }
        )

    def _references(self, feed: Feed, fake: Mapping[int, Array]) -> dict[int, Array]:
        """Return the reference values (tensor number → value), from the float model or else LiteRT's integers."""
        if self.against is None or self._exact is None:
            return {
                number: _dequantized(value, self.file.quantizer(number)) for number, value in fake.items()
            }
        given = self._given(feed, own=False)
        kept = dict(zip(self.file.variables, self.against.variables, strict=True))
        twins = {each.number: each.twin for each in self._layers if each.twin is not None}
        twins |= dict(zip(self.file.outputs, self.against.outputs, strict=True))
        twins |= {self.file.resources[name]: self.against.resources[name] for name in self._resources}
        found = self._exact(given, list(twins.values()), list(kept.values()))
        return {number: found[twin] for number, twin in (twins | kept).items()}


def checked_paths(model: Path, against: object) -> tuple[Path, Path | None]:
    """Return the paths of the quantised and of the float TFLite model, None without one.

    Raises:
        UsageError: The float model is of another format.
    """
    if against is None:
        return model, None
    if not isinstance(against, str | Path) or (Path(against).is_file() and not is_tflite(Path(against))):
        raise UsageError(
            f"{model} is a TFLite model, but --against is not: name the float TFLite model, or leave --against out"
        )
    return model, Path(against)


def _by_place(shapes: Shapes, file: File, against: Path) -> dict[str, tuple[int, ...]]:
    """Return shapes with inputs renamed as in the float model, by position; the import checks them."""
    if not shapes:
        return {}
    names = [spec.name for spec in import_tflite(against).inputs]
    own = [file.tensor_name(number) for number in file.inputs]
    return {other: shapes[name] for name, other in zip(own, names, strict=False) if name in shapes}


def _in_float(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype="float32") if spec.dtype in ("int8", "uint8", "int16") else spec


def _quantized(value: Array, quantizer: QuantizerConstants | None) -> Array:
    """Return float values as integers of a quantiser; return integers unchanged."""
    if quantizer is None or value.dtype.kind != "f":
        return value
    info = np.iinfo(quantizer.zero_point.dtype)
    steps = np.rint(value.astype(np.float64) / quantizer.scale.flat[0]) + int(quantizer.zero_point.flat[0])
    integers: Array = np.clip(steps, info.min, info.max).astype(info.dtype)
    return integers


def _dequantized(value: Array, quantizer: QuantizerConstants | None) -> Array:
    return value if quantizer is None or value.dtype.kind == "f" else quantizer.dequantize(value)
