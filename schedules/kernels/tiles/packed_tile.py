# SPDX-License-Identifier: Apache-2.0
"""The register tile of two packed panels: the operands of an instruction, and one k step of all accumulators.

A vector of a panel holds `lines` rows of A or columns of B by `step` k, and a panel is [k / step][vectors][elements].
What a tile's accumulators start from, and which loop of k steps LLVM compiles well, is the kernel's: `mmla_tile`,
`bfmmla_tile`, and `panel_tile_s8` for matrices of run time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics import bfloat, mmla, sdot
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.tir.emit import i64, load, store


@dataclass(frozen=True)
class Instruction:
    """An instruction that multiplies packed lines (rows of A by columns of B).

    Attributes:
        name: Mnemonic of the instruction.
        feature: Feature that a core must have.
        step: Number of k that one instruction sums over.
        multiply: Maps (accumulator, vector of rows, vector of columns, index of the accumulator) to the new
            accumulator.
        accumulators: Number of accumulators for a pair of vectors: 1 (of 2 x 2 elements), or one per row.
        elements: Number of elements of a packed vector.
        total: Type of an accumulator.
        instructions: Number of instructions that `multiply` emits.
        ahead: How many vectors of columns are loaded in advance, because LLVM does not reorder the loads.
    """

    name: str
    feature: str
    step: int
    multiply: Callable[[ir.Expr, ir.Expr, ir.Expr, int], ir.Expr]
    accumulators: int = 1
    elements: int = VECTOR
    total: str = "int32"
    instructions: int = 1
    ahead: int = 0

    @property
    def lines(self) -> int:
        """Number of lines in a packed vector."""
        return self.elements // self.step

    @property
    def partial(self) -> bool:
        """Whether an accumulator holds four partial sums of one output."""
        return self.lines == 1


SMMLA = Instruction("smmla", mmla.FEATURE, mmla.K_STEP, lambda acc, a, b, _: mmla.smmla(acc, a, b))

BFMMLA = Instruction(
    "bfmmla",
    bfloat.FEATURE,
    bfloat.K_STEP,
    lambda acc, a, b, _: bfloat.bfmmla(acc, a, b),
    elements=bfloat.LANES,
    total="float32",
)

SDOT = Instruction(
    "sdot",
    sdot.FEATURE,
    sdot.K_STEP,
    lambda acc, a, b, which: sdot.sdot_lane(acc, b, a, which),
    accumulators=4,
)


@dataclass(frozen=True)
class PackedTile:
    """A register tile of vectors of rows by vectors of columns."""

    unit: Instruction
    rows: int
    columns: int

    def accumulators(self) -> tirx.Buffer:
        """Allocate the accumulators, [row vector][which][column vector][4], flat."""
        # Not scope "local": on CPUs TVM allocates that from the workspace pool, and LLVM never drops stores to the
        # heap.
        count = self.rows * self.unit.accumulators * self.columns
        return T.alloc_buffer((count * LANES,), self.unit.total, layout=None)

    def place(self, row: int, column: int, which: int = 0) -> ir.Expr:
        """Return the offset of an accumulator."""
        return i64(((row * self.unit.accumulators + which) * self.columns + column) * LANES)

    def step(
        self,
        acc: tirx.Buffer,
        a: tuple[tirx.Buffer, ir.Expr],
        b: tuple[tirx.Buffer, ir.Expr],
        k: ir.Expr,
    ) -> None:
        """Emit step `k` of the sum; `a` and `b` are panels, each a flat buffer and an offset."""
        unit, size = self.unit, self.unit.elements
        a_values = [load(a[0], a[1] + (k * self.rows + row) * size, size) for row in range(self.rows)]
        b_values: list[ir.Expr] = []
        for column in range(self.columns):
            loaded = range(len(b_values), min(column + unit.ahead + 1, self.columns))
            b_values += [load(b[0], b[1] + (k * self.columns + c) * size, size) for c in loaded]
            for row in range(self.rows):
                for which in range(unit.accumulators):
                    place = self.place(row, column, which)
                    total = acc.vload([place], f"{unit.total}x{LANES}")
                    store(acc, unit.multiply(total, a_values[row], b_values[column], which), place, LANES)
