# SPDX-License-Identifier: Apache-2.0
"""Loading TVM in a command."""

import gc
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from arm_ext.common.faults import require_addresses

_DISTRIBUTED = "tvm.runtime.disco"
# With "0" no backends of GPUs and other devices; TVM loads a library of the runtime's with them, which holds sorts.
_BACKENDS, _WITH_BACKENDS = "TVM_DEVICE_BACKEND_AUTOLOAD", "tvm_runtime_extra"
_ALLOCATIONS = 50_000
"""Threshold of allocations minus deallocations for garbage collection; high, as commands allocate much and end soon."""


def load_tvm() -> None:
    """Import TVM without modules that no command uses, and exempt the loaded objects from garbage collection.

    TVM imports PyTorch if it is installed, for conversions of tensors, which takes two seconds; the PyTorch front end
    imports it when needed. TVM's distributed runtime (disco) looks up a type that its wheel lacks, and the resulting
    error reads all debug information for a backtrace, which takes a third of the remaining time; so does each of the
    names of CUDA that its wheel lacks. No garbage is collected during the import, since there is none, and seldom
    afterwards.

    Raises:
        EnvError: The limit on this process's addresses is too low.
    """
    require_addresses("TVM with LLVM")
    if "tvm" in sys.modules:  # TVM was loaded by a calling program, whose garbage collection stays as it is
        return
    gc.disable()
    try:
        if not {"tvm_ffi", "torch"} & sys.modules.keys():
            sys.modules["torch"] = None  # type: ignore[assignment] # how the import system marks what is not there
            sys.modules[_DISTRIBUTED] = ModuleType(_DISTRIBUTED)
            asked = os.environ.get(_BACKENDS)
            os.environ[_BACKENDS] = "0"
            try:
                _load_rest(importlib.import_module("tvm"))
            finally:
                del sys.modules["torch"], sys.modules[_DISTRIBUTED], os.environ[_BACKENDS]
                os.environ |= {} if asked is None else {_BACKENDS: asked}
        gc.freeze()
        gc.set_threshold(_ALLOCATIONS)
    finally:
        gc.enable()


def _load_rest(tvm: ModuleType) -> None:
    libraries = Path(str(tvm.__file__)).parent / "lib"
    libinfo = importlib.import_module("tvm_ffi.libinfo")
    tvm.base._LOADED_LIBS[_WITH_BACKENDS] = libinfo.load_lib_ctypes(
        "tvm", _WITH_BACKENDS, "RTLD_LOCAL", [libraries]
    )
