# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import ml_dtypes  # noqa: F401 (numpy then knows bfloat16)
import numpy as np
import onnx.parser
import pytest
import tvm
from tvm import tirx
from tvm.ir import Call
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)
from tvm.tirx.compilation_pipeline import get_tir_pipeline
from tvm_ffi import structural_walk

from arm_ext.common.cache import without_entries
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline import codegen
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import resolve
from schedules.kernels.depthwise import depthwise_f32
from schedules.lowering.lower import in_root_block
from schedules.tir.emit import EXACT, i64, kernel_function, load, store
from tests.schedules import programs
from tests.schedules.kernels.depthwise.test_depthwise_f32 import CASES, CORE


@T.prim_func(s_tir=True)
def _halved(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):  # type: ignore[no-untyped-def]
    """Takes twice the buffer that it needs."""
    T.func_attr({"global_symbol": "halved", "tirx.noalias": True})
    with T.sblock("root"):
        between = T.sblock_alloc_buffer((16,))
        for i in range(8):
            between[i] = x[i] * T.float32(0.5)
        for i in range(8):
            y[i] = between[i]


def _allocated(func: tirx.PrimFunc) -> int:
    sizes = tvm.s_tir.analysis.calculate_allocated_bytes(codegen.allocations(tvm.IRModule({"main": func})))
    return sum(int(size) for by_scope in sizes.values() for size in by_scope.values())


def test_buffers_shrink_to_what_is_used_but_those_of_kernels_of_ours():
    func = _halved.with_attr("global_symbol", "main")
    assert _allocated(func) == 32
    assert _allocated(func.with_attr(EXACT, True)) == 64


@T.prim_func(s_tir=True)
def _rows(x: T.Buffer((8, 9), "float32"), y: T.Buffer((8, 9), "float32")):  # type: ignore[no-untyped-def]
    """Asks in each column for a condition of its row."""
    T.func_attr({"global_symbol": "rows", "tirx.noalias": True})
    with T.sblock("root"):
        for i, j in T.grid(8, 9):
            if i % 3 == 1:
                y[i, j] = x[i, j]


def _lowered(func: tirx.PrimFunc) -> tvm.IRModule:
    target = resolve("neoverse-n2").tvm_target()
    mod = tvm.IRModule(
        {"rows": func.with_attr("target", target.with_host(target))}, attrs={codegen.PART: True}
    )
    lower, _, _ = get_tir_pipeline(codegen.registered())
    return lower(mod)


def _loops_in_conditions(func: tirx.PrimFunc) -> int:
    found: list[tirx.For] = []

    def search(condition: tirx.IfThenElse) -> None:
        structural_walk(condition.then_case, [(tirx.For, found.append)])

    for each in _lowered(func).functions.values():
        structural_walk(each.body, [(tirx.IfThenElse, search)])
    return len(found)


def test_conditions_leave_loops_but_those_of_kernels_of_ours():
    assert _loops_in_conditions(_rows) == 1
    assert _loops_in_conditions(_rows.with_attr(EXACT, True)) == 0


def test_vectors_are_computed_once():
    """TVM's simplifier writes out what variables of integers hold: 2^k calls where the k-th result is read."""
    with kernel_function("rows", [((4,), "int32"), ((20,), "int32")]) as function:
        x, y = function.buffers
        value = load(x, i64(0), 4)
        for number in range(5):
            value = T.Bind(tirx.call_llvm_pure_intrin("int32x4", "llvm.smax", value, value))
            store(y, value, i64(4 * number), 4)
    calls: list[Call] = []
    for each in _lowered(in_root_block(function.prim_func)).functions.values():
        structural_walk(each.body, [(Call, calls.append)])
    assert sum(call.op.name == "tirx.call_llvm_pure_intrin" for call in calls) == 5


def test_a_value_that_is_read_twice_does_not_double_the_work():
    """TVM's code generator writes out what variables hold: 2^60 calls here, of which it would see no end."""
    with kernel_function("largest", [((4,), "float32"), ((4,), "float32")]) as function:
        x, y = function.buffers
        value = load(x, i64(0), 4)
        for _ in range(60):
            value = T.Bind(tirx.call_llvm_intrin("float32x4", "llvm.maxnum", value, value))
        store(y, value, i64(0), 4)
    given = np.array([1, -1, 0.5, 3e38], np.float32)
    found = programs.run_on_host(function.prim_func, [given], given.shape, "float32")
    np.testing.assert_array_equal(found, given)


def test_code_is_that_of_the_whole_list_of_passes():
    workload = CASES["images"]
    func = in_root_block(depthwise_f32.build(workload, depthwise_f32.default(workload, CORE)))
    target = resolve("neoverse-n2").tvm_target()
    for each in (func, _halved, _rows):
        ours, whole = (
            tvm.tirx.build(each, target, pipeline=name).inspect_source("asm")
            for name in (codegen.registered(), "default")
        )
        assert ours == whole


@pytest.mark.parametrize("branching", [False, True])
def test_long_functions_are_called_part_by_part(branching: bool, monkeypatch: pytest.MonkeyPatch):
    """In an `If`, whose branches are functions too, and in a straight line."""
    steps = " ".join(f"y{i + 1} = Add(y{i}, c) z{i + 1} = MatMul(y{i + 1}, y{i + 1})" for i in range(6))
    straight = f"y0 = Identity(x) {steps} y = Concat<axis = 0>({', '.join(f'z{i + 1}' for i in range(6))})"
    branches = (
        "g = ReduceMax<keepdims = 0>(x) zero = Constant<value_float = 0.>() up = Greater(g, zero) "
        "y = If(up) <then_branch = a () => (float[3,3] t) {t = Add(x, x)}, "
        "else_branch = b () => (float[3,3] e) {e = Neg(x)}>"
    )
    rows = 3 if branching else 18
    text = (
        f'<ir_version: 8, opset_import: ["": 17]> g (float[3,3] x) => (float[{rows},3] y) '
        f"<float[3,3] c = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}> {{{branches if branching else straight}}}"
    )
    model = import_onnx(onnx.parser.parse_model(text))
    x = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    cut: list[int] = []
    with without_entries():
        (whole,) = run_on_host(model.mod, [x])
        monkeypatch.setattr(codegen, "_STATEMENTS", 5)
        monkeypatch.setattr(codegen, "SHORT", 2)
        monkeypatch.setattr(
            codegen, "_in_parts", lambda mod, cutting=codegen._in_parts: _noted(mod, cutting, cut)
        )
        (in_parts,) = run_on_host(model.mod, [x])
    np.testing.assert_array_equal(in_parts, whole)
    assert max(cut) > 1


def _noted(
    mod: tvm.IRModule, cutting: Callable[[tvm.IRModule], tvm.IRModule], cut: list[int]
) -> tvm.IRModule:
    done = cutting(mod)
    cut.append(len(done.functions) - len(mod.functions))
    return done
