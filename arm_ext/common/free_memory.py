# SPDX-License-Identifier: Apache-2.0
"""Returning unused memory to the system."""

import ctypes
import gc
from contextlib import suppress


def free_memory() -> None:
    """Collect reference cycles, with the constants that TVM's passes leave in them, and return memory to the system."""
    gc.collect()
    with suppress(AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)
