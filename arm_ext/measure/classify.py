# SPDX-License-Identifier: Apache-2.0
"""Classification of A64 instructions by kind of work, from their disassembly."""

import re
from enum import StrEnum
from functools import cache

import capstone


class InsnClass(StrEnum):
    """Classes of instructions in a report of counts; the multiply-accumulate ones first, widest first."""

    SMMLA = "smmla"  # smmla, ummla, usmmla: 32 MAC
    SDOT = "sdot"  # sdot, udot, usdot, sudot: 16 MAC
    BF16 = "bf16"  # bfmmla, bfdot, bfmlalb, bfmlalt
    FP16_FMLA = "fp16 fmla"  # half-precision operands, including fmlal and fmlal2
    FMLA = "fmla"  # single and double precision vectors
    INTEGER_MLA = "integer mla"  # mla, smlal, smull, … on vectors
    OUTER_PRODUCT = "outer product"  # SME: smopa, fmopa, …
    SCALAR_FMA = "scalar fma"  # fmadd and related instructions: one MAC
    VECTOR_LOAD = "vector load"
    SCALAR_LOAD = "scalar load"
    VECTOR_STORE = "vector store"
    SCALAR_STORE = "scalar store"
    BRANCH = "branch"
    VECTOR = "other vector"  # scalar floating point included: it runs on the vector pipes
    SCALAR = "scalar"


MAC_CLASSES = frozenset(
    {
        InsnClass.SMMLA,
        InsnClass.SDOT,
        InsnClass.BF16,
        InsnClass.FP16_FMLA,
        InsnClass.FMLA,
        InsnClass.INTEGER_MLA,
        InsnClass.OUTER_PRODUCT,
        InsnClass.SCALAR_FMA,
    }
)

# Matched against the complete mnemonic, and only if the operands are vectors, so that scalar smull does not match.
_MAC_MNEMONICS = (
    (InsnClass.SMMLA, re.compile(r"(s|u|us)mmla")),
    (InsnClass.SDOT, re.compile(r"(s|u|us|su)dot")),
    (InsnClass.BF16, re.compile(r"bf(mmla|dot|mlal[bt]?)")),
    (InsnClass.OUTER_PRODUCT, re.compile(r"(s|u|us|su|f|bf|b)mop[as]")),
    (InsnClass.FP16_FMLA, re.compile(r"fml[as]l[2bt]?")),
    (InsnClass.SCALAR_FMA, re.compile(r"fn?m(add|sub)")),
)
_FMLA = re.compile(r"fml[as]|fmad|fmsb|fmmla")
_INTEGER_MLA = re.compile(
    r"[su](ml[as]l|mull)[2bt]?|ml[as]|mul|mad|msb|sqdml[as]l[2bt]?|sqdmull[2bt]?|sqrdml[as]h"
)
_BRANCH = re.compile(r"b|b\.\w+|bc\.\w+|bl|blr\w*|br\w*|ret\w*|cbn?z|tbn?z")
# prfm is a load without a destination; atomics (ldadd, swp, cas) read and write, and count as loads.
_LOAD = re.compile(r"ld\w+|prf\w+|swp\w*|cas\w*")
_STORE = re.compile(r"st\w+")
_VECTOR_OPERAND = re.compile(r"\b(?:[vz]\d+|[qdshb]\d+|p\d+|za\d*)\b")
_HALF_OPERAND = re.compile(r"\b(?:[vz]\d+\.\d*h|h\d+)\b")

_disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)


@cache
def disassemble(word: int) -> tuple[str, str]:
    """Return the mnemonic and operands of an instruction at address 0; ("udf", "#0") for an invalid one."""
    for _, _, mnemonic, operands in _disassembler.disasm_lite(word.to_bytes(4, "little"), 0):
        return mnemonic, operands
    return "udf", "#0"


@cache
def classify(word: int) -> InsnClass:
    """Return the class of an A64 instruction."""
    mnemonic, operands = disassemble(word)
    if _BRANCH.fullmatch(mnemonic):
        return InsnClass.BRANCH
    vector = _VECTOR_OPERAND.search(operands) is not None
    if _LOAD.fullmatch(mnemonic):
        return InsnClass.VECTOR_LOAD if vector else InsnClass.SCALAR_LOAD
    if _STORE.fullmatch(mnemonic):
        return InsnClass.VECTOR_STORE if vector else InsnClass.SCALAR_STORE
    return _arithmetic(mnemonic, operands) if vector else InsnClass.SCALAR


def _arithmetic(mnemonic: str, operands: str) -> InsnClass:
    for kind, mnemonics in _MAC_MNEMONICS:
        if mnemonics.fullmatch(mnemonic):
            return kind
    if _FMLA.fullmatch(mnemonic):
        if operands[0] not in "vz":
            return InsnClass.SCALAR_FMA
        return InsnClass.FP16_FMLA if _HALF_OPERAND.search(operands) else InsnClass.FMLA
    return InsnClass.INTEGER_MLA if _INTEGER_MLA.fullmatch(mnemonic) else InsnClass.VECTOR
