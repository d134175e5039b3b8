# SPDX-License-Identifier: Apache-2.0
"""Models with a run-time batch size: the model for one sample, run once per sample."""

from collections.abc import Callable
from dataclasses import replace

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.shapes.given import Bucket
from relay_passes.batching.batch_independence import check_batch_independence
from schedules.generic.legalize import LEGALIZE

SELFTEST_SAMPLES = 3
"""Number of samples in the self-test: the first, a middle one, and the last."""


def batched(
    one: ImportedModel, bucket: Bucket, import_for: Callable[[Shapes], ImportedModel]
) -> ImportedModel:
    """Return the model for any number of samples; its `mod` still computes one sample.

    Args:
        one: The model of one sample.
        bucket: The inputs that have samples, and the name of the number of samples.
        import_for: Imports the model for given shapes.

    Raises:
        ModelError: The model's samples cannot be computed one by one; the message names the node.
    """
    try:
        several = import_for(bucket.with_batch(SELFTEST_SAMPLES))
    except (
        ModelError,
        UsageError,
    ) as err:  # the model was exported for one sample, which its reshapes contain
        raise _not_apart(bucket, f"it does not take {SELFTEST_SAMPLES} of them ({err})") from err
    inputs = tuple(
        replace(spec, batch=bucket.batch) if spec.name in bucket.batched else spec for spec in several.inputs
    )
    if reason := check_batch_independence(
        one.mod, several.mod, with_samples(inputs), SELFTEST_SAMPLES, LEGALIZE
    ):
        raise _not_apart(bucket, str(reason))
    outputs = tuple(replace(spec, batch=bucket.batch) for spec in several.outputs)
    return replace(
        one,
        inputs=inputs,
        outputs=outputs,
        reference=several.reference,
        float_reference=several.float_reference,
    )


def with_samples(inputs: tuple[TensorSpec, ...]) -> list[int]:
    """Return the indices of the inputs with a batch axis."""
    return [index for index, spec in enumerate(inputs) if spec.batch]


def _not_apart(bucket: Bucket, reason: str) -> ModelError:
    name = bucket.batched[0]
    sizes = ",".join(map(str, bucket.shapes[name][1:]))
    return ModelError(
        f"its samples cannot be computed one by one, as '{bucket.batch}' in --shape asks: {reason.removeprefix(': ')}. "
        f"List the numbers of samples that occur: --shape '{name}={{1,8}},{sizes}'"
    )
