# SPDX-License-Identifier: Apache-2.0
"""Operators that run other graphs, variables with names, and sizes that are left open, against LiteRT."""

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import unnamed_calls
from relay_passes.programs.control_flow import split
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder, pack

# Of a handful of operators in binary32.
BOUND = 1e-6


def program(*graphs: TfliteBuilder, outputs: dict[int, list[int]] | None = None) -> bytes:
    """Put models together: the first is run, and the others' graphs are known by their places.

    The last operator's outputs are a graph's, if `outputs` has none for its place.
    """
    model = schema.ModelT()
    model.version, model.buffers, model.operatorCodes, model.subgraphs = 3, [schema.BufferT()], [], []
    for place, m in enumerate(copy.deepcopy(graphs)):
        for tensor in m.tensors:
            tensor.buffer += len(model.buffers) - 1 if tensor.buffer else 0
        for op in m.operators:
            op.opcodeIndex += len(model.operatorCodes)
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs = m.tensors, m.operators, m.inputs
        graph.outputs = (outputs or {}).get(place, m.operators[-1].outputs)
        model.subgraphs.append(graph)
        model.buffers += m.buffers[1:]
        model.operatorCodes += m.codes
    return pack(model)


def load(folder: Path, model: bytes) -> ImportedModel:
    (folder / "model.tflite").write_bytes(model)
    imported = import_tflite(folder / "model.tflite")
    assert unnamed_calls(imported.mod) == []
    return imported


def check(folder: Path, model: bytes, *inputs: np.ndarray) -> ImportedModel:
    imported = load(folder, model)
    for found, expected in zip(run_on_host(imported.mod, inputs), run_litert(model, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=BOUND)
    return imported


def _below(count: int) -> TfliteBuilder:
    m = TfliteBuilder()
    number, _ = m.take("int32", 1), m.take("float32", 2, 3)
    m.op("LESS", [number, m.hold([count])], [m.tensor("bool", 1)])
    return m


def _round() -> TfliteBuilder:
    m = TfliteBuilder()
    number, x = m.take("int32", 1), m.take("float32", 2, 3)
    following, y, z = m.tensor("int32", 1), m.tensor("float32", 2, 3), m.tensor("float32", 2, 3)
    m.op("ADD", [number, m.hold([1])], [following])
    m.op("MUL", [x, m.hold([1.5], "float32")], [y])
    m.op("SIN", [y], [z])
    return m


def _loop(begin: list[int] | None) -> TfliteBuilder:
    m = TfliteBuilder()
    number = m.take("int32", 1) if begin is None else m.hold(begin)
    outputs = [m.tensor("int32", 1), m.tensor("float32", 2, 3, name="loop")]
    m.op("WHILE", [number, m.take("float32", 2, 3)], outputs, condSubgraphIndex=1, bodySubgraphIndex=2)
    return m


def _looped(begin: list[int] | None) -> bytes:
    body = _round()
    outputs = [op.outputs[0] for op in body.operators]
    return program(_loop(begin), _below(4), body, outputs={2: [outputs[0], outputs[2]]})


def test_loop_is_unrolled(tmp_path: Path):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    imported = check(tmp_path, _looped([1]), x)
    assert str(imported.mod).count("R.sin") == 3
    assert list(imported.nodes.values()) == ["WHILE", "LESS", "ADD", "MUL", "SIN"]


@pytest.mark.parametrize("begin", [-3, 3, 4, 9])
def test_loop_that_data_end(tmp_path: Path, begin: int):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    imported = check(tmp_path, _looped(None), np.array([begin], np.int32), x)
    assert [each.is_loop for each in split(imported.mod).decisions()] == [True]


def test_long_loop_stays_one(tmp_path: Path):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    imported = check(tmp_path, _looped([-5000]), x)
    assert str(imported.mod).count("R.sin") == 1


def test_weights_that_rounds_pass_on_are_constants(tmp_path: Path):
    """A converter makes states of the weights that a round reads."""
    main, more, body = TfliteBuilder(), TfliteBuilder(), TfliteBuilder()
    weights = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    states = [main.take("int32", 1), main.take("float32", 2, 3), main.hold(weights, "float32")]
    kinds = [("int32", 1), ("float32", 2, 3), ("float32", 3, 3)]
    outputs = [main.tensor(kind, *shape) for kind, *shape in kinds]
    main.op("WHILE", states, outputs, condSubgraphIndex=1, bodySubgraphIndex=2)
    numbers = [[m.take(kind, *shape) for kind, *shape in kinds] for m in (more, body)]
    more.op("LESS", [numbers[0][0], more.hold([4])], [more.tensor("bool", 1)])
    following, y = body.tensor("int32", 1), body.tensor("float32", 2, 3)
    body.op("ADD", [numbers[1][0], body.hold([1])], [following])
    body.op("FULLY_CONNECTED", [numbers[1][1], numbers[1][2], -1], [y])
    model = program(main, more, body, outputs={0: outputs[:2], 2: [following, y, numbers[1][2]]})
    imported = check(tmp_path, model, np.array([1], np.int32), np.ones((2, 3), np.float32))
    pieces = split(imported.mod).pieces.values()
    assert all([*map(int, p.ty.shape.values)] != [3, 3] for mod in pieces for p in mod["main"].params)


def test_branch_is_chosen_by_data(tmp_path: Path):
    m, branches = TfliteBuilder(), [TfliteBuilder(), TfliteBuilder()]
    condition, x = m.take("bool", 1), m.take("float32", 2, 3)
    m.op("IF", [condition, x], [m.tensor("float32", 2, 3)], thenSubgraphIndex=1, elseSubgraphIndex=2)
    for name, branch in zip(["SIN", "COS"], branches, strict=True):
        branch.op(name, [branch.take("float32", 2, 3)], [branch.tensor("float32", 2, 3)])
    value = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    for chosen in (True, False):
        check(tmp_path, program(m, *branches), np.array([chosen]), value)


def test_costly_branch_is_run_alone(tmp_path: Path):
    m, branches = TfliteBuilder(), [TfliteBuilder(), TfliteBuilder()]
    m.op(
        "IF",
        [m.take("bool", 1), m.take("float32", 2, 3)],
        [m.tensor("float32", 2, 3)],
        thenSubgraphIndex=1,
        elseSubgraphIndex=2,
    )
    for seed, branch in enumerate(branches):
        weights = np.random.default_rng(seed).normal(size=(3, 3)).astype(np.float32)
        inputs = [branch.take("float32", 2, 3), branch.hold(weights, "float32"), -1]
        branch.op("FULLY_CONNECTED", inputs, [branch.tensor("float32", 2, 3)])
    for chosen in (True, False):
        imported = check(tmp_path, program(m, *branches), np.array([chosen]), np.ones((2, 3), np.float32))
    assert [each.is_loop for each in split(imported.mod).decisions()] == [False]


def test_graph_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"damaged or truncated .*graph 1, but the model has 1 graphs"):
        load(tmp_path, program(_loop([1])))


def _runs(number: int, times: int = 1) -> TfliteBuilder:
    """Return a graph that calls another graph some times, each time with the result before."""
    m = TfliteBuilder()
    x = m.take("float32", 4)
    for _ in range(times):
        y = m.tensor("float32", 4)
        m.op("CALL", [x], [y], subgraph=number)
        x = y
    return m


def _branches_into(number: int) -> TfliteBuilder:
    m = TfliteBuilder()
    inputs = [m.take("bool", 1), m.take("float32", 4)]
    m.op("IF", inputs, [m.tensor("float32", 4)], thenSubgraphIndex=number, elseSubgraphIndex=number)
    return m


def _sine() -> TfliteBuilder:
    m = TfliteBuilder()
    m.op("SIN", [m.take("float32", 4)], [m.tensor("float32", 4)])
    return m


WITHOUT_END = {
    "itself": (program(_runs(0)), "graph 0 of the file runs itself"),
    "by a branch": (program(_branches_into(0)), "graph 0 of the file runs itself"),
    "by another": (
        program(_runs(1), _runs(2), _runs(1)),
        "graph [12] of the file runs itself, directly or by",
    ),
    "70 deep": (
        program(*[_runs(k + 1) for k in range(70)], _sine()),
        "nested 70 deep; at most 64",
    ),
    "2^30": (
        program(*[_runs(k + 1, 2) for k in range(30)], _sine()),
        r"\d{10} operators; at most 50000 can be",
    ),
}


@pytest.mark.parametrize("case", WITHOUT_END)
def test_graphs_without_end_are_refused(tmp_path: Path, case: str):
    model, says = WITHOUT_END[case]
    with pytest.raises(ModelError, match=says):
        load(tmp_path, model)


def _choices(depth: int) -> bytes:
    """Sine through branches inside each other; where the condition, a run-time input, is false, cosine."""
    graphs = []
    for number in range(depth):
        m = TfliteBuilder()
        condition, x = m.take("bool", 1), m.take("float32", 2, 3)
        result = m.tensor("float32", 2, 3, name=f"choice{number}")
        m.op(
            "IF",
            [condition, condition, x],
            [result],
            thenSubgraphIndex=number + 1,
            elseSubgraphIndex=depth + 1,
        )
        graphs.append(m)
    for name in ("SIN", "COS"):
        m = TfliteBuilder()
        m.take("bool", 1)
        m.op(name, [m.take("float32", 2, 3)], [m.tensor("float32", 2, 3)])
        graphs.append(m)
    return program(*graphs)


@pytest.mark.parametrize("condition", [True, False])
def test_branches_inside_each_other(tmp_path: Path, condition: bool):
    check(tmp_path, _choices(40), np.array([condition]), np.ones((2, 3), np.float32))


@pytest.mark.parametrize("depth", [65, 200])
def test_branches_too_deep_inside_each_other(tmp_path: Path, depth: int):
    with pytest.raises(ModelError, match=f"IF node 'choice0' runs .* nested {depth} deep; at most 64"):
        load(tmp_path, _choices(depth))


def test_rounds_of_loops_count_towards_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("arm_ext.frontends.tflite.graphs.MOST_CALLS", 12)
    load(tmp_path, program(_runs(1), _runs(2), _sine()))
    with pytest.raises(ModelError, match="at least 13 operators"):
        load(tmp_path, _looped([0]))


def _counter(*, assigned: bool, leaves_out: bool = False) -> bytes:
    """x + s, which is s then; s begins with 1, 2, 3. Empty lists of inputs may be left out of the file."""
    m, begin = TfliteBuilder(), TfliteBuilder()
    m.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    for graph in (m, begin):
        graph.op("VAR_HANDLE", [], [_handle(graph)], sharedName="kept")
    begin.op("ASSIGN_VARIABLE", [0, begin.hold([[1, 2, 3]], "float32")], [])
    old, new = m.tensor("float32", 1, 3), m.tensor("float32", 1, 3, name="sum")
    m.op("READ_VARIABLE", [0], [old])
    m.op("ADD", [m.take("float32", 1, 3), old], [new])
    if assigned:
        m.op("ASSIGN_VARIABLE", [0, new], [])
    for holder in (begin, *m.operators, *begin.operators) if leaves_out else ():
        holder.inputs = holder.inputs or None
    return program(m, begin, outputs={0: [new], 1: []})


def _handle(m: TfliteBuilder) -> int:
    number = m.tensor("int32", name="handle")
    m.tensors[number].type = schema.TensorType.RESOURCE
    return number


@pytest.mark.parametrize("leaves_out", [False, True])
def test_variable_is_a_state(tmp_path: Path, leaves_out: bool):
    model = _counter(assigned=True, leaves_out=leaves_out)
    imported = load(tmp_path, model)
    (state,) = imported.states
    assert (state.input, state.output) == ("kept", "kept.next")
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    kept = state.initial
    for step in range(3):
        x = np.full((1, 3), step + 0.5, np.float32)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        found, kept = run_on_host(imported.mod, [x, kept])
        np.testing.assert_array_equal(
            found, interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        )


def _assigning(kind: str) -> bytes:
    """A variable that a branch assigns, or each round of a loop; beside it a product in the branch, if it is costly."""
    main, begin, first, second = (TfliteBuilder() for _ in range(4))
    main.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    for graph in (main, begin, first, second):
        graph.op("VAR_HANDLE", [], [_handle(graph)], sharedName="kept")
    begin.op("ASSIGN_VARIABLE", [0, begin.hold([[1, 2, 3]], "float32")], [])
    control, x = main.take("int32" if kind == "loop" else "bool", 1), main.take("float32", 1, 3)
    results = [main.tensor("int32", 1)] if kind == "loop" else []
    results.append(main.tensor("float32", 1, 3, name="result"))
    names = (
        ("condSubgraphIndex", "bodySubgraphIndex")
        if kind == "loop"
        else ("thenSubgraphIndex", "elseSubgraphIndex")
    )
    given = dict(zip(names, (2, 3), strict=True))
    main.op("WHILE" if kind == "loop" else "IF", [control, x], results, **given)
    outputs: dict[int, list[int]] = {0: results[-1:], 1: []}
    for place, graph in ((2, first), (3, second)):
        number = graph.take("int32", 1) if kind == "loop" else None
        taken = graph.take("float32", 1, 3)
        if kind == "loop" and place == 2:
            graph.op("LESS", [number, graph.hold([4])], [graph.tensor("bool", 1)])
            continue
        old, new = graph.tensor("float32", 1, 3), graph.tensor("float32", 1, 3)
        graph.op("READ_VARIABLE", [0], [old])
        if kind == "costly":
            inputs = [taken, graph.hold(np.eye(3), "float32"), -1]
            graph.op("FULLY_CONNECTED", inputs, [taken := graph.tensor("float32", 1, 3)])
        graph.op("ADD" if place == 3 else "SUB", [taken, old], [new])
        if kind == "loop" or place == 2:
            graph.op("ASSIGN_VARIABLE", [0, new], [])
        outputs[place] = [new]
        if number is not None:
            following = graph.tensor("int32", 1)
            graph.op("ADD", [number, graph.hold([1])], [following])
            outputs[place] = [following, new]
    return program(main, begin, first, second, outputs=outputs)


@pytest.mark.parametrize("kind", ["cheap", "costly", "loop"])
def test_variable_that_a_branch_or_round_assigns(tmp_path: Path, kind: str):
    model = _assigning(kind)
    imported = load(tmp_path, model)
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    kept = imported.states[0].initial
    for step in range(4):
        control = np.array([step]) if kind == "loop" else np.array([step % 2 == 0])
        given = [control.astype(details[0]["dtype"]), np.full((1, 3), step + 0.5, np.float32)]
        for detail, value in zip(details, given, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        found, kept = run_on_host(imported.mod, [*given, kept])
        (output,) = interpreter.get_output_details()
        np.testing.assert_allclose(found, interpreter.get_tensor(output["index"]), rtol=BOUND)


def test_variable_that_stays_is_a_constant(tmp_path: Path):
    assert check(tmp_path, _counter(assigned=False), np.ones((1, 3), np.float32)).states == ()


def _open(shape: Sequence[int]) -> TfliteBuilder:
    """Pairs of rows, summed: the sizes of a reshape follow from the input's."""
    m = TfliteBuilder()
    x, size, first = m.take("float32", *shape), m.tensor("int32", 2), m.tensor("int32")
    m.op("SHAPE", [x], [size], outType=schema.TensorType.INT32)
    begin, end, step = m.hold([0]), m.hold([1]), m.hold([1])
    m.op("STRIDED_SLICE", [size, begin, end, step], [first], shrinkAxisMask=1)
    sizes, pairs, y = m.tensor("int32", 3), m.tensor("float32", 1, 3, 2), m.tensor("float32", 1, 3)
    m.op("PACK", [first, m.hold(3), m.hold(2)], [sizes], valuesCount=3)
    m.op("RESHAPE", [x, sizes], [pairs])
    m.op("SUM", [pairs, m.hold([2])], [y])
    for number in (x, pairs, y):
        m.tensors[number].shapeSignature = [-1, *m.tensors[number].shape[1:]]
    return m


def test_open_size_is_chosen(tmp_path: Path):
    model = _open((1, 6)).build()
    (tmp_path / "model.tflite").write_bytes(model)
    assert import_tflite(tmp_path / "model.tflite").inputs[0].shape == (1, 6)
    imported = import_tflite(tmp_path / "model.tflite", {"t0": (4, 6)})
    assert [spec.describe() for spec in imported.outputs] == ["t8 float32[4, 3]"]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    (found,), (expected,) = run_on_host(imported.mod, [x]), imported.reference([x])[0]
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(UsageError, match=r"\[4, 8\] is not the model's \[\?, 6\].*left open"):
        import_tflite(tmp_path / "model.tflite", {"t0": (4, 8)})


def test_accelerators_parts_are_refused_with_advice(tmp_path: Path):
    m = TfliteBuilder()
    m.op("ADD", [m.take("float32", 1)], [m.tensor("float32", 1)])
    # Such files have the number of an ADD beside the name.
    m.codes[0].customCode = "DISPATCH_OP"
    with pytest.raises(ModelError, match=r"CUSTOM.DISPATCH_OP \(1x\): t1\n +it is a part that was compiled"):
        load(tmp_path, m.build())
