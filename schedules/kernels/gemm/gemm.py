# SPDX-License-Identifier: Apache-2.0
"""The common structure of GEMM kernels with constant weights: candidates, packing, cost, and the enclosing PrimFunc.

A kernel is an instruction's `Unit` in one of two loop orders. In `by_panels` a task multiplies a block of rows, read
from the data without packing, by one panel of columns. In `by_rows` a task first packs or stages a tile of rows, for
all its columns. Each element of a result is summed by one task, in the same order for all tile sizes: the result
depends neither on tiles nor on threads.

To add an instruction, add a file that defines its unit and ends like this:

    _KERNEL = ByRows(_Smmla())
    matches, default, candidates = _KERNEL.matches, _KERNEL.default, _KERNEL.candidates
    estimate, pack, build = _KERNEL.estimate, _KERNEL.pack, _KERNEL.build

and add the file to `select.KERNELS`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from tvm import ir, tirx

from schedules.composites.workload import OperandPadding, Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import bfloat
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, missing_feature, taken
from schedules.kernels.common.cost_model import cheapest_by
from schedules.kernels.epilogues import epilogue_f32
from schedules.kernels.gemm.product import GemmProduct
from schedules.tir.emit import kernel_function

P = TypeVar("P", bound=Any)
"""A kernel's `Params`."""

Q = TypeVar("Q", bound=GemmProduct)
"""The kind of product that a unit parses from a workload."""


class Unit(ABC, Generic[P, Q]):
    """The instruction-specific part of a GEMM kernel: products, register tiles, packing and cost.

    Attributes:
        name: Name of the kernel.
        feature: Feature that a core must have; none if empty.
        tie: Estimates of tiles that differ by less than this share count as equal; the tile with fewer
            instructions is then chosen.
        counts_fetching: Whether estimates count loads that miss L1; else all loads are taken to hit it.
    """

    name: str
    feature: str = ""
    tie: float
    counts_fetching: bool = True

    @abstractmethod
    def products(self, workload: Workload) -> tuple[Q, ...] | Diagnostic:
        """Return the matrix products of a workload, one per phase of a transposed convolution, or a rejection."""

    @abstractmethod
    def describe(self, workload: Workload) -> str:
        """Return a description of the products for reports, such as "int8 product"."""

    @abstractmethod
    def symbol(self, workload: Workload) -> str:
        """Return the name of the PrimFunc."""

    @abstractmethod
    def tiles(self, workload: Workload, core: Core) -> Sequence[P]:
        """Return parameters for each register tile worth considering, with the whole call as one task."""

    @abstractmethod
    def constants(self, workload: Workload, product: Q, params: P) -> Sequence[tuple[int, str]]:
        """Return the number of elements and the dtype of each array that `pack` returns."""

    @abstractmethod
    def pack(
        self, workload: Workload, constants: Sequence[Array], product: Q, params: P
    ) -> tuple[Array, ...]:
        """Return the weights packed into panels, and the constants of the columns, as flat arrays."""

    def more_constants(self, product: Q) -> tuple[Array, ...]:
        """Return the constants, packed after those of the products, that all products share."""
        return ()

    def reads_past_the_data(self, product: Q) -> bool:
        """Whether vector loads may reach past the end of the data, which is then copied to a larger buffer."""
        return False

    def planes(self, product: Q) -> Sequence[copies.Plane]:
        """Return the functions that compute the planes of the data which products read; see `copies.padded`."""
        return copies.WHOLE

    def border(
        self, workload: Workload, pad: OperandPadding, inputs: Sequence[tirx.Buffer]
    ) -> float | ir.Expr:
        """Return the value of the data's border; by default `pad.value`."""
        return pad.value

    def scope(self, params: P) -> AbstractContextManager[Any]:
        """Return the context in which all code of a product is emitted."""
        return nullcontext()

    def has(self, core: Core) -> bool:
        """Whether the core has `feature`."""
        return not self.feature or self.feature in core.features


@dataclass(frozen=True)
class Call(Generic[P, Q]):
    """The arguments for emitting the code of one product: the product, its parameters, and flat buffers.

    Attributes:
        workload: Workload of the whole function.
        product: The product; a function has several for a transposed convolution.
        params: Tiling parameters of the product.
        x: The data, with its border.
        inputs: All inputs of the function.
        packed: Packed constants of the function; each buffer has those of all products one after the other.
        before: Number of elements of each packed constant that belong to earlier products.
        output: Flat buffer of the result.
        slopes: The slopes of PReLU, packed by `epilogue_f32.slopes_of`; None if the epilogue has no PReLU.
    """

    workload: Workload
    product: Q
    params: P
    x: tirx.Buffer
    inputs: Sequence[tirx.Buffer]
    packed: Sequence[tirx.Buffer]
    before: Sequence[int]
    output: tirx.Buffer
    slopes: tirx.Buffer | None = None

    @property
    def residual(self) -> tirx.Buffer | None:
        """The tensor that a step "residual" adds; None if there is no such step."""
        step = self.workload.step("residual")
        return self.inputs[step.operand.index] if step and step.operand else None

    def row(self, group: ir.Expr, row: ir.Expr) -> ir.Expr:
        """Return the offset of the start of a row of A."""
        return self.product.rows.offset(row) + group * self.product.group_step

    def target(self, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        """Return the offset of an element of the result; columns count through all groups."""
        return self.product.target(row) + column


class Gemm(ABC, Generic[P, Q]):
    """A GEMM kernel for a unit; its public methods implement `schedules.kernels.common.contract.Kernel`."""

    def __init__(self, unit: Unit[P, Q]) -> None:
        self.unit = unit
        self._parsed: tuple[Workload, tuple[Q, ...]] | None = None
        self._found: tuple[Workload, Core, tuple[P, ...]] | None = None

    def matches(self, workload: Workload, core: Core) -> KernelMatch | Diagnostic:
        """Accept products with constant weights, of the unit's dtypes, on cores that have the unit's instruction."""
        products = self.unit.products(workload)
        if isinstance(products, Diagnostic):
            return products
        if not self.unit.has(core):
            return missing_feature(self.unit.name, self.unit.feature, core)
        return KernelMatch(
            f"{self.unit.describe(workload)} {', '.join(str(product) for product in products)}"
        )

    def default(self, workload: Workload, core: Core) -> P:
        """Return the candidate with the fewest instructions among those within `tie` of the lowest estimate."""
        return cheapest_by(
            self.candidates(workload, core),
            lambda params: self.estimate(workload, params, core),
            lambda params: self.instructions(workload, params, core),
            self.unit.tie,
        )

    def candidates(self, workload: Workload, core: Core) -> tuple[P, ...]:
        """Return the parameters of each register tile; long calls are split into tasks for threads and caches."""
        # Cached, because both `default` and the report of alternatives need the candidates.
        found = self._found
        if found is None or found[0] is not workload or found[1] is not core:
            self._found = found = workload, core, self.find_candidates(workload, core)
        return found[2]

    @abstractmethod
    def find_candidates(self, workload: Workload, core: Core) -> tuple[P, ...]:
        """Compute the candidates; `candidates` caches them."""

    @abstractmethod
    def estimate(self, workload: Workload, params: P, core: Core) -> float:
        """Return the cycles of one call on one core, with its inputs in L1 at the start."""

    @abstractmethod
    def instructions(self, workload: Workload, params: P, core: Core) -> float:
        """Count the instructions of one call inside tiles; those outside are a few percent of small calls."""

    @abstractmethod
    def emit(self, call: Call[P, Q]) -> None:
        """Emit the tasks of one product."""

    def pack(self, workload: Workload, params: P, constants: Sequence[Array]) -> tuple[Array, ...]:
        """Pack the weights into panels, and the per-column constants, of all products."""
        products = self.products(workload)
        packed = [self.unit.pack(workload, constants, product, params) for product in products]
        return (
            *(packed[0] if len(packed) == 1 else map(np.concatenate, zip(*packed, strict=True))),
            *self.unit.more_constants(products[0]),
            *epilogue_f32.slopes_of(workload, constants, _columns(products)),
        )

    def build(self, workload: Workload, params: P) -> tirx.PrimFunc:
        """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
        products = self.products(workload)
        constants = [self.unit.constants(workload, product, params) for product in products]
        sizes = [[size for size, _ in each] for each in constants]
        arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
        arguments += [
            ((sum(size),), dtype) for *size, dtype in zip(*sizes, (d for _, d in constants[0]), strict=True)
        ]
        arguments += [(each.shape, str(each.dtype)) for each in self.unit.more_constants(products[0])]
        has_slopes = workload.step(epilogue_f32.PRELU) is not None
        arguments += [((_columns(products),), "float32")] * has_slopes
        arguments.append((workload.output_shape, workload.output_dtype))
        with kernel_function(self.unit.symbol(workload), arguments) as function:
            buffers = [bfloat.bits(b) if str(b.dtype) == "bfloat16" else b for b in function.buffers]
            *inputs, output = buffers
            slopes = inputs.pop() if has_slopes else None
            inputs, packed = inputs[: len(workload.inputs)], inputs[len(workload.inputs) :]
            x = self._data(workload, products, inputs)
            for index, product in enumerate(products):
                before = [sum(size) for size in zip([0] * len(sizes[0]), *sizes[:index], strict=True)]
                with self.unit.scope(params):
                    self.emit(Call(workload, product, params, x, inputs, packed, before, output, slopes))
        return function.prim_func

    def products(self, workload: Workload) -> tuple[Q, ...]:
        """Return the products of a workload that the kernel accepts."""
        # Cached by the identity of the workload, because estimates of many candidates need the products and hashing a
        # workload takes as long as parsing it.
        parsed = self._parsed
        if parsed is None or parsed[0] is not workload:
            self._parsed = parsed = workload, taken(self.unit.products(workload), workload)
        return parsed[1]

    def _data(self, workload: Workload, products: Sequence[Q], inputs: Sequence[tirx.Buffer]) -> tirx.Buffer:
        """Return the buffer that products read: the data, or a copy of it with border, planes or spare bytes."""
        data, pad = workload.operands[0], products[0].pad
        x, shape, planes = inputs[data.index], data.shape, self.unit.planes(products[0])
        if pad is not None:
            return copies.padded(x, shape, pad.widths, self.unit.border(workload, pad, inputs), planes)
        if len(planes) > 1 or any(map(self.unit.reads_past_the_data, products)):
            return copies.padded(x, (1, 1, 1, math.prod(shape)), ((0, 0),) * 4, 0.0, planes)
        return x


def _columns(products: Sequence[GemmProduct]) -> int:
    """Return the maximum number of columns of a product, counted over all groups."""
    return max(product.groups * product.columns for product in products)
