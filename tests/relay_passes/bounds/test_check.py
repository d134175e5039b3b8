# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op

from relay_passes.bounds import IndexCheck, OutOfBoundsError, check_indices
from relay_passes.canonicalize.fold_constants import fold_constants
from relay_passes.ir.upstream import run_upstream
from tests.relay_passes.graphs import Net, tensor


def _checked(net: Net, params: list[relax.Var], body: object) -> tuple[tvm.IRModule, list[IndexCheck]]:
    return check_indices(run_upstream(net.module(params, body), relax.transform.LegalizeOps()))


def _run(mod: tvm.IRModule, *inputs: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    return machine["main"](*map(tvm.runtime.tensor, inputs)).numpy()


_X = np.arange(21, dtype="float32").reshape(7, 3)


def _take(bound: Expr | None = None) -> tuple[tvm.IRModule, list[IndexCheck]]:
    net, x, i = Net(), tensor("x", 7, 3), tensor("i", 4, dtype="int64")

    def body() -> Expr:
        places = i if bound is None else net.emit("bounded", op.minimum(op.maximum(i, _zero()), bound))
        return net.emit("rows", op.take(x, places, 0, "fast"))

    return _checked(net, [x, i], body)


def _zero() -> Expr:
    return relax.const(0, "int64")


def test_an_index_of_run_time_is_compared_before_it_is_used() -> None:
    mod, (check,) = _take()
    assert (check.how, check.sources, check.limits) == ("checked", ("rows",), ("7",))
    np.testing.assert_array_equal(_run(mod, _X, np.array([0, 6, 3, 1])), _X[[0, 6, 3, 1]])


@pytest.mark.parametrize("wrong", [-1, 7, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1])
def test_one_that_is_out_of_bounds_ends_the_call_with_the_nodes_name(wrong: int) -> None:
    mod, _ = _take()
    with pytest.raises(IndexError, match="node 'rows': an index is out of bounds for an axis of size 7"):
        _run(mod, _X, np.array([0, 6, wrong, 1]))


def test_what_is_proven_in_another_kernel_adds_nothing() -> None:
    mod, (check,) = _take(relax.const(6, "int64"))
    assert check.how == "proven"
    assert not [gvar for gvar in mod.get_global_vars() if gvar.name_hint.startswith("check")]


def test_a_clip_that_is_one_too_wide_proves_nothing() -> None:
    assert [check.how for check in _take(relax.const(7, "int64"))[1]] == ["checked"]


def test_a_table_of_256_needs_no_check_for_a_byte() -> None:
    net, x, table = Net(), tensor("x", 9, dtype="uint8"), tensor("t", 256)
    _, (check,) = _checked(net, [x, table], lambda: net.emit("y", op.take(table, x, 0, "fast")))
    assert check.how == "proven"


def test_each_index_of_a_vector_has_its_own_axis() -> None:
    net, x, i = Net(), tensor("x", 7, 3), tensor("i", 2, 2, dtype="int64")
    mod, (check,) = _checked(net, [x, i], lambda: net.emit("y", op.gather_nd(x, i)))
    assert check.limits == ("7", "3")
    np.testing.assert_array_equal(_run(mod, _X, np.array([[6, 2], [0, 1]])), _X[[6, 0], [2, 1]])
    with pytest.raises(IndexError, match="node 'y'"):
        _run(mod, _X, np.array([[0, 0], [2, 6]]))


def test_constants_are_compared_at_compile_time() -> None:
    def taken(place: int) -> list[IndexCheck]:
        net, x, index = Net(), tensor("x", 7, 3), relax.const([0, place], "int64")
        return _checked(net, [x], lambda: net.emit("y", op.take(x, index, 0, "fast")))[1]

    assert [check.how for check in taken(6)] == ["proven"]
    with pytest.raises(OutOfBoundsError, match=r"node 'y': .* whatever the inputs are"):
        taken(7)


def test_folding_reads_nothing_out_of_bounds() -> None:
    net, x = Net(), tensor("x", 2)

    def body() -> Expr:
        table, place = relax.const(np.float32([1, 2, 3])), relax.const([0, 2**40], "int64")
        return net.emit("y", op.add(x, net.emit("row", op.take(table, place, 0, "fast"))))

    with pytest.raises(OutOfBoundsError, match="node 'row'"):
        fold_constants(net.module([x], body))


def test_what_a_sort_of_the_runtime_writes_may_be_anything() -> None:
    net, x, k = Net(), tensor("x", 7, 3), tensor("k", 7)

    def body() -> Expr:
        order = net.emit("order", op.argsort(k, -1, False, "int64"))
        return net.emit("rows", op.take(x, order, 0, "fast"))

    with tvm.target.Target("llvm"):
        mod = run_upstream(net.module([x, k], body), relax.backend.DispatchSortScan())
        _, (check,) = check_indices(run_upstream(mod, relax.transform.LegalizeOps()))
    assert check.how == "checked"
