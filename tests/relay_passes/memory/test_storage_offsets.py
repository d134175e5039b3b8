# SPDX-License-Identifier: Apache-2.0
import numpy as np
import tvm
from tvm import relax, tirx

from relay_passes import accept_offsets


def test_what_is_passed_on_begins_at_the_offset():
    x = relax.Var("x", relax.TensorType((1, 5), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.topk(x, 3, 1, "values", True, "int64")))
    target = tvm.target.Target("llvm")
    with target:
        mod = relax.transform.LegalizeOps()(relax.backend.DispatchSortScan()(builder.get()))
    (sort,) = (f for _, f in accept_offsets(mod).functions_items() if isinstance(f, tirx.PrimFunc))
    storage = tvm.runtime.tensor(np.arange(32, dtype=np.float32))
    inside = storage._create_view((1, 5), "float32", relative_byte_offset=64)
    found = tvm.runtime.empty((1, 3), "float32")
    tvm.compile(sort.with_attr("global_symbol", "sort"), target)["sort"](inside, found)
    np.testing.assert_array_equal(found.numpy(), [[20, 19, 18]])
