# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm
from tvm import relax
from tvm.relax import transform

from relay_passes.ir.sources import bindings_of, map_calls, with_source
from relay_passes.ir.verify import verify
from tests.relay_passes.graphs import GRAPHS, conv_bn_relu


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_sound_module_is_returned(graph: str) -> None:
    mod = GRAPHS[graph]()
    assert verify(mod, after="import").same_as(mod)


def test_an_unnamed_call_is_reported_with_the_pass() -> None:
    with pytest.raises(
        ValueError, match=r"LegalizeOps left calls without a source name: main: conv = conv2d; "
    ):
        verify(transform.LegalizeOps()(conv_bn_relu()), after="LegalizeOps")


def test_a_module_that_is_not_well_formed_is_reported_with_the_pass() -> None:
    mod = conv_bn_relu()
    stranger = relax.Var("stranger", bindings_of(mod["main"])[0].var.ty)
    mod["main"] = map_calls(
        mod["main"],
        lambda var, call: with_source(relax.op.nn.relu(stranger), ["n"]) if var.name == "relu" else call,
    )
    with pytest.raises(ValueError, match="swap left a module that is not well-formed"):
        verify(tvm.IRModule(mod.functions), after="swap")
