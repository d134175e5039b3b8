# SPDX-License-Identifier: Apache-2.0
"""Loading TVM in a command."""

import gc
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

from arm_ext.common.faults import require_addresses
from arm_ext.common.without_torch import without_torch

_DISTRIBUTED = "tvm.runtime.disco"
# With "0" no backends of GPUs and other devices; TVM loads a library of the runtime's with them, which holds sorts.
_BACKENDS, _WITH_BACKENDS = "TVM_DEVICE_BACKEND_AUTOLOAD", "tvm_runtime_extra"
_ALLOCATIONS = 50_000
"""Threshold of allocations minus deallocations for garbage collection; high, as commands allocate much and end soon."""


def load_tvm() -> None:
    """Import TVM without modules that no command uses, and exempt the loaded objects from garbage collection.

    The PyTorch front end imports PyTorch when needed. TVM's distributed runtime (disco) looks up a type that its wheel
    lacks, and the resulting error reads all debug information for a backtrace, which takes a third of the time that TVM
    takes without PyTorch; so does each of the names of CUDA that its wheel lacks. No garbage is collected during the
    import, since there is none, and seldom afterwards.

    Raises:
        EnvError: The limit on this process's addresses is too low.
    """
    require_addresses("TVM with LLVM")
    if "tvm" in sys.modules:  # TVM was loaded by a calling program, whose garbage collection stays as it is
        return
    gc.disable()
    try:
        with without_torch():
            sys.modules[_DISTRIBUTED] = ModuleType(_DISTRIBUTED)
            asked = os.environ.get(_BACKENDS)
            os.environ[_BACKENDS] = "0"
            try:
                _load_rest(importlib.import_module("tvm"))
            finally:
                del sys.modules[_DISTRIBUTED], os.environ[_BACKENDS]
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
