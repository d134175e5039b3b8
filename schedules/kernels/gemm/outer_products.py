# SPDX-License-Identifier: Apache-2.0
"""The common structure of the GEMM kernels on SME: packing of weights, tasks, and the estimate; see `intrinsics.sme`.

One thread drives the unit of a cluster, unless tuning finds that several do better: `Params.tasks`. Epilogue steps that
the function in streaming mode lacks follow it in a loop of NEON over the results.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sme
from schedules.kernels.common import copies, threads
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature, taken
from schedules.kernels.gemm.product import GemmProduct, weights_by_column
from schedules.tir.emit import i64, kernel_function

TASKS = (1, 2, 4)
"""Numbers of tasks that tuning tries."""

ROW_INSTRUCTIONS = 4
"""Instructions that compute the address of a row."""

PACKED_ROW = 13 / 4
"""Instructions that write a vector of a row's data to a tile."""

PACKED_WORD = 2
"""Instructions that store one word of k for v rows, a column of a tile."""

LOADS = 4
"""Vectors that are loaded for the outer products of a word of k."""

TILE_INSTRUCTIONS = 40
"""Instructions around the sums of a panel by two vectors of columns."""

WORD_BITS = 8 * sme.WORD

Q = TypeVar("Q", bound=GemmProduct)
"""The kind of product that a kernel parses from a workload."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernels on SME.

    Attributes:
        tasks: Number of tasks that share the rows, each on a thread of its own.
    """

    tasks: int = 1


class OuterProducts(ABC, Generic[Q]):
    """A GEMM kernel on SME; its methods are a kernel module's functions.

    Attributes:
        name: Name of the kernel.
        what: What it multiplies, for reports.
        suffix: Suffix of the function's symbol.
        item: Bytes of an element of the data.
    """

    name: str
    what: str
    suffix: str
    item: int

    @abstractmethod
    def product(self, workload: Workload) -> Q | Diagnostic:
        """Return a workload as the product of one group with contiguous results, or a rejection."""

    @abstractmethod
    def variant(self, workload: Workload, product: Q) -> sme.Variant:
        """Return the function's variant."""

    @abstractmethod
    def limits(self, workload: Workload, product: Q) -> tuple[int, float, float]:
        """Return zero point, least and greatest result."""

    @abstractmethod
    def constants(self, workload: Workload, product: Q, constants: Sequence[Array]) -> Array:
        """Return the first sums of each column and, for int8, the multipliers; see `sme.Variant.product`."""

    @abstractmethod
    def multiply_cycles(self, core: Core) -> float:
        """Return the cycles of one outer product."""

    def more_constants(self, product: Q) -> tuple[Array, ...]:
        """Return the packed constants of the steps that `finish` emits."""
        return ()

    @abstractmethod
    def finish(
        self,
        workload: Workload,
        product: Q,
        inputs: Sequence[tirx.Buffer],
        more: Sequence[tirx.Buffer],
        y: tirx.Buffer,
    ) -> None:
        """Emit the epilogue steps that the function lacks."""

    @abstractmethod
    def finish_cycles(self, workload: Workload, product: Q, core: Core) -> float:
        """Return the cycles of what `finish` emits."""

    def matches(self, workload: Workload, core: Core) -> KernelMatch | Diagnostic:
        """Accept products of one group with constant weights, on cores with SME."""
        product = self.product(workload)
        if isinstance(product, Diagnostic):
            return product
        if sme.FEATURE not in core.features:
            return missing_feature(self.name, sme.FEATURE, core)
        return KernelMatch(f"{self.what} {product}")

    def default(self, workload: Workload, core: Core) -> Params:
        """Return the parameters by which one thread drives the unit."""
        return Params()

    def candidates(self, workload: Workload, core: Core) -> tuple[Params, ...]:
        """Return the parameters for each number of tasks that the rows suffice for."""
        panels = _panels(taken(self.product(workload), workload))
        return tuple(Params(tasks) for tasks in TASKS if tasks <= panels)

    def estimate(self, workload: Workload, params: Params, core: Core) -> float:
        """Return the cycles of one call, as if its tasks followed each other.

        Loads and stores of the unit, and moves to its tiles, take one cycle each.
        """
        product, unit = taken(self.product(workload), workload), core.outer_products
        shape, lanes = self._shape(workload, product), unit.bits // WORD_BITS
        rows, columns = (-(-size // lanes) for size in (product.rows.count, product.columns))
        halves = 2 * -(-rows // 2)  # vectors of rows that are packed
        chunks = sum(-(-length * self.item // (lanes * sme.WORD)) for _, length in product.rows.segments)
        pack = halves * (chunks * lanes * PACKED_ROW + shape.words * PACKED_WORD)
        tiles = -(-rows // 2) * -(-columns // 2)
        sums = tiles * shape.words * LOADS + rows * columns * shape.words * self.multiply_cycles(core)
        pairs = product.rows.count * -(-columns // 2)
        variant = self.variant(workload, product)
        finish = pairs * (variant.vector_operations() * unit.vector_cycles + variant.stores)
        finish += tiles * TILE_INSTRUCTIONS
        total = product.rows.count * ROW_INSTRUCTIONS / core.issue_width + pack + sums + finish
        return total + params.tasks * unit.start_cycles + self.finish_cycles(workload, product, core)

    def pack(self, workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
        """Return the packed weights, the constants of the columns, and the array of `sme.Shape`."""
        product = taken(self.product(workload), workload)
        weights = weights_by_column(workload, constants, product)[0]
        return (
            sme.pack_columns(weights, product.rows.segments),
            self.constants(workload, product, constants),
            self._shape(workload, product).array(self.variant(workload, product)),
            *self.more_constants(product),
        )

    def build(self, workload: Workload, params: Params) -> tirx.PrimFunc:
        """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
        product = taken(self.product(workload), workload)
        variant, shape = self.variant(workload, product), self._shape(workload, product)
        columns = sme.padded(product.columns)
        known = [
            ((columns * shape.words * sme.WORD // self.item,), "float32" if variant.floats else "int8"),
            ((columns,), "float32") if variant.floats else ((2 * columns,), "int32"),
            (shape.array(variant).shape, "int64"),
            *((each.shape, str(each.dtype)) for each in self.more_constants(product)),
        ]
        arguments = [*((o.shape, o.dtype) for o in workload.inputs), *known]
        arguments.append((workload.output_shape, workload.output_dtype))
        steps = (step.name for step in workload.epilogue)
        symbol = "_".join((workload.composite.replace(".", "_"), self.suffix, *steps))
        with kernel_function(symbol, arguments) as function, variant.functions():
            inputs, packed = (
                function.buffers[: len(workload.inputs)],
                function.buffers[len(workload.inputs) :],
            )
            x, data, y = inputs[workload.operands[0].index], workload.operands[0].shape, packed[-1]
            if product.pad is not None:
                x = copies.padded(x, data, product.pad.widths, product.pad.value)

            def task(first: ir.Expr, last: ir.Expr) -> None:
                size = sme.PANEL * shape.words * sme.WORD
                panel = T.alloc_buffer((size,), "int8", scope="global", layout=None)
                variant.product((x, *packed[:2], y, packed[2], panel), first, last)

            self._tasks(product, params, task)
            self.finish(workload, product, inputs, packed[3:-1], y)
        assert function.prim_func is not None
        return function.prim_func

    def _tasks(self, product: Q, params: Params, task: Callable[[ir.Expr, ir.Expr], None]) -> None:
        """Emit the tasks, each of whole panels but for the last."""
        count, panels = product.rows.count, _panels(product)
        if params.tasks == 1:
            task(i64(0), i64(count))
            return
        with threads.each_of(params.tasks, parallel=True) as index:
            first, last = threads.part(index, panels, params.tasks)
            task(T.Bind(first * sme.PANEL), T.Bind(tirx.min(last * sme.PANEL, i64(count))))

    def _shape(self, workload: Workload, product: Q) -> sme.Shape:
        rows, (zero, low, high) = product.rows, self.limits(workload, product)
        return sme.Shape(
            product.columns,
            zero,
            low,
            high,
            rows.shape,
            rows.strides,
            rows.start,
            rows.segments,
            self.item,
        )


def one_group(kernel: str, product: GemmProduct) -> Diagnostic | None:
    """Return why the function does not compute a product; None if it does."""
    if product.groups > 1:
        return declined(kernel, "convolution has groups", "1", str(product.groups))
    if product.output is not None:
        return declined(kernel, "results are not contiguous", "contiguous", "phases", unfit=True)
    return None


def _panels(product: GemmProduct) -> int:
    return -(-product.rows.count // sme.PANEL)
