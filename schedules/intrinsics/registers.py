# SPDX-License-Identifier: Apache-2.0
"""Number and size of the vector registers of AArch64 (Arm ARM, AArch64 SIMD&FP register file)."""

REGISTERS = 32
"""V0 to V31."""

VECTOR = 16
"""Bytes of a vector register."""

LANES = 4
"""Words of 32 bits of a vector register."""

STREAMING_PAIR = 2
"""Registers of one LDP: those for B inside of a register tile that streams it."""


def check_tile(what: str, sides: tuple[int, int], needed: int) -> None:
    """Raise ValueError if a register tile is empty, or needs more registers than there are.

    Args:
        what: Name of the tile, for the message.
        sides: Rows and columns of the tile, in any unit.
        needed: Number of vector registers that the tile needs.
    """
    if min(sides) < 1 or needed > REGISTERS:
        raise ValueError(f"{what} takes {needed} registers of {REGISTERS}")
