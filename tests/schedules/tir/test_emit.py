# SPDX-License-Identifier: Apache-2.0
import numpy as np

from schedules.tir.emit import i64, kernel_function, load, store, take
from tests.schedules.programs import run_on_host


def test_kernel_function_takes_shaped_tensors_and_gives_flat_views():
    with kernel_function("reverse_pairs", [((2, 3), "int16"), ((3, 2), "int16")]) as function:
        source, output = function.buffers
        for at in (0, 2, 4):
            pair = load(source, i64(at), 2)
            store(output, take(pair, 1, 1), i64(at), 1)
            store(output, take(pair, 0, 1), i64(at + 1), 1)
    func = function.prim_func
    assert func.attrs["global_symbol"] == "reverse_pairs"
    assert func.attrs["tirx.noalias"]
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert run_on_host(func, [values], (3, 2), "int16").tolist() == [[1, 0], [3, 2], [5, 4]]
