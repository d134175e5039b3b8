# SPDX-License-Identifier: Apache-2.0
"""What an int8 product kernel does in its own way, by the instruction that it has: its tiles, its rows, its sums."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from tvm import ir, tirx

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.kernels.common.contract import Array
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar
from schedules.kernels.gemm.k_chunks_s8 import Reading
from schedules.kernels.gemm.packed_columns_s8 import Starts
from schedules.kernels.gemm.product_s8 import IntegerProduct
from schedules.kernels.tiles.tile_stores import Accumulator, Put, Requantize

ROW_OVERHEAD = 12
"""Scalar instructions of a row of a tile: where it begins, and where it is stored."""


class Tile(NamedTuple):
    """The size of a register tile.

    Attributes:
        rows: Rows.
        columns: Columns.
        vectors: Of accumulators that a row, or a pair of rows, has.
    """

    rows: int
    columns: int
    vectors: int


@dataclass(frozen=True, kw_only=True)
class Cut(ABC):
    """How the result is cut: what the parameters of all these kernels have.

    Attributes:
        column_blocks: How many tasks share the columns of one tile of rows.
        parallel: Whether tasks are spread over the runtime's threads.
        sve: Whether what is left of the columns is stored by SVE.
    """

    column_blocks: int = 1
    parallel: bool = False
    sve: bool = False

    @property
    @abstractmethod
    def tile(self) -> Tile:
        """The register tile."""


P = TypeVar("P", bound=Cut)

Ready = tuple[tirx.Buffer, Sequence[ir.Expr]]
"""What rows of a tile are read from, and where each begins."""

Finish = Callable[[Accumulator, int, int, Requantize, Put], None]
"""One of `tile_stores`."""


class Unit(ABC, Generic[P]):
    """An instruction of products, and the tiles that a kernel makes of it.

    Attributes:
        name: The kernel's.
        suffix: Of the function's symbol.
        feature: What a core must have.
        finish: From accumulators to rows.
        lines: Rows that an accumulator holds.
    """

    name: str
    suffix: str
    feature: str
    finish: Finish
    lines: int = 1

    @abstractmethod
    def tiles(self, workload: Workload) -> Sequence[P]:
        """Every tile, all of it one task."""

    @abstractmethod
    def order(self, product: IntegerProduct) -> Array:
        """For each byte of a packed row which k it holds; see `chunks_s8`."""

    @abstractmethod
    def pack_columns(self, columns: Array, product: IntegerProduct, params: P) -> Array:
        """Weights int8 [columns, packed depth], whole tiles of columns, as panels."""

    @abstractmethod
    def ready_cost(self, product: IntegerProduct, rows: int) -> Cost:
        """Of making the rows of a tile ready."""

    @abstractmethod
    def tile_cost(self, product: IntegerProduct, params: P, rows: int) -> Cost:
        """Of the sum over k of one tile, of its requantisation and of its stores."""

    @abstractmethod
    def ready(self, product: IntegerProduct, x: tirx.Buffer, starts: Sequence[ir.Expr], count: int) -> Ready:
        """Emits what is done once for all columns of a tile of rows.

        Args:
            product: Whose rows.
            x: The data, padded.
            starts: Where each row begins; an odd last one is there twice.
            count: How many there are.
        """

    @abstractmethod
    def multiply(
        self, product: IntegerProduct, params: P, a: Ready, b: tuple[tirx.Buffer, ir.Expr], header: Starts
    ) -> Accumulator:
        """Emits the sum over k of one tile: of rows `a` by the panel of columns at an offset of `b`."""

    def in_lanes(self, values: Array) -> Array:
        """One value a column in the order of the accumulators' lanes."""
        return values

    def reads_past_the_data(self, product: IntegerProduct) -> bool:
        """Whether vectors may end up to a register behind the data."""
        return False

    def scope(self) -> AbstractContextManager[None]:
        """What all code stands in."""
        return nullcontext()

    def has(self, core: Core) -> bool:
        """Whether the core has `feature`."""
        return self.feature in core.features


class InPlace(Unit[P]):
    """An instruction that takes rows as they lie, or staged.

    Attributes:
        step: Bytes of k that a lane of it sums over.
    """

    step: int

    def reading(self, product: IntegerProduct) -> Reading:
        """How rows are read."""
        return Reading.in_vectors(product.rows, self.step)

    def order(self, product: IntegerProduct) -> Array:
        """As they are used."""
        return self.reading(product).order()

    def ready_cost(self, product: IntegerProduct, rows: int) -> Cost:
        """Of staging, and of finding them."""
        staging = self.reading(product).staging()
        return (arithmetic(staging) + scalar(staging + ROW_OVERHEAD)) * rows

    def ready(self, product: IntegerProduct, x: tirx.Buffer, starts: Sequence[ir.Expr], count: int) -> Ready:
        """Emits the staging, where it is needed."""
        return self.reading(product).source(x, starts[:count])
