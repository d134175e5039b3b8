# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from arm_ext.board import open_board
from schedules import generic
from schedules.cores import A64, X86_64
from schedules.generic.families import GENERIC
from tests.schedules.generic.operators import F32, Shapes, arguments, lowered, run
from tests.schedules.programs import NEON, model_so

IMAGE = (((1, 24, 24, 48), F32),)
BYTES = (((1, 24, 24, 48), "int8"),)
UBYTES = (((1, 24, 24, 48), "uint8"),)
# Sums of up to 576 terms in another order.
BOUND = 2e-6

Function = Callable[..., relax.Expr]


def _max(**window) -> Function:
    return lambda x: op.nn.max_pool2d(x, layout="NHWC", **window)


def _total(x):
    return op.sum(op.astype(x, "int32"), [1, 2])


def _concat(a, b):
    return op.concat([a, b], 3)


def _nchw(x):
    return op.permute_dims(x, [0, 3, 1, 2])


def _shuffled(a, b):
    groups = op.reshape(op.concat([a, b], 3), (1, 24, 24, 2, 48))
    return op.reshape(op.permute_dims(groups, [0, 1, 2, 4, 3]), (1, 24, 24, 96))


def _reflected(x):
    return op.reshape(op.nn.pad(x, (0, 0, 96, 96), pad_mode="reflect"), (1, 704, 1))


def _doubled(x):
    return op.image.resize2d(
        x,
        (48, 48),
        layout="NHWC",
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


# Family, and instructions for 16 elements of the largest tensor, loops and addresses included, at most: a load, a store
# or an operation of binary32 is four of them, of a byte one.
NAMED: dict[str, tuple[str, Function, Shapes, float]] = {
    "row": ("elementwise", op.multiply, (*IMAGE, ((48,), F32)), 10),
    "gate": ("elementwise", op.multiply, (*IMAGE, ((1, 1, 1, 48), F32)), 10),
    "concat": ("elementwise", _concat, (*BYTES, *BYTES), 2),
    # 5, and what runs of rows cost, which threads share.
    "concat f32": ("elementwise", _concat, (*IMAGE, *IMAGE), 5.5),
    # As much as a copy, and a REV64 and an EXT for each four.
    "reversed": ("elementwise", lambda x: op.flip(x, 1), (((64, 96), F32),), 14),
    # For each result two loads, of which every second element is taken.
    "every second": (
        "elementwise",
        lambda x: op.strided_slice(x, [1], [0], [192], [2]),
        (((64, 192), F32),),
        9,
    ),
    "reflect": ("elementwise", _reflected, (((1, 512), F32),), 16),
    "remainder": (
        "elementwise",
        lambda x: op.floor_mod(x, relax.const(16, "int32")),
        (((64, 96), "int32"),),
        14,
    ),
    "nearest": ("elementwise", _doubled, BYTES, 2),
    "max": ("pool", _max(pool_size=(2, 2), strides=(2, 2)), BYTES, 2.5),
    "max f32": ("pool", _max(pool_size=(2, 2), strides=(2, 2)), IMAGE, 8),
    # 9 / 4 of a load and a maximum, and without a copy with its border.
    "max of 3": ("pool", _max(pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1)), BYTES, 4.5),
    "wide max": ("pool", _max(pool_size=(5, 5), strides=(2, 2), padding=(2, 2, 2, 2)), BYTES, 13),
    "mean": ("pool", lambda x: op.mean(x, [1, 2]), IMAGE, 8),
    # 7 operations a rational polynomial, a division and what is around them.
    "max of gelu": ("pool", lambda x: op.max(op.nn.gelu_tanh(x), [1]), (((1, 64, 48), F32),), 170),
    "argmax": ("pool", lambda x: op.argmax(x, 1), IMAGE, 31),
    "total": ("pool", _total, BYTES, 3.5),
    "total of uint8": ("pool", _total, UBYTES, 3.5),
    "transpose": ("transpose", _nchw, BYTES, 7),
    # Two loads and two stores of ST2 for eight, and addresses.
    "shuffle of channels": ("transpose", _shuffled, (*IMAGE, *IMAGE), 11),
    "transpose f32": ("transpose", _nchw, IMAGE, 20),
    "mean of rows": ("reduction", lambda x: op.mean(x, [1]), (((64, 384), F32),), 8),
}


def test_what_has_a_name_is_right_and_takes_few_instructions_on_a_board(tmp_path: Path):
    calls, expected = [], []
    for family, function, shapes, _ in NAMED.values():
        func = lowered(function, *shapes)
        scheduled = generic.schedule(func, A64)
        assert scheduled.kernel == family, scheduled.rejected
        assert scheduled.cycles
        values = arguments(func)
        calls.append((scheduled.func, values[:-1], values[-1].shape, str(values[-1].dtype)))
        expected.append(run([func], values)[0][-1])
    so = model_so(tmp_path / "model.so", calls, NEON)
    inputs = [value for _, values, _, _ in calls for value in values]
    with open_board("virtual", profile_cpu="max,sve=off,sme=off", counting=True) as board:
        model = board.load(so)
        actual, trace = model.run(inputs), model.count(inputs)
    counts: Counter[str] = Counter()
    for block in trace.blocks:
        counts[block.symbol.removesuffix("_compute_")] += block.instructions
    for index, name in enumerate(NAMED):
        a, e = actual[index], expected[index]
        bound = BOUND * np.abs(e).max() if e.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, e, rtol=0, atol=bound, err_msg=name)
        largest = max(value.size for value in (*calls[index][1], a))
        assert 0 < counts[f"kernel_{index}"] <= NAMED[name][3] * largest / 16, name


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_sums_of_many_extreme_bytes_do_not_wrap(dtype: str):
    """More than 16 bits hold, in numbers that leave a rest of every kind."""
    for rows in (3, 4, 251, 252, 253, 507, 1100):
        func = lowered(lambda x: op.sum(op.astype(x, "int32"), [0]), ((rows, 33), dtype))
        scheduled = generic.schedule(func, X86_64)
        for extreme in (np.iinfo(dtype).min, np.iinfo(dtype).max):
            x = np.full((rows, 33), extreme, dtype)
            ((_, actual),) = run([scheduled.func], [x, np.zeros(33, np.int32)])
            np.testing.assert_array_equal(actual, x.sum(0, dtype=np.int32))


GENERIC_CASES: dict[str, tuple[Function, Shapes, str]] = {
    "product": (op.matmul, (((9, 40), F32), ((40, 31), F32)), "it multiplies what it reduces"),
    "gather": (
        lambda x: op.strided_slice(x, [1], [0], [96], [3]),
        (((64, 96), F32),),
        "it gathers single elements",
    ),
    "short rows": (lambda x: op.mean(x, [1]), (((64, 12), F32),), "rows are short"),
    "short runs": (
        lambda a, b: op.concat([a, b], 1),
        (((64, 3), "int8"), ((64, 5), "int8")),
        "vectors are shorter than a register",
    ),
    "sine": (op.sin, (((64, 64), F32),), "sin has no vector code"),
}


@pytest.mark.parametrize("name", GENERIC_CASES)
def test_what_is_not_vectors_from_end_to_end_is_generic_and_says_why(name: str):
    function, shapes, reason = GENERIC_CASES[name]
    scheduled = generic.schedule(lowered(function, *shapes), A64)
    assert scheduled.kernel == GENERIC
    assert reason in {rejection.reason for rejection in scheduled.rejected}


def test_halves_of_a_split_are_vectors():
    scheduled = generic.schedule(lowered(lambda x: op.split(x, 2, 2), ((1, 61, 288), "int8")), A64)
    assert (scheduled.kernel, scheduled.done) == ("elementwise", "rows of 61: vectors of 16")
