# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
from tvm import relax, tirx
from tvm.ir import Expr

from relay_passes.rules.unflatten_transpose import RULE
from tests.relay_passes.forms import Ops, check_rewrite, form, refusal

Write = Callable[[Ops, Expr], Expr]


def _turn(flat: tuple[int, ...], out: tuple[int, ...], axes: list[int] | None = None) -> Write:
    return lambda ops, x: ops.reshape(ops.permute_dims(ops.reshape(x, flat), axes or [0, 2, 1]), out)


@pytest.mark.parametrize(
    ("shape", "flat", "out"),
    [
        ((1, 2, 7, 9), (2, 7, 9), (1, 2, 9, 7)),
        ((3, 2, 7, 9), (6, 7, 9), (3, 2, 9, 7)),
        ((1, 3, 2, 7, 9), (6, 7, 9), (1, 3, 2, 9, 7)),
        ((7, 9), (1, 7, 9), (9, 7)),
        # A square matrix is told from its transpose by the axes alone.
        ((2, 3, 7, 7), (6, 7, 7), (2, 3, 7, 7)),
    ],
)
def test_values_are_kept(shape: tuple[int, ...], flat: tuple[int, ...], out: tuple[int, ...]) -> None:
    check_rewrite(form(_turn(flat, out), shape), RULE, ["permute_dims"], tolerance=0)


def _shared(ops: Ops, x: Expr) -> Expr:
    flat = ops.reshape(x, (6, 7, 7))
    return ops.add(
        ops.reshape(ops.permute_dims(flat, [0, 2, 1]), (2, 3, 7, 7)), ops.reshape(flat, (2, 3, 7, 7))
    )


NEAR_MISSES: dict[str, Write] = {
    "the permutation does not swap the last two of three axes (expected [0, 2, 1], found [1, 0, 2])": _turn(
        (6, 7, 7), (2, 3, 7, 7), [1, 0, 2]
    ),
    "the first reshape changes the matrices (expected (7, 7), found (21, 7))": _turn(
        (2, 21, 7), (2, 3, 7, 7)
    ),
    "the second reshape does not undo the first (expected (2, 3, 7, 7), found (3, 2, 7, 7))": _turn(
        (6, 7, 7), (3, 2, 7, 7)
    ),
    "reshape is also needed by reshape": _shared,
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (2, 3, 7, 7)), RULE) == reason


def test_symbolic_shapes_are_left() -> None:
    heads = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((1, heads, 7, 9), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            turned = bb.emit(relax.op.permute_dims(bb.emit(relax.op.reshape(x, (heads, 7, 9))), [0, 2, 1]))
            out = bb.emit_output(relax.op.reshape(turned, (1, heads, 9, 7)))
        bb.emit_func_output(out)
    assert refusal(bb.finalize(), RULE) == "shape is not static"
