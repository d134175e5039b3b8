# SPDX-License-Identifier: Apache-2.0
"""Removal of false dependencies from blocks that llvm-mca treats as loops although they do not repeat.

llvm-mca prices a block as if it repeated. The one behind a loop, which scales and stores sums, would wait in each round
for its own last result: in the register where it expects a sum, which in truth the loop writes, and the loop is priced
separately. For small tiles that was a third of the estimate. So vector registers that such a block reads before it
writes them are replaced by one that it never writes.

    fmul v2.4s, v1.4s, v0.4s        fmul v2.4s, v31.4s, v30.4s
    sqxtn v1.4h, v2.4s          →   sqxtn v1.4h, v2.4s

Sums that it goes on with (`fmla v1.4s, v2.4s, v3.4s`) stay as they are: they may be those of a loop in several blocks.
"""

import re
from collections.abc import Sequence

from arm_ext.measure.classify import disassemble

_VECTOR_REGISTER = re.compile(r"\b([vzqdshb])(\d+)\b")
_TARGET = re.compile(r"#0x([0-9a-f]+)$")
_REGISTERS = 32
_WITHOUT_RESULT = ("st", "fcmp", "fccmp")


def repeats(words: Sequence[int]) -> bool:
    """Whether a block ends with a branch to an address inside it."""
    target = _TARGET.search(disassemble(words[-1])[1])
    if target is None:
        return False
    # Targets are printed for an instruction at address 0, so that a backward jump wraps around.
    backwards = (1 << 64) - int(target[1], 16)
    return backwards <= 4 * (len(words) - 1)


def read_anew(lines: Sequence[str]) -> tuple[str, ...]:
    """Return a block's lines with vector registers that it reads before writing them renamed to an unused register."""
    written = set().union(*map(_written, lines))
    spare = next((number for number in map(str, reversed(range(_REGISTERS))) if number not in written), None)
    if spare is None:
        return tuple(lines)
    known: set[str] = set()
    renamed = []
    for line in lines:
        own = known | _written(line)

        def source(register: re.Match[str], own: set[str] = own) -> str:
            return register[0] if register[2] in own or register[2] not in written else register[1] + spare

        renamed.append(_VECTOR_REGISTER.sub(source, line))
        known = own
    return tuple(renamed)


def _written(line: str) -> set[str]:
    """Return the numbers of the vector registers that an instruction writes."""
    mnemonic, _, operands = line.partition(" ")
    if mnemonic.startswith(_WITHOUT_RESULT):
        return set()
    results = operands.partition(", [" if mnemonic.startswith("ld") else ",")[0]
    return {number for _, number in _VECTOR_REGISTER.findall(results)}
