# SPDX-License-Identifier: Apache-2.0
"""Loading TVM in a command."""

import ctypes
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from arm_ext.common.faults import require_addresses
from arm_ext.common.without_torch import without_torch

_DISTRIBUTED = "tvm.runtime.disco"
_SELDOM_USED = ("tvm.s_tir.meta_schedule", "tvm.s_tir.dlight", "tvm.relax.training")
"""Modules that TVM imports and commands seldom use: with what they import, 139 that are loaded on first use."""
# "0" disables the backends of GPUs and other devices. With them, TVM would load the library tvm_runtime_extra, which
# has the sorts, so it is loaded separately.
_BACKENDS, _WITH_BACKENDS = "TVM_DEVICE_BACKEND_AUTOLOAD", "tvm_runtime_extra"
_ALLOCATIONS = 50_000
"""Threshold of allocations minus deallocations for garbage collection; high, as commands allocate much and end soon."""
_M_MMAP_THRESHOLD, _LARGE_BYTES = -3, 1 << 20
"""Parameter of glibc's mallopt, and the size from which a block goes back to the system as soon as it is freed."""


def load_tvm() -> None:
    """Import TVM without modules that no command uses, and exempt the loaded objects from garbage collection.

    The PyTorch front end imports PyTorch when needed. TVM's distributed runtime (disco) looks up a type that its wheel
    lacks, and the resulting error reads all debug information for a backtrace, which takes a third of the time that TVM
    takes without PyTorch; so does each of the names of CUDA that its wheel lacks. Some 50 of TVM's modules list all its
    6,000 functions to find their own. No garbage is collected during the import, since there is none, and seldom
    afterwards.

    Raises:
        EnvError: The limit on this process's addresses is too low.
    """
    require_addresses("TVM with LLVM")
    if "tvm" in sys.modules:  # a calling program has loaded TVM; its garbage collection must not change
        return
    _return_large_blocks()
    gc.disable()
    try:
        with without_torch():
            sys.modules[_DISTRIBUTED] = ModuleType(_DISTRIBUTED)
            asked = os.environ.get(_BACKENDS)
            os.environ[_BACKENDS] = "0"
            try:
                with _seldom_used_on_demand(), _functions_listed_once():
                    _load_rest(importlib.import_module("tvm"))
            finally:
                del sys.modules[_DISTRIBUTED], os.environ[_BACKENDS]
                os.environ |= {} if asked is None else {_BACKENDS: asked}
        gc.freeze()
        gc.set_threshold(_ALLOCATIONS)
    finally:
        gc.enable()


def _return_large_blocks() -> None:
    """Have glibc return freed weights to the system.

    By default it keeps blocks of up to 32 MB, which phases often copy.
    """
    with suppress(AttributeError):  # another libc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


class _OnDemand:
    """Import finder that delays loading the modules in `_SELDOM_USED` until one of their attributes is read."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in _SELDOM_USED else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def _seldom_used_on_demand() -> Iterator[None]:
    sys.meta_path.insert(0, _OnDemand)
    try:
        yield
    finally:
        sys.meta_path.remove(_OnDemand)


@contextmanager
def _functions_listed_once() -> Iterator[None]:
    """Cache the list of TVM's global functions while their number stays the same."""
    registry: Any = importlib.import_module("tvm_ffi.registry")
    list_all, listed = registry.list_global_func_names, list[str]()

    def names() -> list[str]:
        name_of = registry.get_global_func("ffi.FunctionListGlobalNamesFunctor")()
        if name_of(-1) != len(listed):
            listed[:] = list_all()
        return listed

    registry.list_global_func_names = names
    try:
        yield
    finally:
        registry.list_global_func_names = list_all


def _load_rest(tvm: ModuleType) -> None:
    libraries = Path(str(tvm.__file__)).parent / "lib"
    libinfo = importlib.import_module("tvm_ffi.libinfo")
    tvm.base._LOADED_LIBS[_WITH_BACKENDS] = libinfo.load_lib_ctypes(
        "tvm", _WITH_BACKENDS, "RTLD_LOCAL", [libraries]
    )
