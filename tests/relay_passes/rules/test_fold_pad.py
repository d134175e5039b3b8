# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from tvm.ir import Expr

from relay_passes.ir.sources import bindings_of
from relay_passes.rewriter.engine import apply_rule, explain
from relay_passes.rules.fold_pad import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, imported, refusal
from tests.relay_passes.graphs import run

INF = float("inf")
SHAPE, SHAPE_NHWC = (1, 3, 9, 7), (1, 9, 7, 3)
WIDTHS, WIDTHS_NHWC = [0, 0, 0, 0, 1, 0, 2, 1], [0, 0, 1, 0, 2, 1, 0, 0]
Write = Callable[[Ops, Expr], Expr]


def _weight(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, shape)


def _pad(ops: Ops, x: Expr, widths: list[int] = WIDTHS, value: float = 0.0, mode: str = "constant") -> Expr:
    return ops("nn.pad", x, widths, mode, value)


def _conv(padded: Callable[[Ops, Expr], Expr]) -> Write:
    return lambda ops, x: ops("nn.conv2d", padded(ops, x), _weight(8, 3, 3, 3), strides=2, padding=(0, 1))


def _max(padded: Callable[[Ops, Expr], Expr], **attrs: object) -> Write:
    return lambda ops, x: ops("nn.max_pool2d", padded(ops, x), pool_size=(3, 3), **attrs)


def _average(padded: Callable[[Ops, Expr], Expr], **attrs: object) -> Write:
    return lambda ops, x: ops("nn.avg_pool2d", padded(ops, x), pool_size=(3, 3), **attrs)


def _below(ops: Ops, x: Expr) -> Expr:
    return _pad(ops, x, value=-INF)


def _conv_nhwc(ops: Ops, x: Expr) -> Expr:
    padded = _pad(ops, x, WIDTHS_NHWC)
    return ops(
        "nn.conv2d", padded, _weight(8, 3, 3, 3), padding=(0, 1), data_layout="NHWC", kernel_layout="OHWI"
    )


def _conv1d(ops: Ops, x: Expr) -> Expr:
    return ops("nn.conv1d", _pad(ops, x, [0, 0, 0, 0, 2, 1]), _weight(8, 3, 3), padding=1)


FORMS: dict[str, tuple[tuple[int, ...], Write, str, list[int]]] = {
    "conv2d": (SHAPE, _conv(_pad), "nn.conv2d", [1, 3, 0, 2]),
    "conv2d, NHWC": (SHAPE_NHWC, _conv_nhwc, "nn.conv2d", [1, 3, 0, 2]),
    "conv1d": ((1, 3, 9), _conv1d, "nn.conv1d", [3, 2]),
    "max_pool2d": (SHAPE, _max(_below), "nn.max_pool2d", [1, 2, 0, 1]),
    "max_pool2d of the lowest number": (
        SHAPE,
        _max(lambda ops, x: _pad(ops, x, value=float(np.finfo("float32").min))),
        "nn.max_pool2d",
        [1, 2, 0, 1],
    ),
    "max_pool2d, NHWC": (
        SHAPE_NHWC,
        _max(lambda ops, x: _pad(ops, x, WIDTHS_NHWC, -INF), layout="NHWC", strides=2),
        "nn.max_pool2d",
        [1, 2, 0, 1],
    ),
    "avg_pool2d": (SHAPE, _average(_pad), "nn.avg_pool2d", [1, 2, 0, 1]),
    "avg_pool2d that counts its own padding": (
        SHAPE,
        _average(_pad, padding=1, count_include_pad=True),
        "nn.avg_pool2d",
        [2, 3, 1, 2],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    shape, write, operator, padding = FORMS[name]
    mod = form(write, shape)
    # Zeros that are added in another place of a sum change nothing.
    check_rewrite(mod, RULE, [operator], tolerance=0)
    attrs = bindings_of(apply_rule(mod, RULE)[0]["main"])[0].value.attrs
    assert [int(n) for n in attrs.padding] == padding


def test_padding_is_below_negative_values() -> None:
    mod = form(_max(_below), SHAPE)
    x = np.random.default_rng(1).uniform(-8, -4, SHAPE).astype("float32")
    np.testing.assert_array_equal(run(apply_rule(mod, RULE)[0], x), run(mod, x))


def test_from_onnx() -> None:
    nodes = [
        helper.make_node("Pad", ["x", "widths"], ["p"]),
        helper.make_node("Conv", ["p", "w"], ["y"], strides=[2, 2]),
    ]
    weights = {"widths": np.array([0, 0, 0, 0, 0, 0, 1, 1]), "w": _weight(8, 3, 3, 3).astype("float32")}
    check_rewrite(imported(nodes, SHAPE, 13, weights), RULE, ["nn.conv2d"], tolerance=0)


def _shared(ops: Ops, x: Expr) -> Expr:
    padded = _pad(ops, x)
    conv = ops("nn.conv2d", padded, _weight(3, 3, 3, 3), padding=1)
    return ops.add(conv, padded)


NEAR_MISSES: dict[str, Write] = {
    "pad mode is not constant (expected constant, found reflect)": _conv(
        lambda ops, x: _pad(ops, x, mode="reflect")
    ),
    "an axis that is not spatial is padded (expected 0, found {'N': (0, 0), 'C': (0, 1)})": _max(
        lambda ops, x: _pad(ops, x, [0, 0, 0, 1, 0, 0, 0, 0], -INF)
    ),
    "pad value is not 0 (expected 0, found 1.0)": _conv(lambda ops, x: _pad(ops, x, value=1.0)),
    "the average counts the pad, and not its own padding": _average(_pad, padding=1),
    "ceil_mode counts the pad by rules of its own": _average(_pad, strides=2, ceil_mode=True),
    "pad value is not -inf (expected -3.4028234663852886e+38, found 0.0)": _max(_pad),
    "a window may lie in the padding alone (expected [3, 3], found [3, 0, 0, 0])": _max(
        lambda ops, x: _pad(ops, x, [0, 0, 0, 0, 3, 0, 0, 0], -INF)
    ),
    "pad is also needed by add": _shared,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], SHAPE), RULE).replace("nn.pad", "pad") == reason


def test_a_pad_before_something_else_is_left() -> None:
    mod = form(lambda ops, x: ops("nn.relu", _pad(ops, x)), SHAPE)
    assert explain(mod, RULE).applied == ()
