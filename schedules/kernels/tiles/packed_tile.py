# SPDX-License-Identifier: Apache-2.0
"""The register tile of two packed panels: accumulators and the code of one k step, for any instruction.

A vector of a panel holds `lines` rows of A or columns of B by `step` elements of k; a panel is [k /
step][vectors][elements]. The initial accumulators, and the loop over k steps, are emitted by `mmla_tile`,
`bfmmla_tile`, and `panel_tile_s8` (for products of two run-time matrices).
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
    """An instruction that multiplies packed lines, which are rows of A or columns of B.

    Attributes:
        name: Mnemonic of the instruction.
        feature: Feature that a core must have.
        step: Number of products that the instruction sums per lane of the accumulator, in k.
        multiply: Maps (accumulator, vector of rows, vector of columns, index of the accumulator) to the new
            accumulator.
        accumulators: Number of accumulators for a pair of vectors: 1 (of 2 x 2 elements), or one per row.
        elements: Number of elements of a packed vector.
        total: Type of an accumulator.
        instructions: Number of instructions that `multiply` emits.
        ahead: Number of vectors of columns that are loaded in advance, because LLVM does not reorder the loads.
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
    """The register tile of `rows` row vectors by `columns` column vectors for an instruction."""

    unit: Instruction
    rows: int
    columns: int

    def accumulators(self) -> tirx.Buffer:
        """Allocate the accumulators, a flat buffer [row vector][accumulator of a pair of vectors][column vector][4]."""
        # No scope "local": TVM would allocate the buffer from the workspace pool, and LLVM cannot remove stores to heap
        # memory.
        count = self.rows * self.unit.accumulators * self.columns
        return T.alloc_buffer((count * LANES,), self.unit.total, layout=None)

    def place(self, row: int, column: int, which: int = 0) -> ir.Expr:
        """Return the offset of an accumulator in the buffer."""
        return i64(((row * self.unit.accumulators + which) * self.columns + column) * LANES)

    def step(
        self,
        acc: tirx.Buffer,
        a: tuple[tirx.Buffer, ir.Expr],
        b: tuple[tirx.Buffer, ir.Expr],
        k: ir.Expr,
    ) -> None:
        """Emit step `k` of the sum; `a` and `b` are panels, each a flat buffer and the offset in it."""
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
