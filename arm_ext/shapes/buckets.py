# SPDX-License-Identifier: Apache-2.0
"""Checks that a package's buckets are consistent, and buckets for several frame sizes."""

from collections.abc import Sequence
from dataclasses import replace

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel, State
from arm_ext.frontends.preprocess.options import Preprocess, fault
from arm_ext.shapes.given import Bucket


def with_frames(buckets: Sequence[Bucket], preprocess: Preprocess | None) -> tuple[Bucket, ...]:
    """Return the buckets; a single bucket is repeated for each frame size in a list.

    Raises:
        UsageError: An input has another number of frames than there are buckets.
    """
    frames = {} if preprocess is None else preprocess.several
    for name, given in frames.items():
        others = "--shape lists", len(buckets)
        if len(buckets) == 1:
            others = "another input has", len(next(iter(frames.values())))
        if len(given) != others[1]:
            raise fault(
                ("inputs", name, "frames"),
                f"there are {len(given)}, and {others[0]} {others[1]}; they go together position by position",
            )
    if len(buckets) > 1 or not frames:
        return tuple(buckets)
    labels = [
        "_".join("x".join(map(str, frame)) for frame in each) for each in zip(*frames.values(), strict=True)
    ]
    return tuple(replace(buckets[0], label=label) for label in labels)


def counted_inputs(buckets: Sequence[Bucket]) -> tuple[str, ...]:
    """Return the inputs whose batch size is a list or a name in --shape."""
    first = buckets[0]
    listed = (
        name for name, dims in first.shapes.items() if dims and len({b.shapes[name][0] for b in buckets}) > 1
    )
    return (*first.batched, *(name for name in listed if name not in first.batched))


def check_together(models: Sequence[tuple[Bucket, ImportedModel]]) -> None:
    """Check that models can be buckets of one package, whose `main` dispatches by shape.

    Raises:
        UsageError: Two models take the same shapes, numbers of axes differ, or a state has several shapes.
    """
    (_, first), *others = models
    seen: dict[tuple[tuple[int, ...], ...], str] = {}
    for bucket, model in models:
        shapes = tuple(spec.shape for spec in model.inputs)
        taken = ", ".join(spec.describe() for spec in model.inputs)
        if shapes in seen:
            raise UsageError(
                f"the package would take {taken} both for {seen[shapes]} and for {bucket.label} of --shape, and could "
                "not tell which is meant: the frame hides the size that --shape lists. Give each a frame of its own "
                "(frames: in place of frame:), or name one size"
            )
        seen[shapes] = bucket.label
    for bucket, model in others:
        for mine, other in zip(first.inputs, model.inputs, strict=True):
            if len(mine.shape) != len(other.shape):
                raise UsageError(
                    f"{mine.describe()} and {other.describe()} differ in their number of axes; frames of one input are "
                    "all with a number of frames in front, or all without"
                )
        for held, next_held in zip(first.states, model.states, strict=True):
            _check_state(models[0][0], held, bucket, next_held)


def check_states(bucket: Bucket, model: ImportedModel, named: Sequence[str]) -> None:
    """Raise UsageError for states of a model with a run-time batch size.

    Raises:
        UsageError: The model has states, and its batch size is known at run time only.
    """
    states = [*named, *(state.input for state in model.states if state.input not in named)]
    if bucket.batch and states:
        raise UsageError(
            f"'{bucket.batch}' in --shape computes samples one by one, each by itself, and the state {states[0]} would "
            f"go from one to the next; name a number in the place of '{bucket.batch}', as 1, and call step for each"
        )


def _check_state(bucket: Bucket, state: State, other_bucket: Bucket, other: State) -> None:
    if state.initial.shape != other.initial.shape:
        raise UsageError(
            f"--state {state.input}={state.output}: it is {list(state.initial.shape)} for {bucket.label} of --shape "
            f"and {list(other.initial.shape)} for {other_bucket.label}; a state has one shape, for a step of one may "
            "follow on a step of another. List sizes of other inputs alone, or make a package each"
        )
