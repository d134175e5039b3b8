# SPDX-License-Identifier: Apache-2.0
"""Small models for boards."""

from collections.abc import Sequence
from pathlib import Path

import tvm
from tvm import relax

from arm_ext.native.build import ffi_includes
from arm_ext.target.toolchain import LinkerRecord, link_shared

ROWS, COLUMNS = 7, 31

# What the kernel of `fault_model` does, by its input's one element.
COPY, ILLEGAL, SPIN, CRASH, RAISE = range(5)

_FAULTS = """
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>
static float *Data(const TVMFFIAny *arg) {
  return (float *)(arg->type_index == kTVMFFIDLTensorPtr ? (DLTensor *)arg->v_ptr
                                                          : (DLTensor *)(arg->v_obj + 1))->data;
}
int __tvm_ffi_fault(void *self, const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result) {
  float what = *Data(&args[0]);
  if (what == 1) __asm__ volatile(".inst 0");
  for (volatile int spin = what == 2; spin;) {}
  if (what == 3) *(volatile int *)8 = 0;
  if (what == 4) { TVMFFIErrorSetRaisedFromCStr("ValueError", "four is refused"); return -1; }
  *Data(&args[1]) = what;
  result->type_index = kTVMFFINone;
  return 0;
}
"""


def add_relu_model(folder: Path, machine: str = "aarch64") -> Path:
    """model.so: f32[7, 31], f32[31] → relu(x + y), max over rows of x + y."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((ROWS, COLUMNS), "float32"))
    y = relax.Var("y", relax.TensorType((COLUMNS,), "float32"))
    with builder.function("main", [x, y]):
        total = builder.emit(relax.op.add(x, y))
        builder.emit_func_output(relax.Tuple([relax.op.nn.relu(total), relax.op.max(total, axis=1)]))
    return _build(builder.get(), folder, machine, [])


def fault_model(folder: Path, machine: str = "aarch64") -> Path:
    """model.so: f32[1] → itself, or a failure that its value selects."""
    one = relax.TensorType((1,), "float32")
    builder = relax.BlockBuilder()
    what = relax.Var("what", one)
    with builder.function("main", [what]):
        builder.emit_func_output(relax.op.call_dps_packed("fault", (what,), one))
    source = folder / "fault.c"
    source.write_text(_FAULTS.replace(".inst 0", ".inst 0" if machine == "aarch64" else "ud2"))
    return _build(builder.get(), folder, machine, [*ffi_includes(), source])


def _build(module: tvm.IRModule, folder: Path, machine: str, extra: Sequence[str | Path]) -> Path:
    triple = f"{machine}-linux-gnu"
    so = folder / "model.so"

    def link(output: str, objects: Sequence[str], options: Sequence[str] = ()) -> LinkerRecord:
        return link_shared([*options, *objects, *extra], Path(output), triple=triple)

    executable = tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "mtriple": triple}))
    executable.export_library(str(so), fcompile=link)
    return so
