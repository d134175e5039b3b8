# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax, tirx

from relay_passes.integerize.values import Bounds, Quantized, clamped, narrow, static_shape
from tests.relay_passes.graphs import tensor


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((None, None), (0.0, 6.0)),
        ((0.0, None), (None, 6.0)),
        ((0.0, 6.0), (1.0, 3.0)),
        ((0.0, 6.0), (7.0, 9.0)),
        ((-4.0, -2.0), (0.0, None)),
        ((5.0, 6.0), (None, 1.0)),
    ],
)
def test_two_clamps_are_one(first: Bounds, then: Bounds):
    def clamp(value: np.ndarray, bounds: Bounds) -> np.ndarray:
        low, high = bounds
        value = value if low is None else np.maximum(value, low)
        return value if high is None else np.minimum(value, high)

    values = np.linspace(-12, 12, 97)
    np.testing.assert_array_equal(clamp(values, clamped(first, *then)), clamp(clamp(values, first), then))


def test_narrow_keeps_the_axes_that_vary():
    scale = np.broadcast_to(np.array([1, 2, 3]).reshape(1, 3, 1), (2, 3, 7))
    assert narrow(scale).shape == (1, 3, 1)
    assert narrow(np.ones((2, 3))).shape == (1, 1)


def test_quantized_tells_what_it_knows():
    scale, zero = np.float32([0.5]), np.array([3])
    x = Quantized(tensor("x", 7, 9, dtype="uint8"), scale, zero, ())
    assert x.per_tensor is not None
    assert (x.per_tensor.scale, x.per_tensor.zero_point, x.per_tensor.dtype) == (0.5, 3, "uint8")
    assert (x.shape, x.magnitude, x.constant) == ((7, 9), 255, None)
    w = Quantized(relax.const(np.int8([1, 2])), np.float32([0.5, 1]), zero, ())
    assert w.per_tensor is None
    assert w.magnitude == 128
    assert w.constant is not None


def test_shape_must_be_static():
    with pytest.raises(ValueError, match="no static shape"):
        static_shape(relax.Var("x", relax.TensorType([tirx.Var("n", "int64"), 3], "int8")))
