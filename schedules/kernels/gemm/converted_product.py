# SPDX-License-Identifier: Apache-2.0
"""The common part of int8 kernels for Cortex-M: sums that begin with an offset, are converted to float and rounded.

A kernel has no parameters. Its constants are the packed weights, and offset and multiplier of each column.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core, InstructionSet
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.opaque import opaques
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.product import weights_by_column
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.tir.emit import i64, kernel_function

MOST_TAPS = 49
"""Most taps of a depthwise convolution, which are unrolled."""


@dataclass(frozen=True)
class Params:
    """Parameters of a kernel: none."""


@dataclass(frozen=True)
class Operands:
    """The flat buffers of a kernel, from which the emitters of tiles derive.

    Attributes:
        product: The workload as a product.
        x: The data with its border.
        weights: The packed weights.
        offsets: The initial accumulator of each column.
        multipliers: The multiplier of each column.
        y: The output.
    """

    product: IntegerProduct
    x: tirx.Buffer
    weights: tirx.Buffer
    offsets: tirx.Buffer
    multipliers: tirx.Buffer
    y: tirx.Buffer

    def staged(self, start: ir.Expr, depth: int) -> tirx.Buffer:
        """Emit a contiguous copy of the row at `start`, with zeros up to `depth` elements."""
        row, at = T.alloc_buffer((depth,), str(self.x.dtype), layout=None), 0
        for offset, length in self.product.rows.segments:
            copies.copy(self.x, start + offset, row, i64(at), length)
            at += length
        # The weights of these elements are 0, but memory that was never written must not be read.
        copies.fill(row, i64(at), depth - at, 0)
        return row

    def each_channels(self, step: int, emit: Callable[[ir.Expr, ir.Expr, ir.Expr, int], None]) -> None:
        """Emit a loop over the pixels of a depthwise convolution and its channels, `step` at a time.

        Args:
            step: Number of channels.
            emit: Emits some channels, given the offsets of the pixel in data and output, the number of the step and the
                number of channels.
        """
        whole, rest = divmod(self.product.groups, step)
        with T.serial(i64(0), i64(self.product.rows.count)) as row:
            start, target = T.Bind(self.product.rows.offset(row)), T.Bind(self.product.target(row))
            if whole:
                with T.serial(i64(0), i64(whole)) as block:
                    emit(start, target, block, step)
            if rest:
                emit(start, target, i64(whole), rest)


class ConvertedKernel(ABC):
    """A kernel of one instruction set for integer products; its methods are a kernel module's functions.

    Attributes:
        name: Name of the kernel.
        suffix: Suffix of the function's symbol.
        isa: The instruction set.
        needs: LLVM's features that the kernel needs, for messages.
        depthwise: Whether it takes depthwise convolutions, and not products of one group.
        step: Channels of a depthwise convolution, or columns, that are computed together.
    """

    name: str
    suffix: str
    isa: InstructionSet
    needs: str
    depthwise = False
    step: int

    @abstractmethod
    def has(self, core: Core) -> bool:
        """Return whether a core of the instruction set rounds floats by the instruction that the kernel uses."""

    @abstractmethod
    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        """Return the instructions of one call."""

    @abstractmethod
    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return flat packed weights of `weights` [columns, depth], whose number of columns is a multiple of `step`."""

    def order(self, columns: int) -> Array:
        """Return the column of each offset and multiplier."""
        return np.arange(columns)

    @abstractmethod
    def emit(self, workload: Workload, operands: Operands) -> None:
        """Emit the code of a workload."""

    def matches(self, workload: Workload, core: Core) -> KernelMatch | Diagnostic:
        """Accept 8-bit data with constant int8 weights, on cores with the instructions."""
        product = product_s8.converted_product_of(workload, self.name)
        if isinstance(product, Diagnostic):
            return product
        if core.isa.name != self.isa.name or not self.has(core):
            return missing_feature(self.name, self.needs, core)
        if not self.depthwise:
            if product.groups > 1:
                return declined(self.name, "convolution has groups", "1", str(product.groups))
            return KernelMatch(f"int8 product {product}")
        if (
            product.groups == 1
            or product.columns > 1
            or any(length > 1 for _, length in product.rows.segments)
        ):
            actual = f"{product.groups} groups of {product.columns} outputs"
            return declined(
                self.name, "not depthwise", "an input and an output each group", actual, unfit=True
            )
        if product.rows.depth > MOST_TAPS:
            return declined(self.name, "kernel is too large", f"{MOST_TAPS} taps", str(product.rows.depth))
        if product.groups % self.step and product.pad is None:
            reason = "the last channels would be read together with what is behind the data"
            limit = f"a multiple of {self.step}, or a border"
            return declined(self.name, reason, limit, str(product.groups))
        return KernelMatch(
            f"int8 depthwise convolution of {product.groups} channels, {product.rows.depth} taps"
        )

    def default(self, workload: Workload, core: Core) -> Params:
        """Return the only parameters."""
        return Params()

    def candidates(self, workload: Workload, core: Core) -> tuple[Params, ...]:
        """Return the only parameters."""
        return (Params(),)

    def estimate(self, workload: Workload, params: Params, core: Core) -> float:
        """Return the instructions of one call."""
        return self.cost(workload, self.product(workload))

    def product(self, workload: Workload) -> IntegerProduct:
        """Return an accepted workload as a product."""
        return taken(product_s8.converted_product_of(workload, self.name), workload)

    def padded_columns(self, product: IntegerProduct) -> int:
        """Return the number of columns, or channels, with those of zeros behind the last."""
        return -(-product.groups * product.columns // self.step) * self.step

    def pack(self, workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
        """Return the packed weights, and offset and multiplier of each column."""
        product = self.product(workload)
        columns = self.padded_columns(product)
        rest = columns - product.groups * product.columns
        weights = weights_by_column(workload, constants, product).reshape(-1, product.rows.depth)
        offsets, multipliers = product_s8.offsets_and_multipliers(workload, constants, product)
        order = self.order(columns)
        return (
            np.ascontiguousarray(self.packed(product, np.pad(weights, ((0, rest), (0, 0))))).reshape(-1),
            np.pad(offsets, (0, rest))[order],
            np.pad(multipliers, (0, rest))[order].astype("float32"),
        )

    def build(self, workload: Workload, params: Params) -> tirx.PrimFunc:
        """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
        product = self.product(workload)
        columns = self.padded_columns(product)
        empty = self.packed(product, np.zeros((columns, product.rows.depth), np.int8))
        constants = [((empty.size,), str(empty.dtype)), ((columns,), "int32"), ((columns,), "float32")]
        arguments = [*((operand.shape, operand.dtype) for operand in workload.inputs), *constants]
        arguments.append((workload.output_shape, workload.output_dtype))
        steps = (step.name for step in workload.epilogue)
        symbol = "_".join((workload.composite.replace(".", "_"), self.suffix, *steps))
        with kernel_function(symbol, arguments) as function, opaques():
            data = workload.operands[0]
            x = function.buffers[data.index]
            if product.pad is not None:
                x = copies.padded(x, data.shape, product.pad.widths, product.pad.value)
            self.emit(workload, Operands(product, x, *function.buffers[-4:]))
        assert function.prim_func is not None
        return function.prim_func
