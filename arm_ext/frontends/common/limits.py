# SPDX-License-Identifier: Apache-2.0
"""Limits of sizes and attributes, which each front end checks before it converts a model.

Beyond them, libraries fail without a message: a stride of 0 ends the process in shape inference, 2^60 repeats overflow
an index, 2^40 elements are allocated. A front end has a table from its names for numbers (`strides`, `StrideH`) to the
limits below; `check_values` looks at what every front end returns.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tvm
from tvm import relax, sym, tirx
from tvm.ir import Expr, GenericConst, TensorLoad, Type, Var
from tvm.s_tir.stmt import SBlock
from tvm_ffi import structural_map, structural_walk

from arm_ext.common.errors import ModelError
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of

if TYPE_CHECKING:
    from arm_ext.frontends.common.imported import TensorSpec

MOST = 2**31 - 1
"""Largest number among an operator's attributes: TVM's attributes, and those of most formats, have 32 bits."""

MOST_AXES = 64
"""Largest rank of a tensor: the limit of numpy, which draws samples and computes references."""

MOST_BYTES = 2**40
"""Largest tensor in bytes: more than the memory of any Arm machine, and far below where products of sizes overflow."""

_SHARE = 4
"""Divisor of this machine's memory that gives the largest tensor: the self-test holds several tensors, and copies."""

MOST_NESTED = 64
"""Most branches, loops and calls of functions inside each other: each takes a part of the reader's stack."""

MOST_CALLS = 50_000
"""Nodes of a program, its functions and loops written out: beyond it, compiling takes hours."""

MOST_ROUNDS = 2**24
"""Largest known number of rounds of a loop, since the self-test and each call of the package run all of them."""

MOST_UNROLLED = 2048
"""Most operators of a loop that is unrolled, each of which becomes a call."""

ELEMENT_TYPES = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64"),
    )
)
"""Element types that code is generated for. Front ends widen integers of 4 bits."""


@dataclass(frozen=True)
class Limit:
    """The range in which a number must be.

    Attributes:
        least: The smallest allowed.
        most: The largest allowed.
        nonzero: Whether 0 is not allowed.
    """

    least: float
    most: float
    nonzero: bool = False

    def holds(self, number: float) -> bool:
        """Whether a number is within the limit; NaN is not."""
        return self.least <= number <= self.most and not (self.nonzero and number == 0)

    def __str__(self) -> str:
        """Return the limit as messages show it."""
        return f"{'other than 0, ' if self.nonzero else ''}from {self.least:g} to {self.most:g}".replace(
            f"{float(MOST):g}", str(MOST)
        )


COUNT = Limit(1, MOST)
"""Strides, dilations, sizes of windows, groups and heads, which are at least 1."""
SIZE = Limit(0, MOST)
"""Padding, repeats and sizes, which may be 0."""
OFFSET = Limit(-MOST, MOST)
"""Diagonals, and padding that may be negative, which crops."""
STEP = Limit(-(2**63) + 1, 2**63 - 1, nonzero=True)
"""Steps of slices and ranges."""
BLOCK = Limit(1, math.isqrt(MOST))
"""Sides of blocks, of which libraries take the square."""
FACTOR = Limit(2.0**-31, float(MOST))
"""Scales of sizes."""


@dataclass(frozen=True)
class Site:
    """A node, formatted for messages."""

    operator: str
    node: str

    def refuse(self, what: str, value: object, limit: object) -> ModelError:
        """Return the error for an attribute of the node that exceeds its limit."""
        return ModelError(f"{self} cannot be compiled: {what} is {value}, and must be {limit}")

    def __str__(self) -> str:
        """Return the operator and the node's name."""
        return f"{self.operator} node '{self.node}'"


def check_numbers(site: Site, what: str, values: Iterable[float], limit: Limit) -> None:
    """Raise ModelError if numbers of a node exceed a limit.

    Raises:
        ModelError: A number exceeds the limit; the message names all of them.
    """
    found = list(values)
    if not all(limit.holds(number) for number in found):
        raise site.refuse(what, found[0] if len(found) == 1 else found, limit)


def check_axes(site: Site, what: str, axes: Sequence[int], rank: int) -> None:
    """Raise ModelError for axes out of range or named twice.

    Raises:
        ModelError: An axis is out of range or named twice.
    """
    check_numbers(site, what, axes, Limit(-rank, rank - 1))
    if len({axis % rank for axis in axes}) < len(axes):
        raise site.refuse(what, list(axes), "no axis twice")


def check_permutation(site: Site, what: str, order: Sequence[int], rank: int) -> None:
    """Raise ModelError if axes are not a permutation.

    Raises:
        ModelError: The axes are no permutation.
    """
    if sorted(order) != list(range(rank)):
        raise site.refuse(what, list(order), f"an order of the axes 0 to {rank - 1}")


def check_window(
    site: Site,
    image: Sequence[int],
    window: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> None:
    """Raise ModelError for a window that is larger than its padded image.

    Args:
        site: The node that the error names.
        image: Sizes of the axes that the window moves along.
        window: Sizes of the window along the same axes.
        dilations: Dilations in the same order.
        pads: Pads in the same order, those of both sides in one.

    Raises:
        ModelError: The window is larger than its padded image.
    """
    spans = [(size - 1) * each + 1 for size, each in zip(window, dilations, strict=True)]
    padded = [size + each for size, each in zip(image, pads, strict=True)]
    if any(span > size for span, size in zip(spans, padded, strict=True)):
        raise site.refuse("its window", spans, f"no larger than the padded image, {padded}")


def check_groups(site: Site, groups: int, **channels: int) -> None:
    """Raise ModelError if the number of groups does not divide the channels.

    Raises:
        ModelError: The groups do not divide the channels.
    """
    check_numbers(site, "its number of groups", [groups], COUNT)
    for what, count in channels.items():
        if count % groups:
            raise site.refuse("its number of groups", groups, f"a divisor of the {count} {what} channels")


def machine_bytes() -> int:
    """Return the memory of this machine in bytes, which bounds the tensors of a self-test."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_tensor(of: object, what: str, shape: Sequence[int], item_bytes: float) -> None:
    """Raise ModelError for a tensor with an invalid size, or one larger than this machine's memory.

    Args:
        of: Prefix of messages, such as a `Site`.
        what: What the tensor is, for the message.
        shape: Dimensions of the tensor.
        item_bytes: Bytes of an element.

    Raises:
        ModelError: The tensor has an invalid size or is too large.
    """
    _check_axes(f"{of}: {what}", shape)
    limit = min(MOST_BYTES, machine_bytes() // _SHARE)
    total = math.prod(max(size, 1) for size in shape) * item_bytes
    if min(shape, default=0) < 0:
        raise ModelError(f"{of}: {what} has the shape {list(shape)}; a size cannot be negative")
    if total > limit:
        raise ModelError(
            f"{of}: {what} has the shape {list(shape)} and takes {size_text(total)}; a tensor can take "
            + (
                size_text(MOST_BYTES)
                if limit == MOST_BYTES
                else f"the {size_text(limit)} that this machine has"
            )
        )


def _check_axes(what: str, shape: Sequence[int]) -> None:
    if len(shape) > MOST_AXES:
        raise ModelError(f"{what} has {len(shape)} axes; a tensor can have at most {MOST_AXES}")


def size_text(count: float) -> str:
    """Return a number of bytes as text in a suitable unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} EiB"


def check_inputs(specs: "Sequence[TensorSpec]") -> None:
    """Raise ModelError for inputs of which random samples do not fit into this machine's memory.

    Raises:
        ModelError: There is no memory for samples of the inputs.
    """
    for spec in specs:
        _check_axes(f"input '{spec.name}'", spec.shape)
    # Random numbers are generated in binary64.
    total = sum(math.prod(spec.shape) * (8 + _item_bytes(spec.dtype)) for spec in specs)
    if total > machine_bytes():
        raise ModelError(
            f"the inputs {', '.join(spec.describe() for spec in specs)} need {size_text(total)} for the samples of "
            f"the self-test, but this machine has {size_text(machine_bytes())}"
        )


def check_values(mod: tvm.IRModule, nodes: Mapping[str, str]) -> None:
    """Raise ModelError for values whose size or dtype cannot be compiled.

    Args:
        mod: Module as a front end makes it.
        nodes: Source node → operator.

    Raises:
        ModelError: A value has such a size or dtype; the message names the first.
    """
    for _, func in relax_functions(mod):
        for param in func.params:
            for shape, dtype in _tensors(param.ty):
                _check(f"input '{param.name}'", "it", shape, dtype)
        for binding in bindings_of(func):
            names = sources_of(binding.value)
            operator = next((nodes[name] for name in names if name in nodes), "")
            site = f"{operator} node '{names[0]}'" if names else f"'{binding.var.name}'"
            _check_reach(site, binding.value, mod)
            for operand in _constants(binding.value):
                for shape, dtype in _tensors(operand.ty):
                    _check(site, "a constant of it", shape, dtype)
            for shape, dtype in _tensors(binding.var.ty):
                _check(site, "its result", shape, dtype)


def _check_reach(site: str, call: Expr, mod: tvm.IRModule) -> None:
    """Refuse calls that read beyond an axis: top-k with k above its size, and mirrored borders wider than it."""
    operator = getattr(getattr(call, "op", None), "name", "")
    if operator == "relax.topk":
        size, count = call.args[0].ty.shape.values[int(call.attrs.axis)], int(call.attrs.k)
        if isinstance(size, tirx.IntImm) and count > int(size):
            raise ModelError(
                f"{site} cannot be compiled: it selects the {count} largest of {int(size)} elements"
            )
    mirrored = False
    if operator == "relax.nn.pad" and str(call.attrs.pad_mode) == "reflect":
        sizes = [int(size) for size in call.args[0].ty.shape.values if isinstance(size, tirx.IntImm)]
        widths = [int(width) for width in call.attrs.pad_width]
        pairs = zip(widths[::2], widths[1::2], strict=True)
        mirrored = any(max(pair) >= max(size, 1) for pair, size in zip(pairs, sizes, strict=False))
    if operator == "relax.call_tir" and call.args[0].name_hint.startswith(_MIRROR):
        mirrored = _reads_beyond(mod[call.args[0]])
    if mirrored:
        raise ModelError(
            f"{site} cannot be compiled: its padding mirrors more elements than an axis has; in mode reflect an "
            "axis can "
            "be padded by less than its size"
        )


_MIRROR = "mirror_pad"
"""Name of TVM's loops of a mirrored border."""


def _reads_beyond(pad: tirx.PrimFunc) -> bool:
    """Whether the loops of a mirrored border read beyond the data.

    Checking the two ends of each loop's range is enough.
    """
    blocks: list[SBlock] = []
    structural_walk(pad.body, [(SBlock, blocks.append)])
    loads: list[TensorLoad] = []
    structural_walk(pad.body, [(TensorLoad, loads.append)])
    ranges = {iteration.var: iteration.dom for block in blocks for iteration in block.iter_vars}
    analyzer = sym.Analyzer()
    for index, size in zip(loads[0].indices, loads[0].source.ty.shape, strict=True):
        variables: list[Var] = []
        structural_walk(index, [(Var, variables.append)])
        for var in variables[:1]:  # an index depends on at most one variable
            least = ranges[var].min
            for end in (least, least + ranges[var].extent - 1):
                at = structural_map(index, [(Var, lambda _, end=end: end)])
                if not analyzer.can_prove(tirx.And(at >= 0, at < size)):
                    return True
    return False


def _check(of: object, what: str, shape: Sequence[int], dtype: str) -> None:
    if dtype not in ELEMENT_TYPES:
        raise ModelError(
            f"{of} cannot be compiled: {what} is of {dtype}; supported are {', '.join(sorted(ELEMENT_TYPES))}"
        )
    check_tensor(of, what, shape, _item_bytes(dtype))


def _item_bytes(dtype: str) -> int:
    return max(int("".join(filter(str.isdigit, dtype)) or 8) // 8, 1)


def _constants(value: Expr) -> Iterator[Expr]:
    if isinstance(value, relax.Call):
        yield from (argument for argument in value.args if isinstance(argument, GenericConst))


def _tensors(ty: Type) -> Iterator[tuple[list[int], str]]:
    """Yield shape and dtype of each tensor in a value; an unknown size counts as 1."""
    if isinstance(ty, relax.TupleType):
        for field in ty.fields:
            yield from _tensors(field)
    elif isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
        sizes = [int(size) if isinstance(size, tirx.IntImm) else 1 for size in ty.shape.values]
        yield sizes, str(ty.dtype)
