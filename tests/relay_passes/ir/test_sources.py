# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N805, N812 - TVMScript: functions of a module are no methods, I, R and T are its names
import pytest
import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.analysis import well_formed
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from relay_passes.ir.sources import (
    bindings_of,
    function_sources,
    name_bindings,
    sources_of,
    unnamed_calls,
    with_source,
)
from relay_passes.ir.upstream import run_upstream
from tests.relay_passes.graphs import GRAPHS, conv_bn_relu, operators, tensor, twins


def _call() -> relax.Call:
    return relax.op.nn.relu(tensor("x", 7))


@pytest.mark.parametrize("names", [("/block/act",), ("a", "b", "c"), ()])
def test_names_written_are_read_back(names: tuple[str, ...]) -> None:
    assert sources_of(with_source(_call(), names)) == names


def test_a_name_given_twice_is_kept_once() -> None:
    assert sources_of(with_source(_call(), ["b", "a", "b"])) == ("b", "a")


def test_with_source_keeps_type_and_meaning() -> None:
    call = relax.BlockBuilder().normalize(_call())
    named = with_source(call, ["n"])
    assert named.ty == call.ty
    tvm.ir.assert_structural_equal(named, call)


def test_variables_are_named_after_their_nodes_and_are_unique() -> None:
    mod = GRAPHS["residual_block"]()
    variables = [str(b.var.name) for b in bindings_of(mod["main"])]
    assert {"conv1", "conv1_1", "bias1", "relu1", "sum"} <= set(variables)
    assert len(set(variables)) == len(variables)
    well_formed(mod)


@pytest.mark.parametrize(
    ("node", "variable"), [("/a/b.0/Conv", "a_b_0_Conv"), ("7", "n_7"), ("é", "n_"), ("x", "x_1")]
)
def test_any_node_name_makes_a_variable_name(node: str, variable: str) -> None:
    func = conv_bn_relu()["main"]
    first = bindings_of(func)[0]
    named = name_bindings(func, {first.var: node})
    assert bindings_of(named)[0].var.name == variable
    assert sources_of(bindings_of(named)[0].value) == (node,)


def test_unnamed_calls_names_function_variable_and_operator() -> None:
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((7,), "float32")):
            with R.dataflow():
                act = R.nn.relu(x)
                s = R.call_tir(Mod.twice, (act,), out_ty=R.Tensor((7,), "float32"))
                R.output(s)
            return s

        @T.prim_func(private=True, s_tir=True)
        def twice(x: T.Buffer((7,), "float32"), y: T.Buffer((7,), "float32")):
            for i in range(7):
                y[i] = x[i] * T.float32(2)

    assert unnamed_calls(Mod) == ["main: act = relax.nn.relu", "main: s = twice"]
    act = bindings_of(Mod["main"])[0].var
    Mod["main"] = name_bindings(Mod["main"], {act: "act"})
    assert unnamed_calls(Mod) == ["main: s = twice"]


def test_allocation_needs_no_source() -> None:
    mod = transform.CallTIRRewrite()(
        transform.ToNonDataflow()(transform.LegalizeOps()(GRAPHS["depthwise"]()))
    )
    assert "builtin.alloc_tensor" in operators(mod["main"])
    assert not any("alloc" in text for text in unnamed_calls(mod))


def test_function_sources_are_those_of_all_callers() -> None:
    mod = run_upstream(twins(), transform.LegalizeOps())
    assert function_sources(mod) == {
        "conv2d": ("conv1", "conv2"),
        "relu": ("relu1", "relu2"),
        "softmax": ("softmax", "softmax2"),
    }
