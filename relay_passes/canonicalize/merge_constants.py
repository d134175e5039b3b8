# SPDX-License-Identifier: Apache-2.0
"""Deduplication of equal constants.

    f(x, c1), g(y, c2) with c1 = c2 bit for bit    →    f(x, c1), g(y, c1)

A constant is then stored once for all calls that read it, and calls on equal constants are structurally equal. Exact;
quantised parameters likewise.
"""

import hashlib

import numpy as np
from tvm import IRModule
from tvm.ir import GenericConst
from tvm.runtime import Tensor
from tvm_ffi import structural_map

from relay_passes.ir.calls import array_of
from relay_passes.ir.sources import relax_functions

_Key = tuple[str, tuple[int, ...], bytes]


def merge_constants(mod: IRModule) -> IRModule:
    """Replace each constant of the Relax functions by the first constant that equals it."""
    out = mod.clone()
    first: dict[_Key, GenericConst] = {}

    def merged(constant: GenericConst) -> GenericConst:
        if not isinstance(constant.value, Tensor):  # after planning, constants may also be strings and dtypes
            return constant
        value = array_of(constant)
        digest = hashlib.sha256(value.reshape(-1).view(np.uint8).data).digest()
        return first.setdefault((str(value.dtype), value.shape, digest), constant)

    for gv, func in relax_functions(mod):
        out.update_func(gv, structural_map(func, [(GenericConst, merged)]))
    return out
