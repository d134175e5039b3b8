# SPDX-License-Identifier: Apache-2.0
"""Packages that this machine did not compile: what running somebody else's program means is said once for each."""

import logging
import os
from pathlib import Path

from arm_ext.board.base import Board
from arm_ext.board.confine import support
from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import EnvError

_LOG = logging.getLogger(__name__)

# Most bytes of the record of hashes, one per line. When it is longer, its older half is dropped; a dropped hash means
# a needless warning.
_LONGEST = 1 << 20


def remember(so_sha256: str) -> None:
    """Note that a model.so is known here, because it was compiled here or its user was told."""
    try:
        record = cache_folder() / "packages-known"
        with record.open("a", encoding="utf-8") as file:
            file.write(f"{so_sha256}\n")
        if record.stat().st_size > _LONGEST:
            aside = record.with_name(f"{record.name}.{os.getpid()}")
            aside.write_text(
                record.read_text(encoding="utf-8")[_LONGEST // 2 :].partition("\n")[2], encoding="utf-8"
            )
            aside.replace(record)
    except (OSError, EnvError):
        return  # a cache that cannot be written costs a warning


def warn_of_foreign(package: Path, so_sha256: str, board: Board) -> None:
    """Warn before the first run of a package from elsewhere of what it can do.

    Args:
        package: Folder of the package.
        so_sha256: SHA-256 of its model.so.
        board: The board on which it is about to run.
    """
    try:
        known = (cache_folder() / "packages-known").read_text(encoding="utf-8").splitlines()
    except (OSError, EnvError):
        known = []
    if so_sha256 not in known:
        _LOG.warning(
            "%s was not compiled on this machine, and its model.so is a program. %s", package, _means(board)
        )
        remember(so_sha256)


def _means(board: Board) -> str:
    if not board.emulated:
        return f"Board {board.name} runs it with all rights of its RPC server; the virtual board confines it."
    lacks = support().lacks()
    if not lacks:
        return f"Board {board.name} confines it: it sees none of your files, and no network."
    return f"Board {board.name} confines it only in part on this kernel: it can {'; '.join(lacks)}."
