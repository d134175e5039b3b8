# SPDX-License-Identifier: Apache-2.0
"""Bilinear resizes on every family: reference model = functional model = the integer graph on this machine."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import onnx
import pytest

from arm_ext.ethosu.model import run
from arm_ext.ethosu.ops.common.operators import NpuGraph, Operator
from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.parts import claim, grow
from arm_ext.ethosu.partition.read import read
from arm_ext.ethosu.vela.compiler import CompiledPayload, compile_network
from arm_ext.target.npu import ACCELERATORS
from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, OneOperator, random_inputs, weights
from tests.arm_ext.ethosu.ops.resize_models import again, decoder, resized
from tests.fuzz.graphs import Case
from tests.fuzz.npu import integer_graph, npu_outcome_of

U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-512"
EVERY = (U55, U65, U85)


def outcome(model: onnx.ModelProto, npus: tuple[str, ...]) -> None:
    """Assert that a model's resize is exact, and which accelerators take it."""
    graph = read(integer_graph(model)[0])
    (one,) = (op for op in graph.operators if op.kind == "resize")
    assert tuple(npu for npu in EVERY if one in claim(graph, ACCELERATORS[npu])[0]) == npus
    found = npu_outcome_of(Case(model, tuple(random_inputs(model)), (), ()), npus)
    assert found.fault is None
    ran = {name.partition(":")[0] for name in found.definitions if name.endswith(": resize")}
    assert ran == {ACCELERATORS[npu].family for npu in npus}


@pytest.mark.parametrize(
    ("mode", "shape", "size", "npus"),
    [
        ("half_pixel", (2, 17, 9, 8), (18, 16), EVERY),
        ("half_pixel", (1, 3, 7, 31), (21, 93), EVERY),
        ("half_pixel", (1, 3, 8, 7), (32, 14), EVERY),
        ("half_pixel", (1, 3, 2, 9), (16, 72), (U85,)),
        ("half_pixel", (2, 3, 31, 9), (13, 40), (U85,)),
        ("half_pixel", (1, 1, 1, 1), (7, 9), EVERY),
        ("pytorch_half_pixel", (1, 3, 9, 8), (1, 4), (U85,)),
        ("asymmetric", (1, 17, 9, 8), (18, 24), EVERY),
        ("asymmetric", (2, 3, 1, 7), (4, 56), EVERY),
        ("asymmetric", (1, 3, 31, 8), (8, 31), (U85,)),
        ("align_corners", (2, 17, 9, 8), (17, 15), EVERY),
        ("align_corners", (1, 3, 2, 5), (5, 13), EVERY),
        ("align_corners", (1, 3, 7, 8), (14, 16), (U85,)),
    ],
    ids=str,
)
def test_it_is_exact(mode: str, shape: tuple[int, ...], size: tuple[int, int], npus: tuple[str, ...]) -> None:
    outcome(resized(shape, size, mode), npus)


@pytest.mark.parametrize(("zero", "y"), [(127, None), (-128, (5 * SCALE, 11))], ids=str)
def test_zero_points_and_another_scale(zero: int, y: tuple[float, int] | None) -> None:
    outcome(resized((1, 3, 5, 7), (10, 14), "half_pixel", zero=zero, y=y), EVERY)


def joined(one: OneOperator, value: str) -> str:
    """A resize joined with another image, as in a decoder."""
    own = one.node("Conv", one.data(1, 5, 14, 21), one.weight(weights((5, 5, 1, 1))))
    return one.node("Concat", value, again(one, own, 3 * SCALE, ZERO), axis=1)


def padded(one: OneOperator, value: str) -> str:
    """A resize padded with five channels of zeros."""
    return one.node("Pad", value, one.constant([0, 2, 0, 0, 0, 3, 0, 0], "int64"))


@pytest.mark.parametrize("between", [joined, padded])
@pytest.mark.parametrize("shape", [(1, 3, 7, 7), (1, 16, 14, 14)], ids=str)
def test_what_writes_it_into_a_part_of_a_tensor(between: object, shape: tuple[int, ...]) -> None:
    # Rows by 2, columns by 3: one command on U85, and convolutions; by 1 and by 1.5: no whole factors.
    npus = EVERY if shape[2] == 7 else (U85,)
    outcome(resized(shape, (14, 21), "asymmetric", between=between), npus)  # type: ignore[arg-type]


def test_channels_in_front() -> None:
    one = OneOperator()
    sizes = one.constant([2, 3, 14, 10], "int64")
    up = one.node("Resize", one.data(2, 3, 7, 5), "", "", sizes, mode="linear")
    outcome(one.model(one.quantized(up)), EVERY)


@pytest.mark.parametrize("npu", EVERY)
def test_a_decoder_is_one_exact_region(npu: str) -> None:
    model = decoder()
    graph = read(integer_graph(model)[0])
    claimed, refused = claim(graph, ACCELERATORS[npu])
    assert (refused, len(graph.unsupported), len(grow(graph, claimed))) == ({}, 0, 1)
    assert npu_outcome_of(Case(model, tuple(random_inputs(model)), (), ()), [npu]).fault is None


@cache
def alone(mode: str, factors: Sequence[int]) -> tuple[NpuGraph, Operator]:
    size = (9 * factors[0], 8 * factors[1])
    graph = read(integer_graph(resized((1, 17, 9, 8), size, mode))[0])
    return graph, next(op for op in graph.operators if op.kind == "resize")


def compiled(mode: str, factors: Sequence[int], npu: str, family: str | None = None) -> CompiledPayload:
    graph, operator = alone(mode, factors)
    (part,) = grow(graph, [operator])
    network = emit(part.operators, part.inputs, part.outputs, family or ACCELERATORS[npu].family)  # type: ignore[arg-type]
    return compile_network(network, "TOSA", ACCELERATORS[npu])


def test_powers_of_two_are_one_command_on_u85() -> None:
    (layer,) = compiled("half_pixel", (2, 4), U85).layers
    assert layer.operator == "Resize"
    assert "Resize" not in {layer.operator for layer in compiled("half_pixel", (3, 2), U85).layers}


def test_both_forms_give_the_same_values() -> None:
    # U85 also supports the form for the earlier families.
    x = np.random.default_rng(0).integers(-128, 128, (1, 9, 8, 17)).astype(np.int8)
    values = []
    for family in ("u55", "u85"):
        payload = compiled("half_pixel", (2, 4), U85, family).payload
        (value,) = run(payload, [x.reshape(payload.inputs[0].shape)])
        values.append(value)
    np.testing.assert_array_equal(*values)
