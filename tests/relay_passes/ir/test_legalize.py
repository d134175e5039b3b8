# SPDX-License-Identifier: Apache-2.0
import math

import ml_dtypes  # noqa: F401 (numpy then knows bfloat16)
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.legalize import legalize
from tests.relay_passes.graphs import Net, inputs_of, run, tensor

_PLACES = [2, 0, 1]


@pytest.mark.parametrize("mode", ["fast", "clip"])
@pytest.mark.parametrize(
    ("shape", "axis", "places"),
    [
        ((4, 7), 0, _PLACES),
        ((3, 4, 5), 1, _PLACES),
        ((4, 7), -1, [_PLACES]),
        ((4, 7), 1, 3),
        ((7,), None, _PLACES),
    ],
)
def test_takes_are_numpys_and_say_nothing(
    shape: tuple[int, ...], axis: int | None, places: object, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    net, x = Net(), tensor("x", *shape)
    indices = np.array(places, np.int64)
    mod = net.module([x], lambda: net.emit("take", op.take(x, relax.const(indices), axis, mode)))
    lowered = legalize(mod)
    assert capfd.readouterr() == ("", "")
    (data,) = inputs_of(mod)
    np.testing.assert_array_equal(run(lowered, data), np.take(data, indices, axis))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 2.5])
def test_tensors_are_filled(value: float):
    net, x = Net(), tensor("x", 3, 7)
    number = relax.const(value, "float32")

    def sums() -> relax.Var:
        like = net.emit("like", op.full_like(x, number))
        return net.emit("sum", op.add(net.emit("full", op.full((3, 7), number, "float32")), like))

    mod = net.module([x], sums)
    np.testing.assert_array_equal(run(legalize(mod), *inputs_of(mod)), np.full((3, 7), 2 * value, np.float32))


def test_functions_that_tvm_has_for_other_types_alone():
    net, x = Net(), tensor("x", 3, 7)

    def values() -> relax.Var:
        wide, narrow, whole = (op.astype(x, dtype) for dtype in ("float64", "bfloat16", "uint32"))
        half = relax.const(0.5, "bfloat16")
        calls = (
            op.erf(wide),
            op.nn.gelu(wide),
            *(of(op.abs(narrow), half) for of in (op.power, op.mod, op.log_add_exp)),
            op.negative(whole),
            op.sign(whole),
        )
        return net.emit("stack", op.stack([op.astype(call, "float32") for call in calls]))

    mod = net.module([x], values)
    (data,) = np.floor(np.abs(inputs_of(mod)) * 4).astype(np.float32)
    erf = np.vectorize(math.erf)
    gelu = data * (erf(data / math.sqrt(2)) + 1) / 2
    wanted = (
        erf(data),
        gelu,
        np.sqrt(data),
        np.fmod(data, 0.5),
        np.logaddexp(data, 0.5),
        -data.astype(np.uint32),
        np.sign(data),
    )
    for found, value in zip(run(legalize(mod), data), wanted, strict=True):
        np.testing.assert_allclose(found, value.astype(np.float32), rtol=2**-8)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_nan_and_infinity_are_found(dtype: str):
    net, x = Net(), tensor("x", 1, 5, dtype=dtype)

    def tests() -> relax.Var:
        calls = op.isnan(x), op.isinf(x), op.isfinite(x), op.equal(x, x), op.not_equal(x, x)
        return net.emit("stack", op.stack([op.astype(call, "int8") for call in calls]))

    data = np.array([[1, np.nan, np.inf, -np.inf, 0]]).astype(np.dtype(dtype))
    is_nan, is_inf = np.isnan(data), np.isinf(data)
    wanted = [is_nan, is_inf, ~(is_nan | is_inf), ~is_nan, is_nan]
    (found,) = run_on_host(net.module([x], tests), [data])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_samples_of_a_grid_have_the_dtype_of_their_data(dtype: str):
    net, x, grid = Net(), tensor("x", 1, 1, 3, 3, dtype=dtype), tensor("grid", 1, 2, 1, 3, dtype=dtype)
    mod = net.module([x, grid], lambda: net.emit("sample", op.image.grid_sample(x, grid, align_corners=True)))
    data = np.arange(9).reshape(1, 1, 3, 3).astype(np.dtype(dtype))
    places = np.array([[-1, 0, 1], [1, 0, -1]]).reshape(1, 2, 1, 3).astype(data.dtype)
    (found,) = run_on_host(mod, [data, places])
    np.testing.assert_array_equal(
        found, np.array([6, 4, 2]).reshape(1, 1, 1, 3).astype(data.dtype), strict=True
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_batch_norms_of_halves_are_halves(dtype: str):
    net, x = Net(), tensor("x", 1, 2, 3, dtype=dtype)
    mean, variance = relax.const([1.0, -1.0], dtype), relax.const([4.0, 0.25], dtype)

    def normalized() -> relax.Var:
        ones = relax.const([1.0, 1.0], dtype)
        norm = op.nn.batch_norm(x, ones, ones, mean, variance, axis=1, epsilon=0.0, training=False)
        return net.emit("norm", relax.TupleGetItem(net.bb.emit(norm), 0))

    data = np.array([[[3, 1, -1], [0, -1, 1]]]).astype(np.dtype(dtype))
    wanted = np.array([[[2, 1, 0], [3, 1, 5]]]).astype(data.dtype)
    (found,) = run_on_host(net.module([x], normalized), [data])
    np.testing.assert_array_equal(found, wanted, strict=True)


def test_rows_by_constant_indices_are_fused():
    assert _kernels(0, _PLACES) == ["fused_take_multiply"]


@pytest.mark.parametrize(
    ("axis", "places"),
    [(1, _PLACES), (0, [_PLACES]), (0, [2, 4])],
    ids=["elements", "not a vector", "out of bounds"],
)
def test_other_takes_are_kernels_of_their_own(axis: int, places: object):
    assert _kernels(axis, places) == ["multiply", "take"]


def _kernels(axis: int, places: object) -> list[str]:
    net, x = Net(), tensor("x", 4, 7)
    indices = relax.const(np.array(places, np.int64))

    def doubled() -> relax.Var:
        taken = net.emit("take", op.take(x, indices, axis, "clip"))
        return net.emit("multiply", op.multiply(taken, relax.const(2.0, "float32")))

    mod = relax.transform.AnnotateTIROpPattern()(legalize(net.module([x], doubled)))
    fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))
    return sorted(gvar.name_hint for gvar in fused.functions if gvar.name_hint != "main")
