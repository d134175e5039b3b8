# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
from tvm import relax
from tvm.ir import Expr

from relay_passes.rules.recognize_extremum import RULE
from tests.relay_passes.forms import check_rewrite, form, refusal

Write = Callable[..., Expr]
FORMS: dict[str, tuple[list[str], Write]] = {
    "two": (["maximum"], lambda ops, *x: ops.max(ops.stack(x[:2], axis=0), axis=0)),
    "three": (["minimum", "minimum"], lambda ops, *x: ops.min(ops.stack(x, axis=0), axis=[0])),
    "another axis": (["maximum"], lambda ops, *x: ops.max(ops.stack(x[:2], axis=-1), axis=2)),
}


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str) -> None:
    after, write = FORMS[name]
    check_rewrite(form(write, (7, 9), (7, 9), (7, 9)), RULE, after, tolerance=0)


NEAR_MISSES: dict[str, Write] = {
    "other axes than the stack's are reduced (expected [0], found [1])": lambda ops, *x: ops.max(
        ops.stack(x, axis=0), axis=1
    ),
    "other axes than the stack's are reduced (expected [0], found [0, 2])": lambda ops, *x: ops.max(
        ops.stack(x, axis=0), axis=[0, 2]
    ),
    "the reduced axis is kept": lambda ops, *x: ops.max(ops.stack(x, axis=0), axis=0, keepdims=True),
    "other axes than the stack's are reduced (expected [1], found None)": lambda ops, *x: ops.max(
        ops.stack(x, axis=1)
    ),
}


@pytest.mark.parametrize("reason", NEAR_MISSES)
def test_near_misses_say_why(reason: str) -> None:
    assert refusal(form(NEAR_MISSES[reason], (7, 9), (7, 9)), RULE) == reason


def test_a_stack_of_a_tuple_of_run_time_is_left() -> None:
    ty = relax.TupleType([relax.TensorType((7,), "float32")] * 2)
    pair, bb = relax.Var("pair", ty), relax.BlockBuilder()
    with bb.function("main", [pair]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.max(bb.emit(relax.op.stack(pair, axis=0)), axis=0))
        bb.emit_func_output(out)
    assert refusal(bb.finalize(), RULE) == "the operands of the stack are not known"
