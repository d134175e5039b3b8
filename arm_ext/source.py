# SPDX-License-Identifier: Apache-2.0
"""What `compile` begins with: a model, what is asked of it before the phases, and which of that goes together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnx

from arm_ext.batch import batched
from arm_ext.errors import UsageError
from arm_ext.frontends.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.frontends.preprocess import Preprocess
from arm_ext.frontends.state import read_initial, with_states
from arm_ext.frontends.wrap import preprocessed
from arm_ext.manifest import Calibration, Precision
from arm_ext.pipeline import Context
from arm_ext.quant.frontend import import_given
from arm_ext.quant.static import Method
from arm_ext.selftest import random_inputs
from arm_ext.shapes import Bucket
from arm_ext.target.profiles import Profile
from arm_ext.variants import Variant

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
    from torch.export import ExportedProgram

# By LLVM's names, Armv8.2-A's arithmetic on binary16 and Armv8.6-A's products of bfloat16. Without them each
# operation takes conversions more.
_PRECISION_FEATURE: dict[Precision, str] = {"fp16": "fullfp16", "bf16": "bf16"}


@dataclass(frozen=True)
class Source:
    """A model and how it is imported; see the arguments of `compile`."""

    model: "str | Path | onnx.ModelProto | ExportedProgram | nn.Module | Exported"
    preprocess: Preprocess | str | Path | None
    state: Mapping[str, str]
    state_init: Mapping[str, npt.NDArray[Any]] | str | Path | None
    quantize: str | Path | None
    calibration: Method
    inputs: Sequence[npt.NDArray[Any]] | None

    def variants(
        self, buckets: Sequence[Bucket], context: Context
    ) -> tuple[list[Variant], Calibration | None]:
        """Import the model for each bucket; how it was quantised, if it was, comes beside.

        Args:
            buckets: One at least.
            context: What the phases of each are told.
        """
        variants = []
        for bucket in buckets:
            imported, calibrated = import_given(
                self.model, bucket.shapes, self.state, self.quantize, self.calibration
            )
            if bucket.batch:
                imported = batched(imported, bucket, partial(import_model, self.model))
            imported = with_states(
                preprocessed(imported, self.preprocess), self.state, read_initial(self.state_init)
            )
            _check_precision(context.precision, imported, context.profile)
            refuse_together(buckets, states=imported.states)
            inputs = list(self.inputs) if self.inputs is not None else random_inputs(imported.inputs)
            variants.append(Variant(bucket, imported, inputs, context.of_piece()))
        return variants, calibrated


def refuse_together(buckets: Sequence[Bucket], **given: object) -> None:
    """Refuse what takes one shape an input, where there are several.

    Raises:
        UsageError: There are several shapes, and one of these.
    """
    for option, value in given.items():
        if value and (len(buckets) > 1 or buckets[0].batch):
            raise UsageError(
                f"several shapes in one package cannot have {option}; name one size in the place of a list or name"
            )


def _check_precision(precision: Precision, model: ImportedModel, profile: Profile) -> None:
    if precision == "fp32":
        return
    if model.quantized:
        raise UsageError(f"--precision {precision} is for float models; {model.name} is quantised")
    feature = _PRECISION_FEATURE[precision]
    if feature not in profile.features:
        raise UsageError(
            f"--precision {precision} needs {feature}, which {profile.name} lacks; "
            f"name a target that has it, or add it by --mattr=+{feature}"
        )
