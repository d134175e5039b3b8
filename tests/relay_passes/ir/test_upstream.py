# SPDX-License-Identifier: Apache-2.0
import pytest
import tvm
from tvm import relax
from tvm.ir import assert_structural_equal
from tvm.relax import transform
from tvm.relax.analysis import well_formed

from relay_passes.ir.sources import bindings_of, function_sources, sources_of, unnamed_calls
from relay_passes.ir.upstream import name_equals, run_upstream
from relay_passes.rewriter.engine import apply_rules
from relay_passes.rules import fold_batch_norm
from tests.relay_passes.graphs import GRAPHS, Net, conv_bn_relu, residual_block, tensor, twins

NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
# The passes that a compile runs, in an order that makes each meet what it is for.
PASSES = (
    transform.FoldConstant,
    transform.EliminateCommonSubexpr,
    transform.DeadCodeElimination,
    transform.CanonicalizeBindings,
    transform.DecomposeOpsForInference,
    lambda: transform.ConvertLayout(NHWC),
    transform.LegalizeOps,
    transform.AnnotateTIROpPattern,
    transform.FuseOps,
    transform.FuseTIR,
)


def _through(mod: tvm.IRModule, *passes: tvm.ir.transform.Pass) -> tvm.IRModule:
    with tvm.target.Target("llvm"):
        for pass_ in passes:
            mod = run_upstream(mod, pass_)
    return mod


def _sources(mod: tvm.IRModule, operator: str) -> list[tuple[str, ...]]:
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    return [sources_of(c) for c in calls if getattr(c.op, "name", c.op) == operator]


@pytest.mark.parametrize("graph", GRAPHS)
def test_no_call_without_a_source_through_all_passes(graph: str) -> None:
    mod = GRAPHS[graph]()
    all_names = {n for b in bindings_of(mod["main"]) for n in sources_of(b.value)}
    for make in PASSES:
        pass_ = make()
        mod = _through(mod, pass_)
        assert unnamed_calls(mod) == [], pass_.info.name
        well_formed(mod)
    kept = {n for names in function_sources(mod).values() for n in names}
    assert kept <= all_names
    # What folds away is the constant operands; all that runs still says where it comes from.
    assert all_names - kept <= {"bias1", "bias2"}


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_pass_does_what_it_does_alone(graph: str) -> None:
    mod = GRAPHS[graph]()
    with tvm.target.Target("llvm"):
        alone = tvm.transform.Sequential([make() for make in PASSES])(mod)
    assert_structural_equal(_through(mod, *(make() for make in PASSES)), alone)


@tvm.transform.module_pass(opt_level=0)
def _nothing(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    return mod


@tvm.transform.module_pass(opt_level=0)
def _append_exp(mod: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
    main = mod["main"]
    (block,) = main.body.blocks
    tail = relax.Var("lv", block.bindings[-1].var.ty)
    bindings = [*block.bindings, relax.VarBinding(tail, relax.op.exp(main.body.body))]
    func = relax.Function(main.params, relax.SeqExpr([relax.DataflowBlock(bindings)], tail), tail.ty)
    return transform.Normalize()(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))


def test_the_module_passed_in_is_not_changed() -> None:
    mod = conv_bn_relu()
    text = mod.script()
    names = [sources_of(b.value) for b in bindings_of(mod["main"])]
    _through(mod, transform.LegalizeOps())
    _through(mod, _nothing)
    assert mod.script() == text
    assert [sources_of(b.value) for b in bindings_of(mod["main"])] == names


def test_decomposed_operators_take_the_name_of_what_they_came_from() -> None:
    mod = _through(GRAPHS["conv_bn_relu"](), transform.DecomposeOpsForInference())
    named = [sources_of(b.value) for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    assert named[0] == ("conv",)
    assert named[-1] == ("relu",)
    assert set(named[1:-1]) == {("bn",)}


def test_layout_conversion_keeps_names_and_names_transposes_by_their_consumer() -> None:
    mod = _through(residual_block(), transform.FoldConstant(), transform.ConvertLayout(NHWC))
    assert _sources(mod, "relax.nn.conv2d") == [("conv1",), ("conv2",)]
    assert _sources(mod, "relax.nn.relu") == [("relu1",)]
    transposes = _sources(mod, "relax.permute_dims")
    assert transposes[0] == ("conv1",)
    assert transposes[-1] == ("flat",)


def test_what_nothing_consumes_takes_its_producers_name() -> None:
    assert _sources(_through(conv_bn_relu(), _append_exp), "relax.exp") == [("relu",)]


def test_a_call_that_writes_its_last_operand_takes_no_name_of_what_it_reads() -> None:
    passes = (transform.LegalizeOps(), transform.ToNonDataflow(), transform.CallTIRRewrite())
    mod = _through(GRAPHS["conv_bn_relu"](), *passes)
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    kernels = [sources_of(call) for call in calls if isinstance(call.op, tvm.ir.GlobalVar)]
    assert kernels == [("conv",), ("bn",), ("relu",)]


def test_what_a_pass_makes_is_known_by_name_to_the_next() -> None:
    # Folding BatchNorm leaves an add where the norm was; its consumer must not lend it its name.
    mod = apply_rules(GRAPHS["conv_bn_relu"](), (fold_batch_norm.RULE,))
    mod = _through(mod, transform.ConvertLayout(NHWC))
    assert _sources(mod, "relax.nn.conv2d") == _sources(mod, "relax.add") == [("conv", "bn")]
    assert _sources(mod, "relax.nn.relu") == [("relu",)]


def test_equal_calls_take_each_others_names_before_one_goes() -> None:
    net, x = Net(), tensor("x", 7)

    def body() -> relax.Expr:
        left, right = (net.emit(n, relax.op.add(x, relax.const(2.0))) for n in ("left", "right"))
        other = net.emit("other", relax.op.add(x, relax.const(3.0)))
        return relax.Tuple([left, right, other])

    named = name_equals(net.module([x], body))
    names = [("left", "right"), ("left", "right"), ("other",)]
    assert _sources(named, "relax.add") == names
    assert _sources(_through(named, transform.EliminateCommonSubexpr()), "relax.add") == names[1:]


def test_equal_groups_are_told_apart_at_their_calls() -> None:
    mod = _through(twins(), transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps())
    groups = [
        b.value
        for b in bindings_of(mod["main"])
        if isinstance(getattr(b.value, "op", None), tvm.ir.GlobalVar)
    ]
    assert [sources_of(call) for call in groups] == [("conv1", "relu1"), ("conv2", "relu2")]
    assert groups[0].op.same_as(groups[1].op)
    assert function_sources(mod)["fused_conv2d_relu"] == ("conv1", "relu1", "conv2", "relu2")


def test_function_sources_are_the_same_before_and_after_fuse_tir() -> None:
    fused = _through(
        GRAPHS["transformer_block"](),
        transform.LegalizeOps(),
        transform.AnnotateTIROpPattern(),
        transform.FuseOps(),
    )
    lowered = _through(fused, transform.FuseTIR())
    before, after = function_sources(fused), function_sources(lowered)
    assert after == before
    assert {"fc1", "fc1_bias", "gelu"} in [set(names) for names in after.values()]
