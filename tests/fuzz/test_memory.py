# SPDX-License-Identifier: Apache-2.0
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, build, last, run_phases
from relay_passes.bounds import IndexCheck
from tests.fuzz.compiled import host_profile, lld
from tests.fuzz.memory import (
    EVERY,
    CrashedError,
    Tally,
    Worker,
    graph_of,
    guard_library,
    operators_of,
    run_graphs,
    run_program,
)
from tests.fuzz.memory_graphs import Graph, Input
from tests.fuzz.memory_operators import OPERATORS
from tests.fuzz.memory_programs import PROGRAMS

_SEED = 5


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    started = Worker(guard_library(tmp_path_factory.mktemp("guard")))
    yield started
    started.close()


def _held(numbers: Iterable[int], worker: Worker) -> Tally:
    tally = Tally()
    for number in numbers:
        run_graphs(_SEED, [number], worker, tally)
    assert not tally.findings, tally.findings[0]
    return tally


def test_no_graph_accesses_memory_outside_of_its_tensors(worker: Worker) -> None:
    # Each second operator, and all whose indices are checked in three ways.
    indexed = {"gather", "scatter_nd", "rotary"}
    tally = _held([n for n, name in enumerate(sorted(OPERATORS)) if n % 2 == 0 or name in indexed], worker)
    assert {operator for operator, _, kind, _ in tally.covered if kind} >= indexed
    assert {outcome for *_, outcome in tally.covered} == {"result", "error"}


def test_nor_do_several_as_one_module(worker: Worker) -> None:
    """Of which one has a result of no fixed size, and refuses the module."""
    numbers = range(4)
    seed = next(
        seed
        for seed in itertools.count()
        if any(operators_of(np.random.default_rng([seed, n]), n, 1) == ["non_zero"] for n in numbers)
    )
    tally = Tally()
    run_graphs(seed, numbers, worker, tally, most=1)
    assert not tally.findings, tally.findings[0]
    assert (tally.graphs, tally.refused.total()) == (3, 1)


@pytest.mark.parametrize("kind", range(len(PROGRAMS)))
def test_no_program_with_states_or_of_any_length_does(kind: int, worker: Worker) -> None:
    tally = Tally()
    run_program(_SEED, EVERY * (kind + 1) - 1, worker, tally)
    assert not tally.findings, tally.findings[0]
    assert not tally.refused
    assert {outcome for *_, outcome in tally.covered} == {"result", "error"}


@pytest.mark.long
def test_nor_does_any_of_two_thousand(worker: Worker) -> None:
    _held(range(2000), worker)


def test_every_operator_begins_a_graph_in_turn() -> None:
    first = {graph_of(_SEED, number).model().SerializeToString() for number in range(len(OPERATORS))}
    assert len(first) == len(OPERATORS)


def _library(model: onnx.ModelProto, folder: Path) -> Path:
    profile, library = host_profile(), folder / "model.so"
    planned = last(run_phases(PhaseResult(import_onnx(model).mod), PhaseOptions(profile))).mod
    build(planned, profile).export_library(str(library), fcompile=lld)
    return library


def _rows(op: str, count: int, width: int = 16) -> onnx.ModelProto:
    """Rows, by default of 64 bytes, which leave nothing beside a tensor, accessed by an index that is given."""
    g = Graph(np.random.default_rng(0))
    g.inputs += [Input("x", (count, width), np.dtype("f4")), Input("i", (1, 1), np.dtype("i8"))]
    given = ["x", "i"]
    if op == "ScatterND":
        g.inputs.append(Input("u", (1, width), np.dtype("f4")))
        given.append("u")
    g.give(g.node(op, given))
    return g.model()


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that read and write wherever an index says: what the guard pages are for."""

    def nothing(mod: tvm.IRModule, _trusted: object = ()) -> tuple[tvm.IRModule, list[IndexCheck]]:
        return mod, []

    monkeypatch.setattr("arm_ext.pipeline.lower.check_indices", nothing)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("op", "wrong"), [("GatherND", -65), ("ScatterND", 64)])
def test_a_planted_access_out_of_bounds_ends_the_process(
    op: str, wrong: int, worker: Worker, tmp_path: Path
) -> None:
    library, x = _library(_rows(op, 64), tmp_path), np.zeros((64, 16), "f4")
    values = [x, np.array([[wrong]]), *([x[:1]] if op == "ScatterND" else [])]
    with pytest.raises(CrashedError, match="code -11"):
        list(worker.run(library, [[values]]))


@pytest.mark.usefixtures("unchecked")
def test_a_planted_access_beside_a_tensor_is_seen_by_what_lies_there(worker: Worker, tmp_path: Path) -> None:
    """A row of 16 bytes, of 64 that are aligned."""
    x = np.zeros((1, 4), "f4")
    read, written = (_library(_rows(op, 1, 4), _made(tmp_path / op)) for op in ("GatherND", "ScatterND"))
    ((_, faults),) = worker.run(read, [[[x, np.array([[2]])]]])
    assert any("depends on what is beside" in fault for fault in faults)
    ((_, faults),) = worker.run(written, [[[x, np.array([[2]]), x]]])
    assert any("bytes beside tensors were overwritten" in fault for fault in faults)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_with_the_checks_there_is_an_error_instead(worker: Worker, tmp_path: Path) -> None:
    library, x = _library(_rows("ScatterND", 63), tmp_path), np.zeros((63, 16), "f4")
    for wrong in (63, -64, 2**62):
        ((((error, outputs),), faults),) = worker.run(library, [[[x, np.array([[wrong]]), x[:1]]]])
        assert (outputs, faults) == ([], [])
        assert error == "node 'n0': an index is out of bounds for an axis of size 63"
