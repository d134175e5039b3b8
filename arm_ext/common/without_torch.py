# SPDX-License-Identifier: Apache-2.0
"""Import of TVM without PyTorch."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_torch() -> Iterator[None]:
    """Hide PyTorch from imports, unless it or TVM's `tvm_ffi` is already loaded.

    TVM imports PyTorch where it is installed, to convert tensors, which takes two seconds.
    """
    if {"torch", "tvm_ffi"} & sys.modules.keys():
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment] # how the import system marks what is not there
    try:
        yield
    finally:
        del sys.modules["torch"]
