# SPDX-License-Identifier: Apache-2.0
"""Serialisation of an executable without copies of its large constants.

TVM's serialiser appends constants to a growing string, which is copied twice. So a placeholder, the SHA-256 of the
constant, takes the constant's place while TVM builds and serialises the executable:

    conv(x, float32[64, 3, 3, 64])    →    conv(x, uint8[32])

In the serialised executable each placeholder is then replaced by its constant. The bytes are those that TVM would have
written without placeholders.
"""

import hashlib
import math
import re
import struct
from collections.abc import Iterable
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.runtime import Tensor
from tvm_ffi import structural_map

_LARGE = 1024  # minimum bytes of a large constant; all smaller ones together need little memory
_DIGEST_BYTES = 32
_PACK_IMPORTS = tvm.get_global_func("runtime.ModulePackImportsToTensor")

# Layout by which SaveDLTensor of TVM's runtime/tensor.h writes a tensor: magic number and a reserved word, kDLCPU
# and the device's number, number of dimensions; code, bits and lanes of the dtype; the sizes; the number of bytes,
# and the bytes.
_TENSOR = struct.Struct("<QQiiiBBH")
_MAGIC, _CPU = 0xDD5E40F096B4A13F, (1, 0)
# Layout by which PackImportsToBytes of TVM's codegen.cc writes modules: the number of bytes that follow, and for
# each module its kind and its content, as strings that begin with their length.
_LENGTH = struct.Struct("<Q")
_KIND = b"relax.VMExecutable"


class LargeConstants:
    """The large constants of a module, from which an executable with placeholders is built."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Tensor] = {}

    def replaced(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with placeholders for large constants in its Relax functions; equal constants share one."""
        # In the module's order, in which TVM numbers constants.
        functions = {
            gvar: structural_map(func, [(GenericConst, self._placeholder)])
            if isinstance(func, relax.Function)
            else func
            for gvar, func in mod.functions.items()
        }
        return tvm.IRModule(functions, mod.attrs, mod.global_infos)

    def _placeholder(self, constant: GenericConst) -> GenericConst:
        value = constant.value
        if not isinstance(value, Tensor) or _size(value) < _LARGE:
            return constant
        hashed = hashlib.sha256(_head(value))
        hashed.update(_data(value))
        self._by_digest.setdefault(hashed.digest(), value)
        return GenericConst(tvm.runtime.tensor(np.frombuffer(hashed.digest(), np.uint8)), constant.ty)

    def serialised(self, executable: tvm.runtime.Module) -> list[memoryview]:
        """Serialise an executable and its imports, with the constants in place of their placeholders.

        Returns:
            The parts of what TVM's ModulePackImportsToTensor returns for an executable without placeholders.
        """
        blob = np.from_dlpack(_PACK_IMPORTS(executable)).tobytes()
        head = bytes(_head(tvm.runtime.tensor(np.zeros(_DIGEST_BYTES, np.uint8))))
        # (start, end, replacement) of each placeholder.
        changes = [
            (found.start(), found.end(), [_head(value), _data(value)])
            for found in re.finditer(re.escape(head) + b"(.{%d})" % _DIGEST_BYTES, blob, re.DOTALL)
            if (value := self._by_digest.get(found[1])) is not None
        ]
        assert len(changes) == len(self._by_digest), "TVM serialised tensors in another form"
        more = sum(sum(map(len, parts)) - (end - start) for start, end, parts in changes)
        of_program = blob.index(_KIND) + len(_KIND)
        assert _LENGTH.unpack_from(blob)[0] == len(blob) - _LENGTH.size, (
            "TVM serialised modules in another form"
        )
        for start in (0, of_program):
            (length,) = _LENGTH.unpack_from(blob, start)
            changes.append((start, start + _LENGTH.size, [memoryview(_LENGTH.pack(length + more))]))
        return _changed(memoryview(blob), changes)


def _changed(blob: memoryview, changes: Iterable[tuple[int, int, list[memoryview]]]) -> list[memoryview]:
    """Return the parts of a blob with some ranges of bytes replaced; the ranges do not overlap."""
    result, at = [], 0
    for start, end, parts in sorted(changes, key=itemgetter(0)):
        result += [blob[at:start], *parts]
        at = end
    return [*result, blob[at:]]


def _head(value: Tensor) -> memoryview:
    """Return the header that TVM writes before a tensor's data."""
    dtype, shape = value.dtype, value.shape
    head = _TENSOR.pack(_MAGIC, 0, *_CPU, len(shape), dtype.type_code, dtype.bits, dtype.lanes)
    return memoryview(head + struct.pack(f"<{len(shape) + 1}q", *shape, _size(value)))


def _data(value: Tensor) -> memoryview:
    """Return the bytes of a tensor of any dtype, without a copy."""
    view: npt.NDArray[np.uint8] = np.from_dlpack(value._create_view((_size(value),), "uint8"))
    return view.data


def _size(value: Tensor) -> int:
    return int(math.prod(value.shape) * value.dtype.itemsize)
