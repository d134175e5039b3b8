# SPDX-License-Identifier: Apache-2.0
"""Outer products of SME: a matrix product of int8 by SMOPA, or of float32 by FMOPA, as one function in streaming mode.

The array ZA holds four tiles of int32 or float32 sums, each of v x v elements, for vectors of v words. SMOPA adds to a
tile the products of v rows by v columns for four elements of k, FMOPA for one. A panel of 2 v rows is first written to
a tile by rows and stored by columns, so that a vector holds one word of k of v rows, and is then multiplied by two
vectors of columns at a time: four loads and four outer products for each word of k. The length of vectors is read at
run time, and may be 128, 256 or 512 bits (`PANEL`).

LLVM's intrinsics are not used, since TVM removes the attributes by which LLVM knows that a function runs in streaming
mode. The function is assembly that follows the procedure call standard (AAPCS64): it saves registers D8 to D15, which a
change of the mode clears, and stores ZA for a caller that left it there (TPIDR2_EL0). It uses SVE in streaming mode
alone, since Apple's cores have none outside. All kernels of a program with the same variant share one copy.

Sources: Arm ARM DDI 0487, chapter B1.4 and C9; AAPCS64, section 6.6 "SME register usage".
"""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check_flat
from schedules.numerics.binary32 import MAGIC_BITS
from schedules.tir.emit import importing

FEATURE = "sme"

PREFIX = "arm_sme_"
"""Prefix of the symbols of functions that run in streaming mode, where SME provides SVE: a check of machine code by
features has to allow SVE in them."""

PANEL = 32
"""Most rows of a packed panel of data, and columns of a packed panel of weights: two vectors of 512 bits."""

WORD = 4
"""Bytes of a row, and of a column, whose products one instruction adds to a sum: four int8, or one float32."""

TILES = 4
"""Tiles of 32-bit sums."""

FIELDS = (
    *("words", "columns", "constants", "zero", "low", "high"),
    *("width", "height", "image", "line", "pixel", "start", "pieces"),
)
"""Fields of `Shape.array`; segments follow."""

_AT = {name: 8 * index for index, name in enumerate(FIELDS)}
_SEGMENTS = 8 * len(FIELDS)


@dataclass(frozen=True)
class Shape:
    """Sizes, strides and limits of a product, which the function reads at run time from `array`.

    Attributes:
        columns: Number of columns of the result.
        zero: Zero point of an int8 result; 0 for float32.
        low, high: Least and greatest result.
        shape, strides: Images, lines and pixels of the rows, and their distances in elements of the data.
        start: Offset of the first row.
        segments: (offset, length) of each contiguous piece of a row.
        item: Bytes of an element of the data.
    """

    columns: int
    zero: int
    low: float
    high: float
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    start: int
    segments: Sequence[tuple[int, int]]
    item: int

    @property
    def words(self) -> int:
        """Number of words of k; each segment begins a new word."""
        return sum(-(-length * self.item // WORD) for _, length in self.segments)

    def array(self, variant: "Variant") -> npt.NDArray[np.int64]:
        """Return the fields in the order in which a variant of the function reads them."""
        _, height, width = self.shape
        low, high = (variant.limit(limit, self.zero) for limit in (self.low, self.high))
        values: dict[str, int] = {
            "words": self.words,
            "columns": self.columns,
            "constants": WORD * padded(self.columns),
            "zero": self.zero & 0xFFFFFFFF,
            "low": low,
            "high": high,
            "width": width,
            "height": height,
            "image": self.strides[0] * self.item,
            "line": self.strides[1] * self.item,
            "pixel": self.strides[2] * self.item,
            "start": self.start * self.item,
            "pieces": len(self.segments),
        }
        pieces = [number for segment in self.segments for number in segment]
        return np.array([*(values[name] for name in FIELDS), *pieces], np.int64)


def padded(columns: int) -> int:
    """Return a number of columns rounded up to whole panels."""
    return -(-columns // PANEL) * PANEL


def pack_columns(weights: npt.NDArray[Any], segments: Sequence[tuple[int, int]]) -> npt.NDArray[Any]:
    """Return weights [columns, k], int8 or float32, as [panels, words, `PANEL`, elements of a word], flat."""
    each = WORD // weights.itemsize
    ends = np.cumsum([length for _, length in segments])[:-1]
    parts = [
        np.pad(part, ((0, padded(len(weights)) - len(weights)), (0, -part.shape[1] % each)))
        for part in np.split(weights, ends, axis=1)
    ]
    whole = np.concatenate(parts, axis=1)
    panels = whole.reshape(-1, PANEL, whole.shape[1] // each, each).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(panels).reshape(-1)


@dataclass(frozen=True)
class Variant:
    """The properties of a product that the function's code depends on.

    Attributes:
        dtype: Dtype of the data: "int8", "uint8", which is read as int8 with its top bit flipped, or "float32".
        to: Dtype of the result.
        wide: Whether int8 results may exceed int16 before they are limited, so that they are limited as floats.
        odd: Whether the result's zero point is odd, so that it is added after the rounding.
        limited: Whether the result has other limits than its dtype has; of float32 whether it has limits.
    """

    dtype: str
    to: str
    wide: bool = False
    odd: bool = False
    limited: bool = False

    @property
    def floats(self) -> bool:
        """Whether it is a product of float32."""
        return self.dtype == "float32"

    def limit(self, value: float, zero: int) -> int:
        """Return the number that `Shape.array` holds for a limit of the result: the bits of a float, or an int16."""
        if self.floats or self.wide:
            return int(np.float32(value - zero).view(np.uint32))
        return int(value) & 0xFFFF

    @property
    def stores(self) -> int:
        """Number of stores of two vectors of results."""
        return 2 if self.floats else 1

    def vector_operations(self) -> int:
        """Return the number of operations on vectors that finish two vectors of results, stores apart."""
        if self.floats:
            return 6 if self.limited else 0
        limits = 4 if self.wide else 2 if self.limited else 1
        return 9 + limits + self.odd

    def functions(self) -> AbstractContextManager[Any]:
        """Open a scope in which `product` may be called for this variant."""
        lines = (line.partition("//")[0].strip().replace('"', r"\22") for line in self.assembly.splitlines())
        quoted = "\n".join(f'module asm "{line}"' for line in lines if line)
        return importing(f"{quoted}\ndeclare void @{self.name}(ptr, ptr, ptr, ptr, ptr, ptr, i64, i64)\n")

    def product(self, operands: Sequence[tirx.Buffer], first: ir.Expr, last: ir.Expr) -> None:
        """Emit the product of some rows.

        Args:
            operands: Flat buffers: the data; weights of `pack_columns`; int32 or float32 first sums of each column,
                padded to whole panels, and behind them, for int8, the multipliers; the result; `Shape.array`; and
                a buffer of `PANEL` words for each word of k.
            first: First row of the result.
            last: The row behind the last.
        """
        first_sums = "float32" if self.floats else "int32"
        packed = "float32" if self.floats else "int8"
        dtypes = (self.dtype, packed, first_sums, self.to, "int64", "int8")
        for buffer, dtype in zip(operands, dtypes, strict=True):
            check_flat("product", buffer, dtype)
        pointers = [tirx.address_of(buffer[0]) for buffer in operands]
        T.evaluate(tirx.call_extern("void", self.name, *pointers, first, last))

    @property
    def name(self) -> str:
        """The function's symbol, which a hash of its code ends."""
        return f"{PREFIX}{hashlib.sha256(self._body().encode()).hexdigest()[:12]}"

    @property
    def assembly(self) -> str:
        """The function in assembly, in a section of its own that a linker keeps one copy of."""
        suffix = self.name.removeprefix(PREFIX)
        return _FUNCTION.format(name=self.name, body=self._body().replace("%=", f"_{suffix}"))

    def _body(self) -> str:
        parts = (
            _ENTER,
            self._constants(),
            _ADDRESSES,
            self._pack(),
            self._multiply(),
            self._finish(),
            _LEAVE,
        )
        return "\n".join(parts)

    def _constants(self) -> str:
        """The code that loads the registers which keep their values through the function: z27 to z31."""
        lanes = ("ld1rw", "s") if self.floats or self.wide else ("ld1rh", "h")
        lines = [
            f"{lanes[0]} {{z{29 + i}.{lanes[1]}}}, p0/z, [x4, #{_AT[name]}]"
            for i, name in enumerate(("low", "high"))
        ]
        if self.floats:
            return "\n".join([*lines, "fmov z28.s, #1.0"])
        lines += [
            "mov z28.b, #-128",
            f"ldr w9, [x4, #{_AT['zero']}]",
            f"movz w10, #{MAGIC_BITS >> 16}, lsl #16",
        ]
        if self.odd:  # an odd addend would round ties to odd values
            lines += ["mov z31.h, w9"]
        else:
            lines += ["add w10, w10, w9"]
        return "\n".join([*lines, "mov z27.s, w10"])

    def _pack(self) -> str:
        """The code that packs the rows of a panel, v rows at a time."""
        if self.floats:
            rows = "\n".join(f"ld1w {{za0h.s[w12, {j}]}}, p3/z, [x{22 + j}, x21, lsl #2]" for j in range(4))
            return _PACK.format(lanes="s", rows=rows, words="sub x28, x16, x17", advance="add x17, x17, x8")
        flip = [f"eor z{j}.d, z{j}.d, z28.d" for j in range(4)] if self.dtype == "uint8" else []
        lines = [
            *(f"ld1b {{z{j}.b}}, p3/z, [x{22 + j}, x21]" for j in range(4)),
            *flip,
            *(f"mov za0h.s[w12, {j}], p0/m, z{j}.s" for j in range(4)),
        ]
        words = "sub x28, x16, x17\nadd x28, x28, #3\nlsr x28, x28, #2"
        return _PACK.format(lanes="b", rows="\n".join(lines), words=words, advance="addvl x17, x17, #1")

    def _multiply(self) -> str:
        """The code that sums the products of a panel by two vectors of columns."""
        if self.floats:
            first = "\n".join(f"fmopa za{t}.s, p0/m, p0/m, z28.s, z{16 + t % 2}.s" for t in range(TILES))
            last = "whilelo p1.s, x9, x19\nwhilelo p2.s, x10, x19"
        else:
            first = "\n".join(f"addha za{t}.s, p0/m, p0/m, z{16 + t % 2}.s" for t in range(TILES))
            first += "\nadd x11, x11, x12\nld1w {z18.s}, p0/z, [x11]\nld1w {z19.s}, p0/z, [x11, #1, mul vl]"
            last = "whilelo p1.h, x9, x19"
        sums = (self._sums(rows, columns) for rows in (2, 1) for columns in (2, 1))
        size = PANEL * (1 if self.floats else WORD)
        skips = "\n".join(f"mov x{21 + word}, #{word * size}" for word in (1, 2, 3))
        return _COLUMNS.format(last=last, first=first, skips=skips) + "\n".join(sums)

    def _sums(self, rows: int, columns: int) -> str:
        """The loop over the words of k, for one or two vectors of rows and of columns, four words at a time."""
        load, lanes, multiply = ("ld1w", "s", "fmopa") if self.floats else ("ld1b", "b", "smopa")

        def word(at: int) -> str:
            far = f", x{21 + at}" if at else ""
            if self.floats and at:
                far += ", lsl #2"
            a = [f"{load} {{z{2 * at + r}.{lanes}}}, p0/z, [x14, #{2 * at + r}, mul vl]" for r in range(rows)]
            b = [f"{load} {{z{8 + 2 * at + c}.{lanes}}}, p0/z, [x{(13, 25)[c]}{far}]" for c in range(columns)]
            products = [
                f"{multiply} za{2 * r + c}.s, p0/m, p0/m, z{2 * at + r}.{lanes}, z{8 + 2 * at + c}.{lanes}"
                for r in range(rows)
                for c in range(columns)
            ]
            return "\n".join([*a, *b, *products])

        four = "\n".join(map(word, range(4)))
        return _SUMS.format(name=f"{rows}{columns}", four=four, one=word(0))

    def _finish(self) -> str:
        """The code that stores the results of a panel by two vectors of columns."""
        scale = 2 if self.floats else 0
        halves = [
            _ROWS.format(
                name=half,
                four="\n".join(self._row(TILES // 2 * half, j) for j in range(4)),
                one=self._row(TILES // 2 * half, 0),
                shift=scale,
                second="add x30, x15, x8, lsl #2" if self.floats else "",
            )
            for half in range(2)
        ]
        return _FINISH.format(shift=scale, upper=halves[0], lower=halves[1])

    def _row(self, tile: int, at: int) -> str:
        """The code that finishes row w12 + `at` of two tiles beside each other."""
        if self.floats:
            return self._float_row(tile, at)
        far = f", x{25 + at}" if at else ""
        a, b = f"z{4 * at}", f"z{4 * at + 1}"
        pair = ((a, 18, tile), (b, 19, tile + 1))
        lines = [f"mov {z}.s, p0/m, za{t}h.s[w12, {at}]" for z, _, t in pair]
        lines += [f"scvtf {z}.s, p0/m, {z}.s" for z, _, _ in pair]
        lines += [f"fmul {z}.s, {z}.s, z{m}.s" for z, m, _ in pair]
        if self.wide:
            lines += [f"fmaxnm {z}.s, p0/m, {z}.s, z29.s" for z, _, _ in pair]
            lines += [f"fminnm {z}.s, p0/m, {z}.s, z30.s" for z, _, _ in pair]
        lines += [f"fadd {z}.s, {z}.s, z27.s" for z, _, _ in pair]
        lines += [f"uzp1 {a}.h, {a}.h, {b}.h"]
        lines += [f"add {a}.h, {a}.h, z31.h"] if self.odd else []
        if not self.wide and self.limited:
            lines += [f"smax {a}.h, p0/m, {a}.h, z29.h", f"smin {a}.h, p0/m, {a}.h, z30.h"]
        elif not self.wide:
            lines += [f"{'sqxtunb' if self.to == 'uint8' else 'sqxtnb'} {a}.b, {a}.h"]
        return "\n".join([*lines, f"st1b {{{a}.h}}, p1, [x15{far}]"])

    def _float_row(self, tile: int, at: int) -> str:
        far = f", x{25 + at}, lsl #2" if at else ""
        lines = []
        for c, base in enumerate(("x15", "x30")):
            where = f"p{1 + c}, [{base}{far}]"
            if not self.limited:
                lines += [f"st1w {{za{tile + c}h.s[w12, {at}]}}, {where}"]
                continue
            z = f"z{4 * at + c}.s"
            lines += [f"mov {z}, p0/m, za{tile + c}h.s[w12, {at}]"]
            lines += [f"fmax {z}, p0/m, {z}, z29.s", f"fmin {z}, p0/m, {z}, z30.s"]
            lines += [f"st1w {{{z}}}, {where}"]
        return "\n".join(lines)


# General registers throughout: x0 to x7 the operands, of which x6 is the first row of the panel; x8 v, x19 columns, x20
# words. x18 belongs to the platform. Addresses of a panel's rows are on the stack.
# `%=` stands for a suffix that makes labels unique.
_FUNCTION = """
.ifndef {name}
.arch armv9-a+sme
.section .text.{name},"axG",%progbits,{name},comdat
.hidden {name}
.weak {name}
.type {name}, %function
.p2align 6
{name}:
{body}
.size {name}, . - {name}
.text
.endif
"""

_SAVED = [
    *((f"x{n}", f"x{n + 1}") for n in range(19, 29, 2)),
    *((f"d{n}", f"d{n + 1}") for n in range(8, 16, 2)),
]


def _each_saved(instruction: str) -> str:
    """Return the code that stores (STP) or loads (LDP) the registers which a called function has to keep."""
    return "\n".join(f"{instruction} {a}, {b}, [sp, #{16 * at}]" for at, (a, b) in enumerate(_SAVED, 1))


_ENTER = f"""
cmp x6, x7
b.lo .Lrows%=
ret // a thread without rows
.Lrows%=:
stp x29, x30, [sp, #-160]!
mov x29, sp
{_each_saved("stp")}
sub sp, sp, #{8 * PANEL}
smstart sm
// A caller's ZA, of which TPIDR2_EL0 says where it is to be stored: address, then number of slices.
mrs x9, TPIDR2_EL0
cbz x9, .Lfree%=
ldr x10, [x9]
ldrh w11, [x9, #8]
mov w12, #0
cbz w11, .Lstored%=
.Lstore%=:
str za[w12, 0], [x10]
addvl x10, x10, #1
add w12, w12, #1
cmp w12, w11
b.lo .Lstore%=
.Lstored%=:
msr TPIDR2_EL0, xzr
.Lfree%=:
cntw x8
cmp x8, #{PANEL // 2}
b.ls .Lfits%=
brk #1 // longer vectors than panels have room for
.Lfits%=:
smstart za
ptrue p0.b
ldr x20, [x4, #{_AT["words"]}]
ldr x19, [x4, #{_AT["columns"]}]
"""

_ADDRESSES = f"""
.Lpanel%=:
sub x10, x7, x6
lsl x25, x8, #1
cmp x10, x25
csel x10, x10, x25, lo // rows of this panel
ldp x11, x12, [x4, #{_AT["width"]}]
ldp x13, x14, [x4, #{_AT["image"]}]
ldp x15, x16, [x4, #{_AT["pixel"]}]
add x16, x0, x16
mov x17, sp
mov x21, x6
.Lline%=:
udiv x22, x21, x11
msub x23, x22, x11, x21 // pixel
udiv x24, x22, x12 // image
msub x22, x24, x12, x22 // line
madd x9, x23, x15, x16
madd x9, x22, x14, x9
madd x9, x24, x13, x9
sub x23, x11, x23
cmp x23, x10
csel x23, x23, x10, lo // rows in this line
add x21, x21, x23
sub x10, x10, x23
.Lpixel%=:
str x9, [x17], #8
add x9, x9, x15
subs x23, x23, #1
b.ne .Lpixel%=
cbnz x10, .Lline%=
sub x9, x9, x15
add x10, sp, x25, lsl #3
.Lrepeat%=: // the last row instead of those behind it
cmp x17, x10
b.hs .Lknown%=
str x9, [x17], #8
b .Lrepeat%=
.Lknown%=:
mov x10, sp
mov x11, x5
mov x9, #2
"""

_PACK = f"""
.Lhalf%=:
add x26, x4, #{_SEGMENTS}
ldr x27, [x4, #{_AT["pieces"]}]
mov x14, x11
.Lpiece%=:
ldp x15, x16, [x26], #16
mov x17, #0
.Lchunk%=:
whilelo p3.{{lanes}}, x17, x16
add x21, x15, x17
mov x13, x10
mov w12, #0
.Lrow%=:
ldp x22, x23, [x13], #16
ldp x24, x25, [x13], #16
{{rows}}
add w12, w12, #4
cmp w12, w8
b.lo .Lrow%=
{{words}}
cmp x28, x8
csel x28, x28, x8, lo // words of k in the tile
lsl x22, x8, #1
lsl x23, x8, #2
add x24, x22, x23
mov w12, #0
subs x28, x28, #4
b.lo .Lfew%=
.Lwords%=:
st1w {{{{za0v.s[w12, 0]}}}}, p0, [x14]
st1w {{{{za0v.s[w12, 1]}}}}, p0, [x14, x22, lsl #2]
st1w {{{{za0v.s[w12, 2]}}}}, p0, [x14, x23, lsl #2]
st1w {{{{za0v.s[w12, 3]}}}}, p0, [x14, x24, lsl #2]
addvl x14, x14, #8
add w12, w12, #4
subs x28, x28, #4
b.hs .Lwords%=
.Lfew%=:
adds x28, x28, #4
b.eq .Lpacked%=
.Lword%=:
st1w {{{{za0v.s[w12, 0]}}}}, p0, [x14]
addvl x14, x14, #2
add w12, w12, #1
subs x28, x28, #1
b.ne .Lword%=
.Lpacked%=:
{{advance}}
cmp x17, x16
b.lo .Lchunk%=
subs x27, x27, #1
b.ne .Lpiece%=
add x10, x10, x8, lsl #3
addvl x11, x11, #1
subs x9, x9, #1
b.ne .Lhalf%=
"""

_COLUMNS = f"""
mov x9, #0
.Lcolumns%=:
add x10, x9, x8
{{last}}
add x11, x2, x9, lsl #2
ldr x12, [x4, #{_AT["constants"]}]
ld1w {{{{z16.s}}}}, p0/z, [x11]
ld1w {{{{z17.s}}}}, p0/z, [x11, #1, mul vl]
zero {{{{za}}}}
{{first}}
lsr x12, x9, #5 // panel of columns
mul x12, x12, x20
and x13, x9, #{PANEL - 1}
lsl x13, x13, #2
add x13, x13, x12, lsl #7
add x13, x1, x13
addvl x25, x13, #1
mov x14, x5
{{skips}}
sub x11, x7, x6
cmp x11, x8
b.ls .Lupper%=
cmp x10, x19
b.hs .Lsums21%=
b .Lsums22%=
.Lupper%=:
cmp x10, x19
b.hs .Lsums11%=
b .Lsums12%=
"""

_SUMS = """
.Lsums{name}%=:
lsr x15, x20, #2
cbz x15, .Lrest{name}%=
.Lfour{name}%=:
{four}
addvl x14, x14, #8
add x13, x13, #512
add x25, x25, #512
subs x15, x15, #1
b.ne .Lfour{name}%=
.Lrest{name}%=:
ands x15, x20, #3
b.eq .Lfinish%=
.Lone{name}%=:
{one}
addvl x14, x14, #2
add x13, x13, #128
add x25, x25, #128
subs x15, x15, #1
b.ne .Lone{name}%=
b .Lfinish%=
"""

_FINISH = """
.Lfinish%=:
mov x26, x19
lsl x27, x26, #1
add x28, x27, x26
madd x15, x6, x26, x9
add x15, x3, x15, lsl #{shift}
lsl x10, x26, #2
sub x17, x7, x6
cmp x17, x8
csel x11, x17, x8, lo
{upper}
cmp x17, x8
b.ls .Lnext%=
sub x17, x17, x8
cmp x17, x8
csel x11, x17, x8, lo
{lower}
.Lnext%=:
add x9, x9, x8, lsl #1
cmp x9, x19
b.lo .Lcolumns%=
add x6, x6, x8, lsl #1
cmp x6, x7
b.lo .Lpanel%=
"""

_ROWS = """
mov w12, #0
{second}
lsr x21, x11, #2
cbz x21, .Lleft{name}%=
.Lrows{name}%=:
{four}
add x15, x15, x10, lsl #{shift}
{second}
add w12, w12, #4
subs x21, x21, #1
b.ne .Lrows{name}%=
.Lleft{name}%=:
ands x21, x11, #3
b.eq .Ldone{name}%=
.Lone{name}%=:
{one}
add x15, x15, x26, lsl #{shift}
{second}
add w12, w12, #1
subs x21, x21, #1
b.ne .Lone{name}%=
.Ldone{name}%=:
"""

_LEAVE = f"""
smstop
add sp, sp, #{8 * PANEL}
{_each_saved("ldp")}
ldp x29, x30, [sp], #160
ret
"""
