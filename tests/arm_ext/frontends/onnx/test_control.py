# SPDX-License-Identifier: Apache-2.0
"""Control flow that is decided at run time, against onnxruntime."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from onnx import ModelProto, helper
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.memory import memory_of
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, run_phases
from arm_ext.report.report import CompileReport, build_report
from arm_ext.target.profiles import baseline_host
from relay_passes import unnamed_calls
from relay_passes.ir.sources import bindings_of, sources_of
from schedules.cores import CORES
from tests.arm_ext.frontends.onnx import control_models as models
from tests.arm_ext.frontends.onnx.control_models import graph, model, node, number, value


@dataclass
class Compiled:
    imported: ImportedModel
    results: dict[str, PhaseResult]
    machine: relax.VirtualMachine

    @classmethod
    def of(cls, proto: ModelProto) -> "Compiled":
        imported, options = import_onnx(proto), PhaseOptions(baseline_host())
        results = dict(run_phases(PhaseResult(imported.mod), options))
        machine = make_program(results["plan"].mod, options.profile, runs_here=True).machine()
        return cls(imported, results, machine)

    def run(self, *inputs: npt.ArrayLike) -> list[np.ndarray]:
        result = self.machine["main"](*(tvm.runtime.tensor(np.asarray(x)) for x in inputs))
        return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [y.numpy() for y in result]

    def check(self, *inputs: npt.ArrayLike) -> list[np.ndarray]:
        """Compare with onnxruntime: the order of sums is another one."""
        found = self.run(*inputs)
        wanted, name = self.imported.reference([np.asarray(x) for x in inputs])
        assert wanted, name
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        return found

    def report(self) -> CompileReport:
        return build_report(
            "m", "host", self.imported.nodes, {}, self.results["plan"].kernels, CORES["cortex-a76"]
        )


@pytest.fixture(scope="module")
def early_exit() -> Compiled:
    return Compiled.of(models.early_exit())


@pytest.fixture(scope="module")
def doubling() -> Compiled:
    return Compiled.of(models.doubling())


@pytest.fixture(scope="module")
def alternating() -> Compiled:
    return Compiled.of(models.alternating())


def test_both_branches_are_taken(early_exit: Compiled):
    sure, unsure = models.early_exit_inputs()
    assert early_exit.check(sure)[0].max() > 0.9
    assert early_exit.check(unsure)[0].max() < 0.9


def test_no_call_is_without_a_source_in_any_phase(early_exit: Compiled):
    results = early_exit.results
    assert {name: calls for name, made in results.items() if (calls := unnamed_calls(made.mod))} == {}


def test_report_has_the_nodes_of_the_branches(early_exit: Compiled):
    rows = {row.source: row for row in early_exit.report().nodes}
    assert rows["deep"].kernel == "winograd_f32"
    assert rows["exit"].kernel == "branch"
    symbols = [kernel.symbol for kernel in early_exit.results["plan"].kernels]
    assert len(set(symbols)) == len(symbols)


def test_peak_has_one_branch(early_exit: Compiled):
    memory = memory_of(early_exit.results["lower"].mod, early_exit.results["plan"].mod)
    features, deep = (8 * 16 * 16 * 4, 16 * 16 * 16 * 4)
    assert memory.peak_activation_bytes >= features + deep
    assert memory.widest[0].live_bytes == pytest.approx(features + deep, rel=0.1)


@pytest.mark.parametrize(
    ("most", "limit", "count"), [(100, 100.0, 5), (2, 100.0, 2), (0, 100.0, 0), (9, 1.0, 1)]
)
def test_a_loop_ends_by_its_condition_or_its_count(doubling: Compiled, most: int, limit: float, count: int):
    y, rounds = doubling.check(np.ones(4, np.float32), most, np.float32(limit))
    assert rounds == count
    assert y[0] == 2.0**count


def test_a_hundred_thousand_rounds(doubling: Compiled):
    y, rounds = doubling.run(np.zeros(4, np.float32), 100_000, np.float32(1))
    assert rounds == 100_000
    assert not y.any()


@pytest.mark.parametrize(("limit", "begin"), [(100.0, True), (3.0, True), (3.0, False)])
def test_a_choice_in_a_loop_of_values_from_outside(alternating: Compiled, limit: float, begin: bool):
    alternating.check(np.linspace(0.1, 0.4, 4, dtype=np.float32), [9], np.float32(limit), begin)


@pytest.mark.parametrize("rounds", [3, 1031])
def test_rows_of_each_round(rounds: int):
    compiled = Compiled.of(models.counting(rounds))
    assert ("count_loop" in compiled.results["plan"].mod.script()) == (rounds > 1024)
    compiled.check(np.arange(4, dtype=np.float32))


@pytest.mark.parametrize("steps", [5, 1031])
def test_a_scan_of_any_length(steps: int):
    rng = np.random.default_rng(1)
    shapes = ((2,), (steps, 2), (2, steps))
    compiled = Compiled.of(models.scanning(steps))
    compiled.check(*(rng.normal(size=s).astype(np.float32) * 0.1 for s in shapes))
    assert compiled.imported.nodes == {"scan": "Scan"}
    assert {source for kernel in compiled.results["plan"].kernels for source in kernel.sources} == {"scan"}


def test_integers_stay_integers_across_a_branch():
    compiled = Compiled.of(models.quantised_exit())
    assert compiled.imported.quantized
    # Read from outside of the branch is the integer, and dequantised in it.
    assert not {call.operator for call in compiled.results["plan"].left_float} & {"conv2d", "nn.conv2d"}
    numerics = {row.source: row.numerics for row in compiled.report().nodes}
    assert (numerics["a_conv"], numerics["b_conv"]) == ("qdq", "qdq")
    x = np.random.default_rng(2).normal(size=(1, 4, 8, 8)).astype(np.float32)
    compiled.check(x)
    compiled.check(x * 9)


def choice(then_shape: tuple[int, ...], else_shape: tuple[int, ...]) -> ModelProto:
    branches = {
        f"{name}_branch": graph(
            [node("Reshape", ["x", f"s{name}"], [f"y{name}"])], [], [value(f"y{name}", shape)]
        )
        for name, shape in (("then", then_shape), ("else", else_shape))
    }
    shapes = {"sthen": np.array(then_shape), "selse": np.array(else_shape)}
    nodes = [node("If", ["c"], ["y"], "pick", **branches)]
    output = value("y", then_shape) if then_shape == else_shape else value("y", ["n", *then_shape[1:]])
    return model(graph(nodes, [value("x"), number("c", models.BOOL)], [output], **shapes))


def test_branches_of_different_shapes_are_refused():
    with pytest.raises(ModelError, match=r"If node 'pick'.*branches give .*both must give the same type"):
        import_onnx(choice((4, 1), (2, 2)))


def test_rows_of_a_count_that_is_not_known_are_refused():
    proto = models.counting(5)
    del proto.graph.initializer[:]
    proto.graph.input.append(number("M"))
    with pytest.raises(ModelError, match=r"count \('rows' has a row for each iteration"):
        import_onnx(proto)


def test_rows_of_a_count_that_nothing_ends():
    """Whose condition is a constant from outside, which exporters cast again and again."""
    inner = [node("Add", ["x", "x"], ["row"]), node("Cast", ["on"], ["go"], to=models.BOOL)]
    body = graph(inner, [number("i"), number("c", models.BOOL)], [number("go", models.BOOL), value("row")])
    loop = node("Loop", ["M", "on"], ["y"], "count", body=body)
    proto = model(graph([loop], [value("x")], [value("y", ["k", 4])], M=3, on=True))
    assert import_onnx(proto).outputs[0].shape == (3, 4)


def test_a_shape_that_a_constant_choice_decides():
    """As torch writes a squeeze: of the two branches one fits, and what follows has a shape only then."""
    branches = [graph([node("Squeeze", ["x", "axis"], ["a"])], [], [value("a", ["n"])], axis=[0])]
    branches.append(graph([node("Identity", ["x"], ["b"])], [], [value("b", ["n", "m"])]))
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["first"], axis=0),
        node("Equal", ["first", "one"], ["fits"]),
        node("If", ["fits"], ["z"], "pick", then_branch=branches[0], else_branch=branches[1]),
        node("ReduceMean", ["z"], ["y"], axes=[0], keepdims=1),
    ]
    proto = model(graph(nodes, [value("x", [1, 4])], [value("y", ["k"])], zero=0, one=1))
    assert import_onnx(proto).outputs[0].shape == (1,)


@pytest.mark.parametrize("unique", [True, False])
def test_nodes_of_an_inlined_branch_keep_their_names(unique: bool):
    inner = graph(
        [
            helper.make_node("Exp", ["x"], ["e"], "head/exp"),
            helper.make_node("Sin", ["e"], ["s"], "head/sin" if unique else "last"),
        ],
        [],
        [value("s")],
    )
    other = graph([helper.make_node("Cos", ["x"], ["c"], "other/cos")], [], [value("c")])
    nodes = [
        helper.make_node("If", ["yes"], ["y"], "choice", then_branch=inner, else_branch=other),
        helper.make_node("Abs", ["y"], ["z"], "last"),
    ]
    imported = import_onnx(model(graph(nodes, [value("x")], [value("z")], yes=True)))
    found = [
        sources_of(binding.value)
        for binding in bindings_of(imported.mod["main"])
        if sources_of(binding.value)
    ]
    assert found == [("head/exp",), ("head/sin" if unique else "choice",), ("last",)]
    assert {name: imported.nodes[name] for (name,) in found} == {
        "head/exp": "Exp",
        **({"head/sin": "Sin"} if unique else {"choice": "If"}),
        "last": "Abs",
    }


def test_a_state_that_grows_is_refused():
    body = graph(
        [node("Concat", ["s", "x"], ["s1"], axis=0), node("Identity", ["c"], ["go"])],
        [number("i"), number("c", models.BOOL), value("s", ["n"])],
        [number("go", models.BOOL), value("s1", ["m"])],
    )
    loop = node("Loop", ["M", "", "x"], ["y"], "grow", body=body)
    proto = model(graph([loop], [value("x"), number("M")], [value("y", ["k"])]))
    with pytest.raises(ModelError, match=r"Loop node 'grow'.*'s' is .*before an iteration"):
        import_onnx(proto)


def test_an_operator_in_a_branch_that_is_not_known_is_named():
    branch = graph([node("Loopy", ["x"], ["t"], "strange", domain="other")], [], [value("t")])
    same = graph([node("Identity", ["x"], ["e"])], [], [value("e")])
    body = graph(
        [node("If", ["c"], ["y"], then_branch=branch, else_branch=same)],
        [value("x"), number("c", models.BOOL)],
        [value("y")],
    )
    proto = model(body, other=1)
    with pytest.raises(ModelError, match="strange"):
        import_onnx(proto)


def _counting(count: int, step: int, trips: int | None) -> ModelProto:
    """y = x; i = 0; do y = 2 y + i while i + step < count, as Keras' recurrent layers count in tf2onnx's files."""
    body = graph(
        [
            node("Add", ["i", "step"], ["i_next"]),
            node("Less", ["i_next", "count"], ["goes_on"]),
            node("Cast", ["i"], ["i_float"], to=models.FLOAT),
            node("Mul", ["y_in", "half"], ["less"]),
            node("Add", ["less", "i_float"], ["y_out"]),
            node("Identity", ["y_out"], ["row"]),
        ],
        [number("round"), number("go", models.BOOL), number("i"), value("y_in")],
        [number("goes_on", models.BOOL), number("i_next"), value("y_out"), value("row")],
    )
    arrays = {"step": np.int64(step), "count": np.int64(count), "zero": np.int64(0), "half": np.float32(0.5)}
    arrays |= {"true": np.array(True)} | ({} if trips is None else {"trips": np.int64(trips)})
    begin = "" if trips is None else "trips"
    loop = node("Loop", [begin, "true", "zero", "x"], ["last", "y", "rows"], body=body)
    outputs = [number("last"), value("y"), value("rows", ("r", 4))]
    return model(graph([loop], [value("x")], outputs, **arrays))


@pytest.mark.parametrize(
    ("count", "step", "trips", "rounds"),
    [(7, 1, None, 7), (8, 3, None, 3), (1, 1, None, 1), (9, 1, 4, 4), (1100, 1, None, 1100)],
)
def test_a_condition_that_constants_decide_is_a_number_of_rounds(
    count: int, step: int, trips: int | None, rounds: int
):
    *_, rows = Compiled.of(_counting(count, step, trips)).check(np.array([1, 0, -1, 2], np.float32))
    assert rows.shape == (rounds, 4)
