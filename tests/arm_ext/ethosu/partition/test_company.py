# SPDX-License-Identifier: Apache-2.0
"""Operators that Vela miscompiles next to others stay exact, by workarounds in emission."""

import numpy as np
import pytest

from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, OneOperator, random_inputs, weights
from tests.fuzz.graphs import Case
from tests.fuzz.npu import npu_outcome_of

NPUS = ("ethos-u55-32", "ethos-u65-512", "ethos-u85-128")


def behind(one: OneOperator, real: str, scale: float, zero: int = ZERO) -> str:
    """Return a value after a quirk of its consumer."""
    return one.dequantized(one.quantized(real, scale, zero), scale, zero, "int8")


def assert_exact(one: OneOperator, *outputs: str, dtype: str = "int8") -> None:
    model = one.model(*outputs, dtype=dtype)
    outcome = npu_outcome_of(Case(model, tuple(random_inputs(model)), (), ()), NPUS)
    assert outcome.fault is None
    assert not any("Vela" in reason for reason in outcome.hits)


@pytest.mark.parametrize(("shape", "op"), [((1, 5, 3, 3), "Conv"), ((15, 1, 3, 3), "ConvTranspose")])
def test_equal_weights_with_other_biases(shape: tuple[int, ...], op: str):
    one = OneOperator()
    data, weight = one.data(1, 15, 8, 4), np.full((3, *shape[1:]) if op == "Conv" else shape, 100, np.int8)
    grouped = {"group": 3} if op == "Conv" else {}
    made = [
        one.node(op, data, one.weight(weight), one.constant(bias), **grouped)
        for bias in (
            np.array([1.0, -2.0, 3.0])[: 3 if grouped else 1],
            np.array([4.0, 0.0, -5.0])[: 3 if grouped else 1],
        )
    ]
    assert_exact(one, *(one.quantized(value, 0.5) for value in made))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_padded_pool_of_great_strides_over_a_part(op: str):
    one = OneOperator()
    data = one.data(3, 3, 8, 21)
    pooled = one.node(op, data, kernel_shape=[3, 3], pads=[1, 0, 1, 0], strides=[1, 4])
    beside = one.node("Conv", data, one.weight(weights((5, 3, 1, 1))))
    assert_exact(one, one.quantized(pooled, SCALE), one.quantized(beside, 0.5))


@pytest.mark.parametrize("op", ["Min", "Max"])
def test_an_extremum_with_a_repeated_operand(op: str):
    one = OneOperator()
    assert_exact(
        one, one.quantized(one.node(op, one.data(2, 3, 5, 8), one.data(2, 3, 5, 1, scale=0.03)), 0.05, ZERO)
    )


def test_a_resize_to_the_same_size():
    one = OneOperator()
    data = one.data(1, 8, 21, 21)
    ways = {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    assert_exact(one, one.quantized(one.node("Resize", data, "", one.constant([1, 1, 1, 1]), **ways)))


@pytest.mark.parametrize("axis", [0, 2])
def test_a_mean_of_one_before_an_extremum_over_channels(axis: int):
    one = OneOperator()
    convolved = one.node("Conv", one.data(1, 3, 1, 1), one.weight(weights((17, 3, 1, 1))))
    mean = one.node("ReduceMean", behind(one, convolved, 0.5, 0), axes=[axis], keepdims=1)
    most = one.node("ReduceMax", behind(one, mean, 0.4, 0), axes=[1])
    assert_exact(one, one.quantized(most, 0.4, 0))


def test_tables_of_16_bits_through_products_and_sums():
    one, wide, step = OneOperator(), "int16", 2.0**-15

    def behind16(real: str) -> str:
        return one.dequantized(one.quantized(real, step, 0, wide), step, 0, wide)

    first = behind16(one.node("Tanh", one.data(3, 31, scale=step, zero=0, dtype=wide)))
    cube = behind16(one.node("Mul", behind16(one.node("Mul", first, first)), first))
    last = one.node("Sigmoid", behind16(one.node("Add", behind16(one.node("Erf", cube)), first)))
    assert_exact(one, one.quantized(one.node("Mul", behind16(last), first), step, 0, wide), dtype=wide)


def test_a_table_behind_a_convolution_in_parts():
    one = OneOperator()
    data, weight = one.data(1, 8, 21, 8), one.weight(weights((16, 1, 2, 5)))
    convolved = one.node("Conv", data, weight, group=8, strides=[1, 3])
    assert_exact(one, one.quantized(one.node("Tanh", behind(one, convolved, 0.05)), 0.01, ZERO))
