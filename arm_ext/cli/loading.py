# SPDX-License-Identifier: Apache-2.0
"""Loading TVM in a command."""

import gc
import importlib
import sys

from arm_ext.common.faults import require_addresses


def load_tvm() -> None:
    """Import TVM without PyTorch, and keep what was loaded from the garbage collector.

    TVM imports PyTorch wherever it is installed, which takes two seconds, for conversions of tensors that no command
    uses. What reads a program of PyTorch imports it later. No garbage is collected meanwhile, as there is none.

    Raises:
        EnvError: The limit on this process's addresses is too low.
    """
    require_addresses("TVM with LLVM")
    gc.disable()
    try:
        if not {"tvm_ffi", "torch"} & sys.modules.keys():
            sys.modules["torch"] = None  # type: ignore[assignment] # how the import system marks what is not there
            try:
                importlib.import_module("tvm")
            finally:
                del sys.modules["torch"]
        gc.freeze()
    finally:
        gc.enable()
