# SPDX-License-Identifier: Apache-2.0
"""The input of `compile`: a model with pre-processing, states and quantisation, and checks of their combination."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnx

from arm_ext.api.options import ModelOptions
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.npz import read_npz
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.frontends.common.state import read_initial, with_states
from arm_ext.frontends.load import TrustedFile
from arm_ext.frontends.preprocess.options import read_preprocess
from arm_ext.frontends.preprocess.wrap import preprocessed
from arm_ext.package.manifest import Calibration, Precision
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.quantization.quantize_model import QuantizingImporter
from arm_ext.quantization.samples import split_samples
from arm_ext.shapes.batch import batched
from arm_ext.shapes.bounded_length import of_any_length, refuse_with_length
from arm_ext.shapes.buckets import check_states, check_together, counted_inputs, with_frames
from arm_ext.shapes.given import Bucket
from arm_ext.shapes.variants import Variant
from arm_ext.target.profiles import Profile

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
    from torch.export import ExportedProgram

# LLVM feature for each precision: Armv8.2-A's binary16 arithmetic, and Armv8.6-A's bfloat16 products. Without them,
# each operation needs additional conversions.
PRECISION_FEATURE: dict[Precision, str] = {"fp16": "fullfp16", "bf16": "bf16"}


@dataclass(frozen=True)
class Source:
    """A model and the options of its import.

    Attributes:
        model: The model.
        options: Options by which it is imported.
        npu: Whether an NPU computes parts of it.
        change: A change of the imported model, made for each set of shapes.
    """

    model: "str | Path | TrustedFile | onnx.ModelProto | ExportedProgram | nn.Module | Exported"
    options: ModelOptions = field(default_factory=ModelOptions)
    npu: bool = False
    change: Callable[[ImportedModel], ImportedModel] = lambda model: model

    def variants(
        self, buckets: Sequence[Bucket], options: PhaseOptions
    ) -> tuple[list[Variant], Calibration | None]:
        """Import the model for each bucket; also return the calibration, or None if the model was not quantised here.

        Args:
            buckets: The buckets, at least one.
            options: Phase options of each variant.
        """
        models, calibrated = self.models(buckets)
        given = self.options.inputs
        if given is not None and (len(models) > 1 or models[0][0].batch):
            raise UsageError(
                "inputs for the self-test have one shape, but the package would have several; leave the inputs out"
            )
        variants = []
        for bucket, imported in models:
            _check_ends(imported)
            _check_precision(options.precision, imported, options.profile)
            inputs = _drawn(imported) if given is None else _given(given, imported)
            variants.append(Variant(bucket, imported, inputs, options, given is not None))
        return variants, calibrated

    def models(
        self, buckets: Sequence[Bucket]
    ) -> tuple[list[tuple[Bucket, ImportedModel]], Calibration | None]:
        """Import the model for each bucket and frame size.

        Also return the calibration, or None if it was not quantised here.

        Raises:
            UsageError, ModelError, EnvError: As the front ends, and what prepares for them; the models cannot be one
                package's.
        """
        o, state = self.options, self.options.state or {}
        alone = {"--preprocess": o.preprocess, "--state": state, "--quantize": o.quantize}
        refuse_with_length(buckets, **alone, **{"inputs for the self-test": o.inputs})
        preprocess, initial = read_preprocess(o.preprocess), read_initial(o.state_init)
        buckets = with_frames(buckets, preprocess)
        importer = QuantizingImporter(
            self.model,
            [bucket.shapes for bucket in buckets],
            state,
            initial,
            o.quantize,
            o.calibration,
        )
        counted = counted_inputs(buckets)

        def imported(position: int, shapes: Shapes) -> ImportedModel:
            samples = {name: shapes[name][0] for name in counted}
            model = importer(shapes)
            if self.npu and model.for_npu is not None:
                model = model.for_npu()
            return preprocessed(self.change(model), preprocess and preprocess.of_shape(position, samples))

        models = []
        for position, bucket in enumerate(buckets):
            model = imported(position, bucket.shapes)
            check_states(bucket, model, list(state))
            if bucket.batch:
                model = batched(model, bucket, partial(imported, position))
            if bucket.length:
                refuse_with_length(buckets, states=model.states)
                model = of_any_length(model, bucket, partial(imported, position))
            models.append((bucket, with_states(model, state, initial)))
        check_together(models)
        return models, importer.calibration


def _drawn(model: ImportedModel) -> list[npt.NDArray[Any]]:
    """Return inputs for the self-test: the model's examples, and random numbers."""
    missing = [spec for spec in model.inputs if spec.name not in model.examples]
    drawn = dict(zip((spec.name for spec in missing), random_inputs(missing), strict=True))
    known = drawn | dict(model.examples)
    return [known[spec.name] for spec in model.inputs]


def _given(inputs: Sequence[npt.NDArray[Any]] | str | Path, model: ImportedModel) -> list[npt.NDArray[Any]]:
    """Return the self-test's inputs: the first sample of an .npz file.

    A state that the file lacks has its initial value.
    """
    if not isinstance(inputs, str | Path):
        return list(inputs)
    arrays = read_npz(Path(inputs), "samples for the self-test, an array an input")
    begun = {state.input: state.initial for state in model.states if state.input not in arrays}
    specs = [spec for spec in model.inputs if spec.name not in begun]
    sample = begun | split_samples(arrays, specs, f"samples of {inputs}")[0]
    return [sample[spec.name] for spec in model.inputs]


def _check_ends(model: ImportedModel) -> None:
    for kind, specs in (("input", model.inputs), ("output", model.outputs)):
        for spec in specs:
            # Neither numpy nor .npz files support bfloat16.
            if spec.dtype == "bfloat16":
                raise ModelError(
                    f"{kind} '{spec.name}' is of bfloat16, which a package's inputs and outputs cannot have: let "
                    "the model "
                    "cast from or to float32 there"
                )


def _check_precision(precision: Precision, model: ImportedModel, profile: Profile) -> None:
    if precision == "fp32":
        return
    if model.quantized:
        raise UsageError(f"--precision {precision} is for float models; {model.name} is quantised")
    feature = PRECISION_FEATURE[precision]
    if feature not in profile.features:
        raise UsageError(
            f"--precision {precision} needs {feature}, which {profile.name} lacks; "
            f"name a target that has it, or add it by --mattr=+{feature}"
        )
