# SPDX-License-Identifier: Apache-2.0
import numpy as np
from tvm import relax
from tvm.relax import op

from relay_passes import to_nhwc
from relay_passes.ir.verify import verify
from tests.relay_passes.graphs import operators
from tests.relay_passes.layout.nets import Cnn, net, pixels, run_all


def test_outputs_are_as_in_the_model_wherever_they_come_from():
    def body(n: Cnn, x: relax.Var) -> relax.Var:
        inner = n.conv(x, 8)
        parts = n.then(op.split(n.conv(inner, 6), 2, axis=1))
        pooled = n.then(op.sum(inner, [2, 3]))
        return n.bb.emit(relax.Tuple([inner, n.item(parts, 1), n.item(parts, 0), x, inner, pooled]))

    mod = net(body)
    out, kept = to_nhwc(mod)
    verify(out, after="to_nhwc")
    assert kept == ()
    # The input, `inner` once though it is returned twice, and what is split rather than its parts.
    assert operators(out["main"]).count("permute_dims") == 3
    for got, expected in zip(run_all(out, pixels()), run_all(mod, pixels()), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_constant_that_two_calls_share_is_put_in_each_form_once():
    weight = relax.const(np.ones((8, 8, 3, 3), "int8"))
    scale, zero = relax.const(np.float32(1)), relax.const(np.int8(0))

    def body(n: Cnn, x: relax.Var) -> relax.Var:
        w = n.then(op.dequantize(weight, scale, zero))
        return n.then(op.nn.conv2d(n.then(op.nn.conv2d(x, w, padding=1)), w, padding=1))

    mod = net(body)
    out, _ = to_nhwc(mod)
    assert operators(out["main"]).count("dequantize") == 1


def test_functions_keep_their_attributes_and_parameters():
    mod = net(lambda n, x: n.conv(x, 5))
    mod["main"] = mod["main"].with_attr("num_input", 1)
    out, _ = to_nhwc(mod)
    assert int(out["main"].attrs["num_input"]) == 1
    assert [param.name for param in out["main"].params] == ["x"]
    assert list(out["main"].ret_ty.shape) == list(mod["main"].ret_ty.shape)
