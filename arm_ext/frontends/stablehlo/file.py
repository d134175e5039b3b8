# SPDX-License-Identifier: Apache-2.0
"""Detection of StableHLO files without jaxlib, which reads them."""

import struct
from pathlib import Path

BYTECODE = b"ML\xefR"
"""First bytes of MLIR's bytecode."""

# First words of a module's text, after comments and aliases of attributes and types.
_FIRST_WORDS = (b"module", b"func.func", b"builtin.module", b'"builtin.module"')
_BEFORE = (b"//", b"#", b"!")
_LONGEST_LINE = 1 << 20
_LENGTH = struct.Struct("<I")


def is_stablehlo(path: Path) -> bool:
    """Whether a file is MLIR bytecode or text."""
    with path.open("rb") as file:
        if file.read(len(BYTECODE)) == BYTECODE:
            return True
        file.seek(0)
        while line := file.readline(_LONGEST_LINE):
            word = line.strip()
            if word and not word.startswith(_BEFORE):
                return word.startswith(_FIRST_WORDS)
    return False


def enclosed_bytecode(path: Path) -> bytes | None:
    """Return the bytecode inside a file that `jax.export.Exported.serialize` wrote; None for other files.

    The bytecode is a byte vector of a flatbuffer; its length precedes it.
    """
    data = path.read_bytes()
    at = data.find(BYTECODE)
    if at < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data, at - _LENGTH.size)
    return data[at : at + length] if at + length <= len(data) else None
