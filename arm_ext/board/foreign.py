# SPDX-License-Identifier: Apache-2.0
"""The warning before the first run of a package that was compiled elsewhere, since it is code of unknown origin."""

import logging
from pathlib import Path

from arm_ext.board.base import Board
from arm_ext.board.confine import support
from arm_ext.common.known_packages import is_known, remember

_LOG = logging.getLogger(__name__)


def warn_of_foreign(package: Path, so_sha256: str, board: Board) -> None:
    """Warn before the first run of a package from elsewhere of what it can do.

    Args:
        package: Folder of the package.
        so_sha256: SHA-256 of its model.so.
        board: The board on which it is about to run.
    """
    if not is_known(so_sha256):
        _LOG.warning(
            "%s was not compiled on this machine, and its model.so is a program. %s", package, _means(board)
        )
        remember(so_sha256)


def _means(board: Board) -> str:
    if not board.emulated:
        return f"Board {board.name} runs it with all rights of its RPC server; the virtual board confines it."
    lacks = support().lacks()
    if not lacks:
        return (
            f"Board {board.name} confines it: it can neither read nor change your files, use the network, or start or "
            "influence processes."
        )
    return f"Board {board.name} confines it only in part on this kernel: it can {'; '.join(lacks)}."
