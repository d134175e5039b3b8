# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N805, N812, RET504, SIM108 - TVMScript: functions of a module are no methods, I, R and T are its names
import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from relay_passes.programs.merge_modules import add_functions, merge_modules


def module(factor: float, weight: float) -> tvm.IRModule:
    @I.ir_module
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def scale(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.sblock("scale"):
                    v = T.axis.spatial(4, i)
                    y[v] = x[v] * T.float32(factor)

        @T.prim_func(private=True, s_tir=True)
        def negate(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.sblock("negate"):
                    v = T.axis.spatial(4, i)
                    y[v] = -x[v]

        @R.function(private=True)
        def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            return R.call_tir(cls.scale, (x,), out_ty=R.Tensor((4,), "float32"))

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Module
            y = cls.inner(x)
            z = R.call_tir(cls.negate, (y,), out_ty=R.Tensor((4,), "float32"))
            return R.add(z, R.const(np.full(4, weight, np.float32)))

    return Module


def run(mod: tvm.IRModule, function: str) -> float:
    executable = tvm.compile(relax.transform.AttachGlobalSymbol()(mod), tvm.target.Target("llvm"))
    x = tvm.runtime.tensor(np.ones(4, np.float32))
    return float(relax.VirtualMachine(executable, tvm.cpu())[function](x).numpy()[0])


def test_equal_functions_are_shared_and_others_renamed_with_all_that_call_them():
    merged = merge_modules({"a": module(2, 10), "b": module(2, 20), "c": module(3, 10)})
    functions = {gvar.name_hint for gvar in merged.mod.get_global_vars()}
    assert functions == {"a", "b", "c", "negate", "scale", "scale_1", "inner", "inner_1"}
    assert merged.names["b"] == {"main": "b", "negate": "negate", "scale": "scale", "inner": "inner"}
    assert merged.names["c"] == {"main": "c", "negate": "negate", "scale": "scale_1", "inner": "inner_1"}
    assert [run(merged.mod, name) for name in "abc"] == [8, 18, 7]


def test_main_alone_is_called_from_outside():
    merged = merge_modules({"main": module(2, 10), "other": module(3, 10)}).mod
    assert merged["main"].attrs["global_symbol"] == "main"
    assert "global_symbol" not in (merged["other"].attrs or {})


def test_a_module_may_have_the_name_of_a_kernel():
    merged = merge_modules({"scale": module(2, 10), "negate_1": module(3, 10)}, reserved=["inner"])
    assert merged.names["scale"] == {
        "main": "scale",
        "negate": "negate",
        "scale": "scale_1",
        "inner": "inner_1",
    }
    assert merged.names["negate_1"]["main"] == "negate_1"
    assert run(merged.mod, "scale") == 8


def test_equal_constants_become_one():
    merged = merge_modules({"a": module(2, 10), "b": module(3, 10)}).mod
    found = []
    for name in "ab":
        relax.analysis.post_order_visit(
            merged[name], lambda e: found.append(e) if isinstance(e, tvm.ir.GenericConst) else None
        )
    assert len(found) == 2
    assert found[0].same_as(found[1])


def test_what_calls_itself_is_shared_with_nothing():
    @I.ir_module
    class Endless:
        @R.function(private=True)
        def again(go: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Endless
            if go:
                y = cls.again(go, x)
            else:
                y = x
            return y

        @R.function
        def main(go: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            cls = Endless
            y = cls.again(go, x)
            return y

    merged = merge_modules({"a": Endless, "b": Endless})
    assert merged.names["b"]["again"] == "again_1"
    callee = merged.mod["again_1"].body.blocks[0].bindings[0].value.true_branch.blocks[0].bindings[0].value.op
    assert callee.same_as(merged.mod.get_global_var("again_1"))


def test_functions_that_are_added_find_those_that_are_there_and_each_other_by_name():
    mod = merge_modules({"a": module(2, 10)}).mod
    x = relax.Var("x", relax.TensorType((4,), "float32"))

    def calling(name: str) -> relax.Function:
        y = relax.Var("y", x.ty)
        call = tvm.ir.Call(tvm.ir.GlobalVar(name), [x], ret_ty=x.ty)
        body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, call)])], y)
        return relax.Function([x], body, x.ty)

    add_functions(mod, {"twice": calling("once"), "once": calling("a")})
    assert run(mod, "twice") == 8
