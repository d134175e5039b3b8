# SPDX-License-Identifier: Apache-2.0
"""Kernels of a number of rows over any number of them."""

import numpy as np
import pytest
import tvm
from tvm import target, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.kernels.common.row_chunks import RowArgument, in_chunks
from schedules.tir.emit import i64, in_root_block, kernel_function, load, store

CHUNK, WIDTH = 8, 4


def row_sums() -> tirx.PrimFunc:
    """y[r, :] = x[r, :] + w, for CHUNK rows."""
    arguments = [((CHUNK, WIDTH), "float32"), ((WIDTH,), "float32"), ((CHUNK, WIDTH), "float32")]
    with kernel_function("row_sums", arguments) as function:
        x, w, y = function.buffers
        with T.serial(i64(0), i64(CHUNK)) as row:
            value = load(x, row * WIDTH, WIDTH) + load(w, i64(0), WIDTH)
            store(y, value, row * WIDTH, WIDTH)
    return in_root_block(function.prim_func)


@pytest.mark.parametrize("parallel", [False, True])
def test_every_row_is_computed(parallel: bool):
    rows = tirx.Var("n", "int64")
    arguments = [
        RowArgument((rows, WIDTH), WIDTH),
        RowArgument((WIDTH,), 0),
        RowArgument((rows, WIDTH), WIDTH),
    ]
    func = in_chunks(row_sums(), arguments, rows, CHUNK, parallel=parallel)
    built = tvm.tirx.build(tvm.IRModule({"row_sums": func}), target=target.Target("llvm"))
    w = np.arange(WIDTH, dtype=np.float32)
    for count in (1, 7, 8, 9, 31):
        # Fewer rows than a chunk has want its space behind them.
        space = np.random.default_rng(count).standard_normal((count + CHUNK, WIDTH), np.float32)
        held = tvm.runtime.tensor(space), tvm.runtime.tensor(w), tvm.runtime.tensor(np.zeros_like(space))
        x, y = (tensor._create_view((count, WIDTH)) for tensor in (held[0], held[2]))
        built["row_sums"](x, held[1], y)
        assert np.array_equal(y.numpy(), space[:count] + w)
        assert not held[2].numpy()[max(count, CHUNK) :].any()
