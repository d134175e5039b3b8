# SPDX-License-Identifier: Apache-2.0
"""Reading of untrusted files, which other programs may replace meanwhile: only regular files of a bounded size.

A named pipe in the place of a file makes a plain open() wait for ever, and a link to /dev/zero has no end. So a file is
opened without waiting, and everything else is asked of the descriptor: whoever replaces the path changes nothing.
"""

import io
import os
import stat
from pathlib import Path

from arm_ext.common.faults import why

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class UnreadableError(Exception):
    """A file is missing, not a regular file, or too large; the message names it."""


def open_regular(path: Path, *, most: int | None = None, follow: bool = True) -> io.BufferedReader:
    """Open a regular file for reading, without blocking.

    Args:
        path: The file.
        most: Bytes that it may have; any number by default.
        follow: Whether the path may be a symbolic link.

    Raises:
        UnreadableError: The file cannot be opened, is no regular file, or is larger.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        if not follow and path.is_symlink():
            raise UnreadableError(f"{path}: is a symbolic link, not a file") from error
        raise UnreadableError(why(error, path)) from error
    status = os.fstat(opened)
    fault = ""
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
        fault = f"is {kind}, and no file"
    elif most is not None and status.st_size > most:
        fault = f"has {status.st_size:,} bytes, and the most that such a file gets is {most:,}"
    if fault:
        os.close(opened)
        raise UnreadableError(f"{path}: {fault}")
    return os.fdopen(opened, "rb")


def read_regular(path: Path, *, most: int, follow: bool = True) -> bytes:
    """Return the bytes of a regular file, as `open_regular` opens it.

    Raises:
        UnreadableError: As `open_regular`; or the file grows meanwhile.
    """
    with open_regular(path, most=most, follow=follow) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise UnreadableError(why(error, path)) from error
    if len(data) > most:
        raise UnreadableError(f"{path}: grows beyond {most:,} bytes while it is read")
    return data
