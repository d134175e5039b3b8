# SPDX-License-Identifier: Apache-2.0
"""Redirection of output that C++ libraries print, so that standard output holds only results."""

import contextlib
import ctypes
import io
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def stdout_to(said: io.BytesIO) -> Iterator[None]:
    """Redirect all that is written to the process's standard output inside this context."""
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
