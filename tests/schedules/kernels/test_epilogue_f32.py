# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64, kernel_function, load, store
from schedules.kernels import epilogue_f32
from schedules.workload import Operand, Step
from tests.schedules.programs import run_on_host

WIDTH = 8


def row(steps: tuple[Step, ...], columns: int) -> tirx.PrimFunc:
    """Takes a row of accumulators, then the residual, through the epilogue."""
    shapes = [((WIDTH,), "float32"), ((columns,), "float32"), ((columns,), "float32")]
    with kernel_function("row", shapes) as function:
        source, residual, output = function.buffers
        acc = T.alloc_buffer((WIDTH,), "float32", layout=None)
        for at in range(0, WIDTH, 4):
            store(acc, load(source, i64(at), 4), i64(at), 4)
        epilogue_f32.finish(steps, acc, 0, columns, output, i64(0), residual)
    return function.prim_func


@pytest.mark.parametrize("columns", range(1, WIDTH + 1))
def test_every_number_of_columns(columns: int):
    acc = np.array([-3, 2, -0.5, 7, 1, -1, 4, 5], np.float32)
    residual = np.linspace(-1, 1, columns).astype(np.float32)
    steps = (
        Step("residual", Operand((columns,), "float32", "input", 1)),
        Step("relu"),
        Step("clip", bounds=(0, 4)),
    )
    actual = run_on_host(row(steps, columns), [acc, residual], (columns,), "float32")
    np.testing.assert_array_equal(actual, np.clip(acc[:columns] + residual, 0, 4))


def test_steps_apply_in_their_order():
    acc, residual = np.full(WIDTH, -2, np.float32), np.ones(WIDTH, np.float32)
    add, relu = Step("residual", Operand((WIDTH,), "float32", "input", 1)), Step("relu")
    assert run_on_host(row((relu, add), WIDTH), [acc, residual], (WIDTH,), "float32").tolist() == [1] * WIDTH
    assert run_on_host(row((add, relu), WIDTH), [acc, residual], (WIDTH,), "float32").tolist() == [0] * WIDTH


def test_unknown_step():
    with pytest.raises(ValueError, match="'gelu' is not implemented for float32"):
        row((Step("gelu"),), 4)
