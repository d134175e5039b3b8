# SPDX-License-Identifier: Apache-2.0
"""Workloads of functions without a hand-written kernel: the loops that LegalizeOps and FuseTIR emit.

A workload of `COMPOSITE` has the function's tensors as inputs and result, and the function itself as an attribute. The
function's variables and blocks are renamed first, because their names depend on the rest of the model.
"""

import base64
import json
import zlib
from itertools import count

import tvm
from tvm import tirx
from tvm.ir.prim import expr as prim

from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch, declined

COMPOSITE = "loops"

_FUNCTION, _MACHINE = "function", "machine"

_NAMED = {"ir.Var": "name", "s_tir.SBlock": "name_hint"}
_ROOT = "root"

_KEPT = ("tirx.noalias", "s_tir")
"""Attributes that belong to the function itself; all others are about the model around it, and are dropped."""


def workload_of(func: tirx.PrimFunc, machine: str) -> Workload | None:
    """Return a function of loops as a `Workload` of the composite `loops`.

    Args:
        func: Function as FuseTIR leaves it, with its result last.
        machine: Architecture under LLVM's name, such as "aarch64".

    Returns:
        None for a function with symbolic sizes, or with arguments that are no tensors.
    """
    if not all(
        hasattr(param.ty, "shape") and all(isinstance(size, prim.IntImm) for size in param.ty.shape)
        for param in func.params
    ):
        return None
    sizes = [tuple(int(size) for size in param.ty.shape) for param in func.params]
    dtypes = [str(param.ty.dtype) for param in func.params]
    inputs = zip(sizes[:-1], dtypes[:-1], count(), strict=False)
    return Workload(
        COMPOSITE,
        tuple(Operand(shape, dtype, "input", index) for shape, dtype, index in inputs),
        ((_FUNCTION, _text_of(func)), (_MACHINE, machine)),
        (),
        sizes[-1],
        dtypes[-1],
    )


def function_of(workload: Workload) -> tirx.PrimFunc:
    """Return the function that `workload_of` stored, which lacks its original names and attributes."""
    text = zlib.decompress(base64.b64decode(dict(workload.attributes)[_FUNCTION]))
    return tvm.ir.load_json(text.decode())


def machine_of(workload: Workload) -> str:
    """Return the architecture that a workload of loops is built for."""
    return dict(workload.attributes)[_MACHINE]


def matches(kernel: str, workload: Workload) -> KernelMatch | Diagnostic:
    """Match workloads of the composite `loops`."""
    if workload.composite == COMPOSITE:
        return KernelMatch("loops of TVM's operators")
    return declined(kernel, "it is no function of loops", COMPOSITE, workload.composite, unfit=True)


def _text_of(func: tirx.PrimFunc) -> str:
    kept = {name: func.attrs[name] for name in _KEPT if func.attrs and name in func.attrs}
    for name in list(func.attrs.keys()) if func.attrs else []:
        func = func.without_attr(name)
    graph = json.loads(tvm.ir.save_json(func.with_attrs(kept) if kept else func))
    nodes = graph["nodes"]
    for index, node in enumerate(list(nodes)):
        field = _NAMED.get(node["type"])
        # Rename all blocks except the root block, which MetaSchedule rules look up by name.
        if field is not None and nodes[node["data"][field]]["data"] != _ROOT:
            node["data"][field] = len(nodes)
            nodes.append({"type": "ffi.String", "data": f"n{index}"})
    # Save and load the function, because TVM drops unused old names in this way.
    text = tvm.ir.save_json(tvm.ir.load_json(json.dumps(graph)))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
