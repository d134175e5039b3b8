# SPDX-License-Identifier: Apache-2.0
"""aten.index: data[i, :, j, …], whose indices broadcast against each other."""

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.torch.index_put import dims, positive


def index(emit: Any, data: relax.Expr, indices: Sequence[relax.Expr | None]) -> relax.Expr:
    """Return the elements at the indices.

    Args:
        emit: Binds a call.
        data: Any tensor.
        indices: Integers for each of the first axes, which broadcast against each other, or None for the
            whole axis.

    Raises:
        ValueError: An index is boolean, so that the size of the result depends on the data.
    """
    axes = [axis for axis, places in enumerate(indices) if places is not None]
    given = [places for places in indices if places is not None]
    if any(str(places.ty.dtype) == "bool" for places in given):
        raise ValueError("booleans as an index give a shape that depends on the data; torch.where keeps it")
    places = [positive(emit, place, dims(data)[axis]) for axis, place in zip(axes, given, strict=True)]
    if len(axes) == 1:
        return emit(R.take(data, places[0], axes[0], "fast"))
    rank = len(data.ty.shape)
    others = [axis for axis in range(rank) if axis not in axes]
    found = emit(R.index_tensor(emit(R.permute_dims(data, [*axes, *others])), places))
    # Where the indices are beside each other, their axes stand in their place, and otherwise in front.
    if axes != list(range(axes[0], axes[-1] + 1)) or axes[0] == 0:
        return found
    count = len(found.ty.shape) - len(others)
    before, after = range(count, count + axes[0]), range(count + axes[0], len(found.ty.shape))
    return emit(R.permute_dims(found, [*before, *range(count), *after]))
