# SPDX-License-Identifier: Apache-2.0
"""The common part of int8 kernels for Cortex-M: sums that begin with an offset and are requantised.

A kernel has no parameters. Its constants are the packed weights, and offset and multiplier of each column.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import OperandPadding, Workload
from schedules.cores import DSP, MVE, THUMB, Core, InstructionSet
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.moves import BYTE, VECTOR, WORD, Register, move, moves
from schedules.intrinsics.opaque import opaques
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.gemm import implicit_rows, product_s8
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
        x: The data that rows are read from: all of it, or the lines of one row of outputs, with their border.
        weights: The packed weights.
        offsets: The initial accumulator of each column.
        multipliers: The multiplier of each column.
        y: The output.
        start: Offset of the first row in the output.
        register: The registers that copies pass through.
    """

    product: IntegerProduct
    x: tirx.Buffer
    weights: tirx.Buffer
    offsets: tirx.Buffer
    multipliers: tirx.Buffer
    y: tirx.Buffer
    start: ir.Expr
    register: Register

    def target(self, row: ir.Expr) -> ir.Expr:
        """Return the offset of a row in the output."""
        return self.start + self.product.target(row)

    def staged(self, starts: Sequence[ir.Expr], depth: int) -> tirx.Buffer:
        """Emit contiguous copies of the rows at `starts`, each with zeros up to `depth` elements."""
        rows = T.alloc_buffer((len(starts) * depth,), str(self.x.dtype), layout=None)
        for row, start in enumerate(starts):
            at = row * depth
            for offset, length in self.product.rows.segments:
                move(self.register, self.x, start + offset, rows, i64(at), length)
                at += length
            # The weights of these elements are 0, but memory that was never written must not be read.
            copies.fill(rows, i64(at), (row + 1) * depth - at, 0)
        return rows

    def each_rows(self, step: int, emit: Callable[[list[ir.Expr], list[ir.Expr]], None]) -> None:
        """Emit a loop over `step` rows at a time; `emit` is given the offsets of each row in data and output."""
        rows = self.product.rows
        whole, rest = divmod(rows.count, step)

        def some(first: ir.Expr, count: int) -> None:
            numbers = [first + row for row in range(count)]
            emit(
                [T.Bind(rows.offset(row)) for row in numbers],
                [T.Bind(self.target(row)) for row in numbers],
            )

        if whole:
            with T.serial(i64(0), i64(whole)) as tile:
                some(T.Bind(tile * step), step)
        if rest:
            some(i64(whole * step), rest)

    def each_channels(self, step: int, emit: Callable[[ir.Expr, ir.Expr, ir.Expr, int], None]) -> None:
        """Emit a loop over the pixels of a depthwise convolution and its channels, `step` at a time.

        Args:
            step: Number of channels.
            emit: Emits some channels, given the offsets of the pixel in data and output, the number of the step and the
                number of channels.
        """
        whole, rest = divmod(self.product.groups, step)
        with T.serial(i64(0), i64(self.product.rows.count)) as row:
            start, target = T.Bind(self.product.rows.offset(row)), T.Bind(self.target(row))
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
        scales: Numbers of each column among the constants of the requantisation.
        most_depth: Greatest k of a product.
        most_bits: Greatest exponent that may bound the accumulators.
    """

    name: str
    suffix: str
    isa: InstructionSet
    needs: str
    depthwise = False
    step: int
    scales = 1
    most_depth: int | None = None
    most_bits: int | None = None

    @abstractmethod
    def runs_on(self, core: Core) -> bool:
        """Return whether a core has the instructions that the kernel uses."""

    @abstractmethod
    def cost(self, workload: Workload, product: IntegerProduct) -> float:
        """Return the instructions of one call."""

    @abstractmethod
    def packed(self, product: IntegerProduct, weights: Array) -> Array:
        """Return flat packed weights of `weights` [columns, depth], whose number of columns is a multiple of `step`."""

    def initial(self, product: IntegerProduct, weights: Array, offsets: Array) -> Array:
        """Return the initial accumulators, given those of sums of int8 data by weights [columns, k]."""
        return offsets

    def scaled(self, product: IntegerProduct, multipliers: Array) -> Array:
        """Return the constants of the requantisation as float32, `scales` of each column."""
        return multipliers.astype("float32")

    def definitions(self) -> AbstractContextManager[Any]:
        """Open a scope with the functions in LLVM IR that the kernel's epilogue calls."""
        return nullcontext()

    def order(self, columns: int) -> Array:
        """Return the column of each offset and multiplier."""
        return np.arange(columns)

    def reads_first(self, product: IntegerProduct) -> bool:
        """Whether the data of some rows is read before any of their outputs is written."""
        return True

    @abstractmethod
    def emit(self, workload: Workload, operands: Operands) -> None:
        """Emit the code of a workload."""

    def matches(self, workload: Workload, core: Core) -> KernelMatch | Diagnostic:
        """Accept 8-bit data with constant int8 weights, on cores with the instructions."""
        product = product_s8.converted_product_of(workload, self.name)
        if isinstance(product, Diagnostic):
            return product
        if not core.is_microcontroller or not self.runs_on(core):
            return missing_feature(self.name, self.needs, core)
        limits = (
            ("k is too large", self.most_depth, product.rows.depth),
            ("accumulators have too many bits", self.most_bits, _bits(workload)),
        )
        for reason, most, found in limits:
            if most is not None and found > most:
                return declined(self.name, reason, str(most), str(found))
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
        product = self.product(workload)
        moved = _Strip.of(workload, product).moved if product.pad else 0
        return self.cost(workload, product) + moved * self.register.instructions

    @property
    def register(self) -> Register:
        """The registers that copies pass through."""
        return _REGISTERS[self.isa.name]

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
        offsets = self.initial(product, weights, offsets)
        order = self.order(columns)
        return (
            np.ascontiguousarray(self.packed(product, np.pad(weights, ((0, rest), (0, 0))))).reshape(-1),
            np.pad(offsets, (0, rest))[order],
            self.scaled(product, np.pad(multipliers, (0, rest))[order]),
        )

    def build(self, workload: Workload, params: Params) -> tirx.PrimFunc:
        """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
        product = self.product(workload)
        columns = self.padded_columns(product)
        empty = self.packed(product, np.zeros((columns, product.rows.depth), np.int8))
        constants = [((empty.size,), str(empty.dtype)), ((columns,), "int32")]
        constants.append(((self.scales * columns,), "float32"))
        arguments = [*((operand.shape, operand.dtype) for operand in workload.inputs), *constants]
        arguments.append((workload.output_shape, workload.output_dtype))
        steps = (step.name for step in workload.epilogue)
        symbol = "_".join((workload.composite.replace(".", "_"), self.suffix, *steps))
        data = workload.operands[0].index
        overwritten = [data] if self._overwrites(workload, product) else []
        scopes: list[AbstractContextManager[Any]] = [
            kernel_function(symbol, arguments, overwritten),
            opaques(),
            moves(self.register),
            self.definitions(),
        ]
        with ExitStack() as stack:
            function, *_ = (stack.enter_context(scope) for scope in scopes)
            x = function.buffers[data]
            weights, offsets, multipliers, y = function.buffers[-4:]
            operands = Operands(product, x, weights, offsets, multipliers, y, i64(0), self.register)
            if product.pad is None:
                self.emit(workload, operands)
            else:
                _Strip.of(workload, product).each_row(operands, lambda row: self.emit(workload, row))
        assert function.prim_func is not None
        return function.prim_func

    def _overwrites(self, workload: Workload, product: IntegerProduct) -> bool:
        """Whether outputs may be written where the data is: never onto elements that are read later."""
        if product.pad is not None:
            strip = _Strip.of(workload, product)
            written = np.arange(1, math.prod(strip.outputs) + 1) * strip.row_outputs
            return bool((written <= strip.entered()).all())
        # Before the outputs of a row are written, nothing behind its start has been overwritten.
        written = np.arange(product.rows.count) * (product.groups * product.columns)
        return self.reads_first(product) and bool((written <= product.rows.starts()).all())


def _bits(workload: Workload) -> int:
    """Return the exponent p with |acc| < 2**p; 32 if it is unknown."""
    return 32 if workload.magnitude is None else workload.magnitude.accumulator


_REGISTERS = {MVE.name: VECTOR, DSP.name: WORD, THUMB.name: BYTE}


@dataclass(frozen=True)
class _Strip:
    """The lines of data, with their border, that a row of outputs of a convolution reads.

    Each line of data enters the strip once, at its end, and the others move up: no padded copy of all data is needed.

    Attributes:
        data: Shape of the data without the border.
        product: The convolution.
        window: Attributes of the convolution.
        kernel: Rows and columns of the convolution's kernel.
        pad: Border of the data.
    """

    data: tuple[int, ...]
    product: IntegerProduct
    window: ConvolutionAttributes
    kernel: tuple[int, int]
    pad: OperandPadding

    @classmethod
    def of(cls, workload: Workload, product: IntegerProduct) -> "_Strip":
        """Return the strip of a product with a border."""
        height, width = workload.operands[-1].shape[1:3]
        window = ConvolutionAttributes.of(workload)
        assert product.pad is not None
        return cls(workload.operands[0].shape, product, window, (height, width), product.pad)

    @property
    def tall(self) -> int:
        """Number of lines."""
        return (self.kernel[0] - 1) * self.window.dilation[0] + 1

    @property
    def line(self) -> int:
        """Elements of a line."""
        _, _, wide, channels = self.product.data
        return wide * channels

    @property
    def outputs(self) -> tuple[int, int]:
        """Images, and rows of outputs of each."""
        images, lines, _ = self.product.rows.shape
        return images, lines

    @property
    def row_outputs(self) -> int:
        """Number of outputs of a row of pixels."""
        return self.product.rows.shape[2] * self.product.groups * self.product.columns

    @property
    def moved(self) -> int:
        """Number of elements that are moved in the strip or to it."""
        return math.prod(self.outputs) * self.tall * self.line

    def entered(self) -> Array:
        """Return the elements of data that have entered when each row of outputs is computed."""
        images, height, width, channels = self.data
        (top, _), (_, lines) = self.pad.widths[1], self.outputs
        ends = np.clip(np.arange(lines) * self.window.strides[0] - top + self.tall, 0, height)
        found: Array = (np.arange(images)[:, None] * height + ends).ravel() * (width * channels)
        return found

    def each_row(self, operands: Operands, emit: Callable[[Operands], None]) -> None:
        """Emit a loop over the rows of outputs; `emit` emits the outputs of one row, given the strip as the data."""
        _, height, width, channels = self.data
        (top, _), (left, _) = self.pad.widths[1:3]
        (images, lines), (down, _) = self.outputs, self.window.strides
        tall, line, row = self.tall, self.line, width * channels
        rows = implicit_rows.convolution(
            (1, tall, line // channels, channels),
            self.kernel,
            self.window.strides,
            self.window.dilation,
            self.window.groups,
        )
        border = tirx.const(self.pad.value, str(operands.x.dtype))
        # One register more, so that a vector load that starts inside the strip does not reach past its end.
        size = tall * line + copies.REGISTER
        strip = T.alloc_buffer((size,), str(operands.x.dtype), scope="global", layout=None)
        with T.serial(i64(0), i64(tall * line // channels)) as pixel:
            copies.fill(strip, pixel * channels, channels, border)
        copies.fill(strip, i64(tall * line), copies.REGISTER, border)
        last = (tall - 1) * line + left * channels
        with T.serial(i64(0), i64(images)) as image, T.serial(i64(0), i64(lines)) as y:
            entering = T.Bind(tirx.Select(y == 0, i64(tall), i64(min(tall, down))))
            with T.serial(i64(0), entering) as new:
                move(operands.register, strip, i64(line), strip, i64(0), (tall - 1) * line)
                at = T.Bind(y * down + (tall - top) - entering + new)
                with T.If(tirx.all(at >= 0, at < height)):
                    with T.Then():
                        source = (image * height + at) * row
                        move(operands.register, operands.x, source, strip, i64(last), row)
                    with T.Else():
                        copies.fill(strip, i64(last), row, border)
            start = T.Bind((image * lines + y) * self.row_outputs)
            product = replace(self.product, rows=rows, pad=None)
            emit(replace(operands, product=product, x=strip, start=start))
