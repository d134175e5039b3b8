# SPDX-License-Identifier: Apache-2.0
"""Parsing of --shape: sizes, lists of sizes, and names of sizes that are known only at run time.

    1,3,224,224     one fixed size per dimension
    1,{64,128,256}  one bucket per listed size; at run time, main chooses by the input's shape
    n,3,224,224     any number of samples
    1,n<=512        any size up to 512; all dimensions of one name have the same size

All lists have the same length and are combined by position: x=1,{8,16} with y={8,16},4
are the buckets x=1,8 y=8,4 and x=1,16 y=16,4.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from arm_ext.common.errors import UsageError

if TYPE_CHECKING:  # front ends load TVM, which takes a second
    from arm_ext.frontends.common.refuse import Shapes

Dim = int | str | tuple[int, ...]
Given = Mapping[str, str | Sequence[int | str | Sequence[int]]]
"""Input name → its dimensions, as they are given from Python: a list where the text has braces, or the text."""

_UP_TO = "<="
_LEAST_LARGEST = 8
"""Least bound of a dynamic size; for smaller ones, a list of sizes is just as short."""

_MOST_BUCKETS = 64
"""Largest number of shapes of one package, each of which is a separate program."""

_SELFTEST_LENGTH = 128
"""Length of a bounded size in the self-test, if the bound allows: typical of use, and quick to compute."""

_DIM = re.compile(r"\{([^{}]*)\}|([^,{}]+)")
_DIMS = re.compile(r"(\{[^{}]*\}|[^,{}]+)(,(\{[^{}]*\}|[^,{}]+))*")
_SIZE = re.compile("-?[0-9]{1,18}")


@dataclass(frozen=True)
class Bucket:
    """One set of input shapes that a package is compiled for.

    Attributes:
        label: The sizes chosen in it, such as "64"; empty where there is nothing to choose.
        shapes: Input name → shape; of one sample where the number of samples is known at run time.
        batch: The name of the number of samples; empty where that is fixed.
        batched: Names of the inputs that have that number of samples.
        length: Name of the size that has a bound; empty if there is none. `shapes` then has the self-test's
            value.
        largest: The greatest value of that size.
        open: Input name → the axes that have that size.
    """

    label: str
    shapes: "Shapes"
    batch: str = ""
    batched: tuple[str, ...] = ()
    length: str = ""
    largest: int = 0
    open: "Mapping[str, tuple[int, ...]]" = field(default_factory=dict)

    def with_length(self, length: int) -> "Shapes":
        """Return the shapes with the bounded length replaced by a number."""
        return {
            name: tuple(
                length if axis in self.open.get(name, ()) else size for axis, size in enumerate(shape)
            )
            for name, shape in self.shapes.items()
        }

    def with_batch(self, samples: int) -> "Shapes":
        """Return the shapes with the batch size replaced by a number."""
        first = dict.fromkeys(self.batched, samples)
        return {
            name: (first.get(name, shape[0]), *shape[1:]) if shape else shape
            for name, shape in self.shapes.items()
        }


def parse_dims(text: str) -> tuple[Dim, ...]:
    """Parse one input's dimensions.

    Raises:
        ValueError: The text is not of the form that --shape takes.
    """
    if not _DIMS.fullmatch(text):
        raise ValueError(text)
    return tuple(
        tuple(map(_size, found[1].split(","))) if found[2] is None else _plain(found[2].strip())
        for found in _DIM.finditer(text)
    )


def dims_text(dims: Sequence[Dim]) -> str:
    """Return an input's dimensions as text that `parse_dims` reads."""
    return ",".join(_braces(dim) if isinstance(dim, tuple) else str(dim) for dim in dims)


def _plain(text: str) -> int | str:
    name, bound, largest = map(str.strip, text.partition(_UP_TO))
    if bound and name.isidentifier():
        return f"{name}{_UP_TO}{_size(largest)}"
    return text if text.isidentifier() else _size(text)


def _size(text: str) -> int:
    """Return a size given in decimal digits; int() alone would also accept 1_0 and digits of other scripts."""
    if not _SIZE.fullmatch(text.strip()):
        raise ValueError(text)
    return int(text)


def buckets_of(given: Given | None) -> tuple[Bucket, ...]:
    """Return the buckets to compile, at least one.

    Raises:
        UsageError: Lists differ in length, are empty or repeat a size; a named dimension has no bound and is not the
            first; or a bound is combined with other names or lists.
    """
    if not isinstance(given or {}, Mapping):
        raise UsageError(f"shapes={given!r}: must be a dict of input names and shapes")
    shapes = {name: _dims(name, dims) for name, dims in (given or {}).items()}
    if any(isinstance(dim, str) and _UP_TO in dim for dims in shapes.values() for dim in dims):
        return (_with_bound(shapes),)
    lists = [dim for dims in shapes.values() for dim in dims if isinstance(dim, tuple)]
    batch, batched = _batch(shapes)
    if not lists:
        return (Bucket("", {name: _sizes(dims, 0) for name, dims in shapes.items()}, batch, batched),)
    if len({len(sizes) for sizes in lists}) > 1 or not lists[0]:
        text = " and ".join(map(_braces, lists))
        raise UsageError(
            f"--shape: the lists {text} must have the same length, since they are combined position by position"
        )
    if len(lists[0]) > _MOST_BUCKETS:
        raise UsageError(
            f"--shape: {len(lists[0])} shapes; a package is compiled for each, for at most {_MOST_BUCKETS}: give a "
            "bound instead of the list, as 'n<=512'"
        )
    chosen = list(zip(*dict.fromkeys(lists), strict=True))
    if repeated := [sizes for sizes in chosen if chosen.count(sizes) > 1]:
        raise UsageError(f"--shape: the sizes {','.join(map(str, repeated[0]))} are listed twice")
    return tuple(
        Bucket("x".join(map(str, sizes)), {n: _sizes(dims, k) for n, dims in shapes.items()}, batch, batched)
        for k, sizes in enumerate(chosen)
    )


def static_shapes(given: Given | None, verb: str) -> "Shapes":
    """Return the shapes for a command that supports only one set of static shapes.

    Raises:
        UsageError: As `buckets_of`; there are several, or a named dimension.
    """
    buckets = buckets_of(given)
    if len(buckets) > 1 or buckets[0].batch or buckets[0].length:
        raise UsageError(f"{verb} needs one shape per input: give one size instead of a list or name")
    return buckets[0].shapes


def _dims(name: str, dims: str | Sequence[int | str | Sequence[int]]) -> tuple[Dim, ...]:
    if not isinstance(dims, str | Sequence):
        raise UsageError(f"shapes: {dims!r} of input {name} is not a shape, such as [1, 64] or '1,64'")
    if not isinstance(dims, str):
        return tuple(_dim(name, dim) for dim in dims)
    try:
        return parse_dims(dims)
    except ValueError:
        raise UsageError(
            f"shapes: {dims!r} of input {name} is not a shape, such as '1,64' or '1,n<=512'"
        ) from None


def _dim(name: str, dim: int | str | Sequence[int]) -> Dim:
    if isinstance(dim, int | str):
        return dim
    if isinstance(dim, list | tuple) and all(isinstance(size, int) for size in dim):
        return tuple(dim)
    raise UsageError(f"shapes: {dim!r} of input {name} is not a size: a number, a name or a list of numbers")


def _sizes(dims: Sequence[Dim], position: int) -> tuple[int, ...]:
    """Return the sizes in the bucket at a position; a named number of samples is 1."""
    return tuple(1 if isinstance(d, str) else d[position] if isinstance(d, tuple) else d for d in dims)


def _batch(shapes: Mapping[str, Sequence[Dim]]) -> tuple[str, tuple[str, ...]]:
    """Return the name of the number of samples, and the inputs whose first dimension it is."""
    names = {dim for dims in shapes.values() for dim in dims if isinstance(dim, str)}
    for name, dims in shapes.items():
        if inner := [dim for dim in dims[1:] if isinstance(dim, str)]:
            text = dims_text(dims)
            raise UsageError(
                f"--shape {name}={text}: what is known at run time has a bound, but for the first dimension, of "
                f"samples that are computed one by one: --shape '{name}={text.replace(inner[0], f'{inner[0]}<=512')}'; "
                f"or list the sizes that occur: --shape '{name}={text.replace(inner[0], '{64,128}')}'"
            )
    if len(names) > 1:
        raise UsageError(
            f"--shape: {' and '.join(sorted(names))} both name the number of samples; use one name"
        )
    batched = tuple(name for name, dims in shapes.items() if dims and isinstance(dims[0], str))
    return next(iter(names), ""), batched


def _with_bound(shapes: Mapping[str, Sequence[Dim]]) -> Bucket:
    """Return the bucket for all sizes up to a bound."""
    texts = {dim for dims in shapes.values() for dim in dims if not isinstance(dim, int)}
    if len(texts) > 1:
        both = " and ".join(sorted(_braces(dim) if isinstance(dim, tuple) else dim for dim in texts))
        raise UsageError(f"--shape: {both}: a size with a bound can be combined only with fixed sizes")
    (text,) = texts
    name, _, bound = str(text).partition(_UP_TO)
    largest = int(bound)
    if largest < _LEAST_LARGEST:
        raise UsageError(f"--shape: {text}: the minimum bound is {_LEAST_LARGEST}; list the sizes instead")
    axes = {given: tuple(k for k, dim in enumerate(dims) if dim == text) for given, dims in shapes.items()}
    sizes = {
        given: tuple(0 if dim == text else int(str(dim)) for dim in dims) for given, dims in shapes.items()
    }
    bucket = Bucket("", sizes, length=name, largest=largest, open={k: v for k, v in axes.items() if v})
    return replace(bucket, shapes=bucket.with_length(min(largest, _SELFTEST_LENGTH)))


def _braces(sizes: Sequence[int]) -> str:
    return "{" + ",".join(map(str, sizes)) + "}"
