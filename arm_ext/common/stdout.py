# SPDX-License-Identifier: Apache-2.0
"""Redirection of output that libraries and user code print, so that standard output has only results."""

import contextlib
import ctypes
import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def stdout_to(said: io.BytesIO) -> Iterator[None]:
    """Redirect to `said` everything that the process, including C code, writes to standard output in the block."""
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            said.write(file.read())


_LOCK = threading.Lock()
_UNDO = contextlib.ExitStack()
_users = 0  # number of open contexts of `stdout_as_stderr`, in all threads


@contextlib.contextmanager
def stdout_as_stderr() -> Iterator[None]:
    """Redirect standard output to standard error in the block.

    It is for code of users, such as plugins: by print, by native code and by the processes that it starts. Contexts
    may nest and overlap in threads; the output of other threads is redirected with it.
    """
    global _users
    with _LOCK:
        if not _users:
            _UNDO.enter_context(_swapped())
        _users += 1
    try:
        yield
    finally:
        with _LOCK:
            _users -= 1
            if not _users:
                _UNDO.close()


@contextlib.contextmanager
def importing_code_of_users() -> Iterator[None]:
    """Open a scope for imports of user modules: as `stdout_as_stderr`, and without writing bytecode next to them."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        with stdout_as_stderr():
            yield
    finally:
        sys.dont_write_bytecode = before


@contextlib.contextmanager
def _swapped() -> Iterator[None]:
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
