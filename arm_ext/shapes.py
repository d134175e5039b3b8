# SPDX-License-Identifier: Apache-2.0
"""What --shape says of an input: sizes, sizes to choose from, and the name of a size that is known at run time.

    1,3,224,224     one size each
    1,{64,128,256}  a bucket each: main chooses by the shape that it is given
    n,3,224,224     any number of samples

Lists of several inputs, or of one, are of one length and go together position by position: x=1,{8,16} with y={8,16},4
are the buckets x=1,8 y=8,4 and x=1,16 y=16,4.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arm_ext.errors import UsageError

if TYPE_CHECKING:  # front ends load TVM, which takes a second
    from arm_ext.frontends.refuse import Shapes

Dim = int | str | tuple[int, ...]
Given = Mapping[str, Sequence[int | str | Sequence[int]]]
"""Input name → its dimensions, as they are given from Python: a list or tuple where the text has braces."""

_DIM = re.compile(r"\{([^{}]*)\}|([^,{}]+)")
_DIMS = re.compile(r"(\{[^{}]*\}|[^,{}]+)(,(\{[^{}]*\}|[^,{}]+))*")


@dataclass(frozen=True)
class Bucket:
    """Shapes that a package is compiled for.

    Attributes:
        label: The sizes chosen in it, such as "64"; empty where there is nothing to choose.
        shapes: Input name → shape; of one sample where the number of samples is known at run time.
        batch: The name of the number of samples; empty where that is fixed.
        batched: The inputs that have as many samples.
    """

    label: str
    shapes: "Shapes"
    batch: str = ""
    batched: tuple[str, ...] = ()

    def with_batch(self, samples: int) -> "Shapes":
        """Return the shapes for a number of samples."""
        first = dict.fromkeys(self.batched, samples)
        return {
            name: (first.get(name, shape[0]), *shape[1:]) if shape else shape
            for name, shape in self.shapes.items()
        }


def parse_dims(text: str) -> tuple[Dim, ...]:
    """Parse one input's dimensions.

    Raises:
        ValueError: They are not of the form.
    """
    if not _DIMS.fullmatch(text):
        raise ValueError(text)
    return tuple(
        tuple(int(size) for size in found[1].split(",")) if found[2] is None else _plain(found[2].strip())
        for found in _DIM.finditer(text)
    )


def dims_text(dims: Sequence[Dim]) -> str:
    """Return one input's dimensions as `parse_dims` reads them."""
    return ",".join(_braces(dim) if isinstance(dim, tuple) else str(dim) for dim in dims)


def _plain(text: str) -> int | str:
    return text if text.isidentifier() else int(text)


def buckets_of(given: Given | None) -> tuple[Bucket, ...]:
    """Return what is to be compiled, one bucket at least.

    Raises:
        UsageError: Lists of different lengths, empty or repeating; a named dimension that is not the first.
    """
    shapes = {name: tuple(map(_dim, dims)) for name, dims in (given or {}).items()}
    lists = [dim for dims in shapes.values() for dim in dims if isinstance(dim, tuple)]
    batch, batched = _batch(shapes)
    if not lists:
        return (Bucket("", {name: _sizes(dims, 0) for name, dims in shapes.items()}, batch, batched),)
    if len({len(sizes) for sizes in lists}) > 1 or not lists[0]:
        text = " and ".join(map(_braces, lists))
        raise UsageError(f"--shape: {text} must be of one length: they go together position by position")
    chosen = list(zip(*dict.fromkeys(lists), strict=True))
    if repeated := [sizes for sizes in chosen if chosen.count(sizes) > 1]:
        raise UsageError(f"--shape: the sizes {','.join(map(str, repeated[0]))} are listed twice")
    return tuple(
        Bucket("x".join(map(str, sizes)), {n: _sizes(dims, k) for n, dims in shapes.items()}, batch, batched)
        for k, sizes in enumerate(chosen)
    )


def static_shapes(given: Given | None, verb: str) -> "Shapes":
    """Return the shapes for a verb that takes one set of them.

    Raises:
        UsageError: As `buckets_of`; there are several, or a named dimension.
    """
    buckets = buckets_of(given)
    if len(buckets) > 1 or buckets[0].batch:
        raise UsageError(
            f"{verb} takes one shape an input: name one of the sizes in the place of a list or name"
        )
    return buckets[0].shapes


def _dim(dim: int | str | Sequence[int]) -> Dim:
    return dim if isinstance(dim, int | str) else tuple(dim)


def _sizes(dims: Sequence[Dim], position: int) -> tuple[int, ...]:
    """The sizes in the bucket at a position; of one sample, if their number has a name."""
    return tuple(1 if isinstance(d, str) else d[position] if isinstance(d, tuple) else d for d in dims)


def _batch(shapes: Mapping[str, Sequence[Dim]]) -> tuple[str, tuple[str, ...]]:
    """The name of the number of samples, and the inputs that have it as their first dimension."""
    names = {dim for dims in shapes.values() for dim in dims if isinstance(dim, str)}
    for name, dims in shapes.items():
        if inner := [dim for dim in dims[1:] if isinstance(dim, str)]:
            text = dims_text(dims)
            raise UsageError(
                f"--shape {name}={text}: only the first dimension, of samples that are computed one by one, may be "
                f"known at run time; list the sizes of {inner[0]} that occur, as in "
                f"--shape '{name}={text.replace(inner[0], '{64,128}')}'"
            )
    if len(names) > 1:
        raise UsageError(
            f"--shape: {' and '.join(sorted(names))} are two names; the number of samples has one"
        )
    batched = tuple(name for name, dims in shapes.items() if dims and isinstance(dims[0], str))
    return next(iter(names), ""), batched


def _braces(sizes: Sequence[int]) -> str:
    return "{" + ",".join(map(str, sizes)) + "}"
