# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Operand, Step
from schedules.kernels.epilogues import activation_f32, epilogue_f32
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import run_on_host

WIDTH = 8


def row(steps: tuple[Step, ...], columns: int) -> tirx.PrimFunc:
    """Takes a row of accumulators through the epilogue, with a residual that is also the slopes."""
    shapes = [((WIDTH,), "float32"), ((columns,), "float32"), ((columns,), "float32")]
    with kernel_function("row", shapes) as function:
        source, residual, output = function.buffers
        acc = T.alloc_buffer((WIDTH,), "float32", layout=None)
        for at in range(0, WIDTH, 4):
            store(acc, load(source, i64(at), 4), i64(at), 4)
        epilogue_f32.finish(steps, acc, 0, columns, output, i64(0), residual, (residual, i64(0)))
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


@pytest.mark.parametrize("columns", [1, 4, 7])
def test_leaky_relu(columns: int):
    acc = np.array([-3, 2, -0.5, 0, 1, np.nan, -4, 5], np.float32)
    step = Step("leaky_relu", parameters=(("alpha", -0.5),))
    residual = np.zeros(columns, np.float32)
    actual = run_on_host(row((step,), columns), [acc, residual], (columns,), "float32")
    np.testing.assert_array_equal(actual, np.where(acc > 0, acc, acc * np.float32(-0.5))[:columns])


@pytest.mark.parametrize("columns", [1, 4, 7])
def test_prelu(columns: int):
    acc = np.array([-3, 2, -0.5, 0, 1, np.nan, -4, -np.inf], np.float32)
    slopes = np.linspace(-0.5, 0.7, columns).astype(np.float32)
    step = Step("prelu", Operand((columns,), "float32", "constant", 1))
    actual = run_on_host(row((step,), columns), [acc, slopes], (columns,), "float32")
    np.testing.assert_array_equal(actual, np.where(acc > 0, acc, acc * np.resize(slopes, WIDTH))[:columns])


@pytest.mark.parametrize("name", activation_f32.FUNCTIONS)
def test_activations_are_steps(name: str):
    acc = np.array([-3, 2, -0.5, 7, 1, -1, 4, 5], np.float32)
    whole = run_on_host(row((Step(name),), WIDTH), [acc, acc], (WIDTH,), "float32")
    part = run_on_host(row((Step(name),), 7), [acc, acc[:7]], (7,), "float32")
    np.testing.assert_array_equal(part, whole[:7])
    assert whole[0] != acc[0]


def test_every_step_has_a_cost():
    steps = tuple(Step(name) for name in epilogue_f32.INSTRUCTIONS)
    assert epilogue_f32.instructions(()) == 0.5
    assert epilogue_f32.instructions(steps) == 0.5 + sum(epilogue_f32.INSTRUCTIONS.values())


def test_unknown_step():
    with pytest.raises(ValueError, match="'softmax' is not implemented for float32"):
        row((Step("softmax"),), 4)
