# SPDX-License-Identifier: Apache-2.0
"""Models of bounded length, built from the model at several fixed lengths."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import tvm
from tvm import relax
from tvm_ffi import structural_equal

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.refuse import Shapes
from arm_ext.pipeline.phases import (
    IMPORT,
    BoundedLength,
    PhaseDump,
    PhaseOptions,
    PhaseResult,
    last,
    run_phases,
    up_to,
)
from arm_ext.shapes.given import Bucket, Dim, dims_text
from relay_passes.ir.sizes import text_of
from relay_passes.ir.sources import bindings_of, global_callees, relax_functions, sources_of
from relay_passes.lengths.fix_length import dims_of
from relay_passes.lengths.growing_constants import end_slices_inside, slice_growing
from relay_passes.lengths.merge_lengths import merge_lengths
from schedules.diagnostic import Diagnostic
from schedules.numerics import recurrent

_SHORT = (3, 2)
"""Lengths for which a model must be the same as for long ones; for 1, importers may omit an axis."""


def refuse_with_length(buckets: Sequence[Bucket], **given: object) -> None:
    """Raise UsageError for options that cannot be combined with a bounded length.

    Raises:
        UsageError: A size has a bound, and one of these options is given.
    """
    for option, value in given.items():
        if buckets[0].length and value:
            raise UsageError(
                f"{option} cannot be combined with a bounded size ('{buckets[0].length}'); list the sizes instead "
                f"of the bound, as {{64,128}}"
            )


def of_any_length(
    model: ImportedModel, bucket: Bucket, import_for: Callable[[Shapes], ImportedModel]
) -> ImportedModel:
    """Return the model for any length up to the bound; its `mod` still has the length of the self-test.

    Args:
        model: The model for the self-test's length.
        bucket: Inputs that have the length, its name, and its greatest value.
        import_for: Imports the model for given shapes.

    Raises:
        ModelError: The model's operators differ with the length; the message names the node.
    """
    modules = {
        length: end_slices_inside(_imported(bucket, length, import_for).mod)
        for length in (*_long(bucket), *_SHORT)
    }
    if any(len(list(relax_functions(mod))) > 1 for mod in modules.values()):
        raise _refused(bucket, "it has loops or branches")
    if walked := _walked(list(modules.values())):
        raise _refused(bucket, str(walked))
    found = merge_lengths(list(slice_growing(modules).values()), tuple(modules), bucket.length)
    if isinstance(found, Diagnostic):
        raise _refused(bucket, str(found))
    inputs = tuple(_opened(spec, bucket) for spec in model.inputs)
    result = found["main"].ret_ty
    types = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    outputs = tuple(
        replace(spec, open=_texts(dims_of(ty))) for spec, ty in zip(model.outputs, types, strict=True)
    )
    lengths = {length: modules[length] for length in _long(bucket)}
    least = 1 if _takes_one(bucket, import_for) else min(_SHORT)
    return replace(model, inputs=inputs, outputs=outputs, lengths=lengths, least=least)


def run_lengths(
    model: ImportedModel, bucket: Bucket, options: PhaseOptions, dump: PhaseDump | None
) -> Iterator[tuple[str, PhaseResult]]:
    """Run PHASES: up to `fuse` for several fixed lengths, then for the merged model; see `run_phases`.

    Raises:
        ModelError: A phase makes operators that differ with the length; the message names the node.
    """
    results = {length: PhaseResult(mod) for length, mod in model.lengths.items()}
    largest, before = max(results), IMPORT
    for phase in (phase.name for phase in up_to("fuse")):
        if phase == "fuse":  # no constants are folded after this phase
            grown = slice_growing({length: result.mod for length, result in results.items()})
            results = {length: replace(result, mod=grown[length]) for length, result in results.items()}
        results = {
            length: last(run_phases(result, options, after=before, until=phase))
            for length, result in results.items()
        }
        merged = results[largest] if phase != "fuse" else _merged(bucket, results)
        if dump is not None:
            dump.write(phase, merged.mod)
        yield phase, merged
        before = phase
    yield from run_phases(
        merged, replace(options, length=BoundedLength(bucket.length, largest)), dump, after=before
    )


def _merged(bucket: Bucket, results: Mapping[int, PhaseResult]) -> PhaseResult:
    """Merge the results for single lengths into one model, with the records of the longest."""
    modules = [result.mod for result in results.values()]
    found = merge_lengths(modules, tuple(results), bucket.length)
    if isinstance(found, Diagnostic):
        raise _refused(bucket, str(found))
    return replace(results[max(results)], mod=found)


def _long(bucket: Bucket) -> tuple[int, ...]:
    """Return long lengths, both odd and even; a property of all of them is taken to hold for the lengths between."""
    return bucket.largest, bucket.largest - 1, bucket.largest * 2 // 3


def _takes_one(bucket: Bucket, import_for: Callable[[Shapes], ImportedModel]) -> bool:
    """Whether the model supports a length of 1, which may be too short for a reflection or a window."""
    try:
        import_for(bucket.with_length(1))
    except (ModelError, UsageError):
        return False
    return True


def _imported(bucket: Bucket, length: int, import_for: Callable[[Shapes], ImportedModel]) -> ImportedModel:
    try:
        return import_for(bucket.with_length(length))
    except (ModelError, UsageError) as err:
        raise _refused(bucket, f"it does not take {length} ({err})") from err


def _walked(modules: Sequence[tvm.IRModule]) -> Diagnostic | None:
    """Return a rejection if a recurrent layer prevents the merge: its kernel has a fixed number of steps. Else None."""
    first, *others = modules
    for binding in bindings_of(first["main"]):
        for name in global_callees(binding.value) if isinstance(binding.value, relax.Call) else ():
            attributes = first[name].attrs
            if (
                attributes
                and attributes.get("numerics", "") in recurrent.NAMES
                and any(not structural_equal(first[name], mod[name]) for mod in others)
            ):
                reason = "a recurrent layer has one number of steps"
                return Diagnostic.of(reason, nodes=sources_of(binding.value))
    return None


def _opened(spec: TensorSpec, bucket: Bucket) -> TensorSpec:
    axes = bucket.open.get(spec.name, ())
    text = f"{bucket.length}<={bucket.largest}"
    return (
        replace(spec, open=tuple(text if k in axes else "" for k in range(len(spec.shape)))) if axes else spec
    )


def _texts(dims: "list[tvm.ir.Expr]") -> tuple[str, ...]:
    texts = tuple("" if isinstance(dim, tvm.tirx.IntImm) else text_of(dim) for dim in dims)
    return texts if any(texts) else ()


def _refused(bucket: Bucket, reason: str) -> ModelError:
    name, (axis, *_) = next(iter(bucket.open.items()))
    dims: list[Dim] = list(bucket.shapes[name])
    dims[axis] = (bucket.largest // 2, bucket.largest)
    return ModelError(
        f"'{bucket.length}' in --shape cannot be known at run time: {reason.removeprefix(': ')}. "
        f"List the sizes that occur: --shape '{name}={dims_text(dims)}'"
    )
