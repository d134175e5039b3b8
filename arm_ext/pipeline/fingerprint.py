# SPDX-License-Identifier: Apache-2.0
"""Hashes that identify a cached result: of the values that it is computed from, and of the code that computes it."""

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

import relay_passes
import schedules
from relay_passes.ir.calls import array_of
from relay_passes.ir.sources import relax_functions

# Folders of arm_ext (not imported here, to avoid a cycle) and of the packages that it computes with.
_PACKAGES = (
    Path(__file__).parents[1],
    *(Path(str(package.__file__)).parent for package in (relay_passes, schedules)),
)
_WHEELS = ("apache-tvm", "apache-tvm-ffi", "ziglang", "numpy")


def wheels(*names: str) -> str:
    """Return a text with names and installed versions of Python packages."""
    return " ".join(f"{name}=={importlib.metadata.version(name)}" for name in names)


def programs() -> str:
    """Return a hash of all sources of this project and of the versions of the packages that they use here."""
    return _hash_of(_PACKAGES)


def kernel_programs() -> str:
    """Return a hash of the sources that choose, emit and lower kernels, and of the package versions."""
    return _hash_of((Path(__file__).parent, *_PACKAGES[1:]))


@cache
def _hash_of(packages: tuple[Path, ...]) -> str:
    hashed = hashlib.sha256(f"{wheels(*_WHEELS)} {platform.machine()} {platform.libc_ver()}".encode())
    for root in packages:
        for path in sorted(root.rglob("*.py")):
            hashed.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()


def module(mod: tvm.IRModule) -> str:
    """Return a hash of a Relax module with its constants.

    The text has the operators with their attributes, but only the numbers of constants; so their bytes are hashed, too.
    TVM's own hash, of 64 bits, covers what the text may omit.
    """
    hashed = hashlib.sha256(f"{mod.script(show_meta=False)}\0{tvm_ffi.structural_hash(mod)}".encode())

    def add_constant(expr: relax.Expr) -> None:
        if isinstance(expr, GenericConst) and isinstance(expr.ty, relax.TensorType):
            hashed.update(arrays([array_of(expr)]).encode())

    for _, func in relax_functions(mod):
        relax.analysis.post_order_visit(func, add_constant)
    return hashed.hexdigest()


def arrays(values: Iterable[npt.NDArray[Any]]) -> str:
    """Return a hash of arrays, with their types and shapes."""
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(f"{value.dtype} {value.shape} ".encode())
        hashed.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
    return hashed.hexdigest()
