# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import ir, relax, tirx
from tvm.relax.op.nn import conv1d

from schedules.composites.one_axis import widened
from schedules.composites.vocabulary import CONV1D
from schedules.cores import CORES
from schedules.lowering.lower import Lowered, lower
from schedules.lowering.parse import parse
from schedules.select import Rejected
from tests.schedules.composite_functions import composite, constant, tensor
from tests.schedules.programs import Array, host, run_on_host

SPEC = next(spec for spec in CONV1D if spec.name == "arm.conv1d")
LAYOUTS = {"data_layout": "NWC", "kernel_layout": "OWI", "out_layout": "NWC"}
X, W, BIAS = (2, 19, 6), (8, 5, 3), (1, 1, 8)
WINDOW = {"strides": 2, "padding": (3, 1), "dilation": 2, "groups": 2}


def convolution(**window: object) -> relax.Function:
    """Convolution, bias, residual."""
    weights, bias = constant(W), constant(BIAS, 1)

    def anchor(_value: ir.Expr, x: ir.Var, _residual: ir.Var) -> ir.Expr:
        return conv1d(x, weights, **window)

    shape = (2, 8, 8)
    return composite(
        (tensor(X), tensor(shape)),
        anchor,
        lambda value, _x, _r: relax.op.add(value, bias),
        lambda value, _x, r: relax.op.add(value, r),
        name=SPEC.name,
    )


def expected(x: Array, residual: Array) -> Array:
    w, bias = constant(W).value.numpy(), constant(BIAS, 1).value.numpy()
    x = np.pad(x, ((0, 0), (3, 1), (0, 0)))
    total = np.zeros((2, 8, 8))
    for group, tap in np.ndindex(2, 5):
        seen = x[:, 2 * tap : 2 * tap + 15 : 2, 3 * group : 3 * group + 3]
        total[:, :, 4 * group : 4 * group + 4] += seen @ w[4 * group : 4 * group + 4, tap].T
    return total + bias + residual


def test_it_is_lowered_as_it_is_called():
    lowered = lower(convolution(**WINDOW, **LAYOUTS), host(), CORES["neoverse-n2"])
    assert isinstance(lowered, Lowered)
    shapes = [tuple(int(size) for size in param.ty.shape) for param in lowered.func.params]
    assert shapes[:2] == [X, (2, 8, 8)]
    assert shapes[-1] == (2, 8, 8)
    rng = np.random.default_rng(3)
    x, residual = (rng.normal(size=shape).astype(np.float32) for shape in (X, (2, 8, 8)))
    func = lowered.func.without_attr("target")
    assert isinstance(func, tirx.PrimFunc)
    actual = run_on_host(func, [x, residual, *lowered.constants], (2, 8, 8), "float32")
    np.testing.assert_allclose(actual, expected(x, residual), atol=1e-5)


def test_an_axis_of_length_1_that_stays_as_it_is():
    parsed = parse(convolution(**WINDOW, **LAYOUTS), SPEC)
    wide = widened(parsed).workload
    assert wide.composite == "arm.conv2d"
    assert [operand.shape for operand in wide.operands] == [(2, 1, 19, 6), (8, 1, 5, 3)]
    assert [step.operand.shape for step in wide.epilogue if step.operand] == [(1, 1, 1, 8), (2, 1, 8, 8)]
    assert wide.output_shape == (2, 1, 8, 8)
    attributes = dict(wide.attributes)
    assert attributes["strides"] == "[1, 2]"
    assert attributes["dilation"] == "[1, 2]"
    assert attributes["padding"] == "[0, 3, 0, 1]"
    assert (attributes["data_layout"], attributes["kernel_layout"]) == ("NHWC", "OHWI")
    assert [value.shape for value in widened(parsed).constants] == [(8, 1, 5, 3), (1, 1, 1, 8)]


def test_two_axes_are_left_alone():
    parsed = parse(convolution(**WINDOW, **LAYOUTS), SPEC)
    wide = widened(parsed)
    assert widened(wide) is wide


def test_a_refusal_names_the_layout_of_two_axes():
    weights = constant((8, 6, 5))

    def anchor(_value: ir.Expr, x: ir.Var) -> ir.Expr:
        return conv1d(x, weights)

    answer = lower(composite((tensor((2, 6, 19)),), anchor, name=SPEC.name), host(), CORES["neoverse-n2"])
    assert isinstance(answer, Rejected)
    assert any(rejection.actual == "NCHW, OIHW, NCHW" for rejection in answer.rejections), answer


@pytest.mark.parametrize("spec", CONV1D, ids=lambda spec: spec.name)
def test_each_has_a_twin_of_two_axes(spec: object):
    assert spec.anchor in ("relax.nn.conv1d", "qdq.conv1d_dynamic")
    assert "conv1d" in spec.name
