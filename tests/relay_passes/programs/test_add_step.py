# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.ir.sources import bindings_of
from relay_passes.programs.add_step import KEEP, RESET, STEP, SWAP, add_step

SHAPE = (2, 3)
TENSOR = relax.TensorType(SHAPE, "float32")
COPY = "vm.builtin.to_device"


def planned(outputs: tuple[str, str, str]) -> IRModule:
    """main(x, h, c) → what `outputs` name: a parameter, "new", "view of new", or "unknown"."""
    builder = relax.BlockBuilder()
    params = {name: Var(name, TENSOR) for name in ("x", "h", "c")}
    with builder.function("main", list(params.values()), pure=False):
        values: dict[str, Expr] = dict(params)
        for name in ("new", "other"):
            values[name] = builder.emit(R.builtin.alloc_tensor(relax.ShapeExpr(SHAPE), "float32", 0))
        values["view of new"] = builder.emit(R.reshape(values["new"], SHAPE))
        values["unknown"] = builder.emit(Call(relax.ExternFunc("f"), [params["x"]], ret_ty=TENSOR))
        result = builder.emit(relax.Tuple([values[name] for name in outputs]))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize(
    ("outputs", "copies"),
    [
        (("new", "other", "h"), 0),
        (("x", "view of new", "new"), 0),
        (("x", "c", "h"), 0),
        (("x", "x", "other"), 1),
        (("unknown", "new", "other"), 1),
        (("unknown", "unknown", "other"), 2),
        (("new", "view of new", "other"), 1),
        (("h", "new", "other"), 1),
    ],
)
def test_only_what_a_caller_may_write_to_is_copied(outputs: tuple[str, str, str], copies: int):
    mod = add_step(planned(outputs), [np.zeros(SHAPE, np.float32), np.ones(SHAPE, np.float32)])
    step = mod[STEP]
    called = [
        str(getattr(b.value.op, "global_symbol", "")) for b in bindings_of(step) if isinstance(b.value, Call)
    ]
    assert [str(param.name) for param in step.params] == ["x"]
    assert (called.count(COPY), called.count(KEEP)) == (copies, 2)
    assert [str(param.name) for param in mod[RESET].params] == []


@pytest.mark.parametrize(
    ("outputs", "swaps"),
    [
        (("x", "new", "other"), 2),
        (("x", "view of new", "other"), 2),
        (("new", "other", "c"), 1),
        (("x", "h", "c"), 0),
    ],
)
def test_states_that_main_makes_are_swapped(outputs: tuple[str, str, str], swaps: int):
    mod = add_step(planned(outputs), [np.zeros(SHAPE, np.float32), np.ones(SHAPE, np.float32)])
    step, reset = mod[STEP], mod[RESET]
    called = [b.value for b in bindings_of(step) if isinstance(b.value, Call)]
    names = [str(getattr(call.op, "global_symbol", getattr(call.op, "name", ""))) for call in called]
    assert names.count(SWAP) == swaps
    assert "main" not in names
    assert KEEP not in names
    # One of the tensors allocated here is no state.
    assert names.count("relax.builtin.alloc_tensor") == 2 - swaps
    kept = [b.value for b in bindings_of(reset) if isinstance(b.value, Call) and _is_keep(b.value)]
    assert len(kept) == len(("h", "c")) + swaps + len(("is set",))
    # The initial value of the first state is not overwritten, since the next reset needs it.
    assert [call for call in kept if isinstance(call.args[1], GenericConst)] == kept[-1:]


def _is_keep(call: Call) -> bool:
    return str(getattr(call.op, "global_symbol", "")) == KEEP


def test_without_states_nothing_is_added():
    mod = planned(("unknown", "new", "other"))
    assert add_step(mod, []).same_as(mod)
