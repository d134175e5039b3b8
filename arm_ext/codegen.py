# SPDX-License-Identifier: Apache-2.0
"""TVM's passes from TensorIR to what LLVM is given, without those that change nothing here.

Half of the time of TVM's own list goes into CompactBufferAllocation, which shrinks buffers to what is accessed of them.
Kernels of ours, whose accumulators have thousands of accesses, take buffers of the right size to begin with.
"""

import tvm
from tvm import s_tir, tirx
from tvm.ir.transform import PassContext, Sequential, module_pass
from tvm.tirx.compilation_pipeline import finalize_device_passes, finalize_host_passes, register_tir_pipeline

from schedules.emit import EXACT

_PIPELINE = "arm_ext"

# In TVM's order (tvm/s_tir/pipeline.py). Left out is what is for GPUs and their memories, 8-bit floats, and options.
_TO_BLOCKS = Sequential(
    [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
    ]
)
_TO_LOOPS = Sequential(
    [
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.AnnotateIrregularLoop(),
        s_tir.transform.LowerOpaqueBlock(),
    ]
)
_TO_CODE = Sequential(
    [
        tirx.transform.FlattenBuffer(),
        tirx.transform.BF16ComputeLegalize(),
        tirx.transform.NarrowDataType(32),
        s_tir.transform.LoopPartition(),
        tirx.transform.VectorizeLoop(),
        tirx.transform.StorageRewrite(),
        s_tir.transform.HoistIfThenElse(),
        tirx.transform.UnrollLoop(),
        s_tir.transform.RenormalizeSplitPattern(),
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        s_tir.transform.RewriteUnsafeSelect(),
        tirx.transform.CommonSubexprElim(),
        tirx.transform.VerifyMemory(),
        tirx.transform.AnnotateEntryFunc(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.BF16StorageLegalize(),
    ]
)


def allocations(mod: tvm.IRModule) -> tvm.IRModule:
    """From blocks with buffers of their own to loops with sized allocations."""
    return _TO_LOOPS(_compact(_TO_BLOCKS(mod)))


def registered() -> str:
    """The passes under a name: TVM's builders take no pipeline otherwise."""
    lower = module_pass(_lower, opt_level=0)
    register_tir_pipeline(_PIPELINE, lambda: (lower, finalize_host_passes, finalize_device_passes))
    return _PIPELINE


def _lower(mod: tvm.IRModule, _context: PassContext) -> tvm.IRModule:
    return _TO_CODE(allocations(mod))


def _compact(mod: tvm.IRModule) -> tvm.IRModule:
    """Shrink the buffers of functions that are not kernels of ours."""
    rest = tirx.transform.Filter(lambda func: EXACT not in func.attrs)(mod)
    mod = mod.clone()
    mod.update(s_tir.transform.CompactBufferAllocation()(rest))
    return mod
