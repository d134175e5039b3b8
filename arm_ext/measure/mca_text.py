# SPDX-License-Identifier: Apache-2.0
"""Assembly text for llvm-mca, with instructions rewritten for which its Arm models have wrong costs.

The figures are of llvm-mca 19; what is rewritten costs the same in a model without the fault.

    ldr q0, [x1], #16       →  ldr q0, [x1]; add x1, x1, #16
    ldr q0, [x1, #16]!      →  add x1, x1, #16; ldr q0, [x1]
    ld1 {v0.s}[1], [x1]     →  ldr s31, [x1]; mov v0.s[1], v31.s[0]
    bl f                    →  b f

- Write-back: the neoverse-n2 and cortex-a57 models give the new address the latency of the load (6 cycles a
  step instead of 1). The neoverse models let that of a store wait for the data that it stores (13 cycles a step
  of a clamp in place); the other models price stores rightly, and splitting makes cortex-a55 three times too slow.
- Lane loads: all models let the load itself wait for the old value of the register (8 cycles a step on
  neoverse-n2 instead of 2), where hardware lets only the insertion wait.
- Calls: all models charge 100 cycles, since llvm-mca does not look into the callee. Here the callee is
  counted by its own blocks.
"""

import re
from collections.abc import Sequence

from arm_ext.measure.classify import disassemble

_POST_INDEX = re.compile(r"(?P<operands>.*), \[(?P<base>\w+)\], (?P<step>#-?\w+|x\d+)")
_PRE_INDEX = re.compile(r"(?P<operands>.*), \[(?P<base>\w+), #(?P<step>-?\w+)\]!")
_LANES = re.compile(
    r"\{(?P<registers>v\d+\.[bhsd](?:, v\d+\.[bhsd])*)\}\[(?P<lane>\d+)\], "
    r"\[(?P<base>\w+)\](?:, (?P<step>#-?\w+|x\d+))?"
)
_VECTOR_REGISTER = re.compile(r"\b[vzqdshb](\d+)\b")
# Bytes of an element → the register view that loads this many bytes.
_ELEMENT_BYTES = {"b": 1, "h": 2, "s": 4, "d": 8}
_VIEW_OF_BYTES = {1: "b", 2: "h", 4: "s", 8: "d", 16: "q"}
# llvm-mca's models in which inserting a lane has the right cost (2 cycles). cortex-a57 has 8 and the in-order
# models 4, so that splitting lane loads there would be the larger error. The Neoverse models also have a wrong cost
# for stores with write-back.
_NEOVERSE = "neoverse-"


def mca_text(words: Sequence[int], cpu: str) -> tuple[str, ...]:
    """Return llvm-mca's input for a block, as lines.

    Args:
        words: The A64 instructions.
        cpu: llvm-mca's -mcpu.
    """
    scratch = _least_used_register(words)
    lines: list[str] = []
    for word in words:
        mnemonic, operands = disassemble(word)
        if mnemonic in ("bl", "blr"):
            lines.append(f"{mnemonic.replace('bl', 'b')} {operands}")
        elif mnemonic.startswith("ld"):
            lines.extend(_load(mnemonic, operands, scratch if cpu.startswith(_NEOVERSE) else None))
        elif mnemonic.startswith("st") and cpu.startswith(_NEOVERSE):
            lines.extend(_written_back(mnemonic, operands))
        else:
            lines.append(f"{mnemonic} {operands}".rstrip())
    return tuple(lines)


def _load(mnemonic: str, operands: str, scratch: int | None) -> list[str]:
    if scratch is not None and (lanes := _LANES.fullmatch(operands)):
        return _lane_load(lanes, scratch)
    return _written_back(mnemonic, operands)


def _written_back(mnemonic: str, operands: str) -> list[str]:
    """Return a load or store as lines; if it changes the base register, the change becomes a separate instruction."""
    if post := _POST_INDEX.fullmatch(operands):
        return [f"{mnemonic} {post['operands']}, [{post['base']}]", _add(post["base"], post["step"])]
    if pre := _PRE_INDEX.fullmatch(operands):
        return [_add(pre["base"], f"#{pre['step']}"), f"{mnemonic} {pre['operands']}, [{pre['base']}]"]
    return [f"{mnemonic} {operands}"]


def _lane_load(lanes: re.Match[str], scratch: int) -> list[str]:
    registers = lanes["registers"].split(", ")
    element = registers[0][-1]
    wide_enough = min(size for size in _VIEW_OF_BYTES if size >= len(registers) * _ELEMENT_BYTES[element])
    lines = [f"ldr {_VIEW_OF_BYTES[wide_enough]}{scratch}, [{lanes['base']}]"]
    lines += [f"mov {register}[{lanes['lane']}], v{scratch}.{element}[0]" for register in registers]
    return [*lines, _add(lanes["base"], lanes["step"])] if lanes["step"] else lines


def _add(base: str, step: str) -> str:
    if not step.startswith("#"):
        return f"add {base}, {base}, {step}"
    value = int(step[1:], 0)
    return f"{'sub' if value < 0 else 'add'} {base}, {base}, #{abs(value)}"


def _least_used_register(words: Sequence[int]) -> int:
    """Return the vector register with the fewest uses (none, if possible), for split lane loads."""
    uses = [0] * 32
    for word in words:
        for number in _VECTOR_REGISTER.findall(disassemble(word)[1]):
            uses[int(number)] += 1
    return min(reversed(range(32)), key=lambda register: uses[register])
