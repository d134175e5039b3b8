# SPDX-License-Identifier: Apache-2.0
"""Random graphs with indices, sizes and offsets of run time, in a process where each tensor has guard pages.

Graphs are compiled for this machine in turn as packages are, with all activations in one arena, and with each
activation in memory of its own; and run with right and wrong indices. No access may be outside of a tensor's memory, no
result may depend on what is beside one, results are onnxruntime's, and there is an error where onnxruntime has one.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime
from tvm import relax

from arm_ext.api.model_source import Source
from arm_ext.api.options import ModelOptions
from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, build, last, run_phases
from arm_ext.shapes.given import buckets_of
from arm_ext.shapes.variants import merge_variants
from tests.fuzz.compiled import host_profile, lld
from tests.fuzz.describe import listing
from tests.fuzz.memory_graphs import BEYOND_INT32, FLOATS, Batch, Graph, batches
from tests.fuzz.memory_operators import OPERATORS, SIZES
from tests.fuzz.memory_programs import PROGRAMS, Program

GRAPH_OPERATORS = 3
"""At most so many operators with indices a graph."""

EVERY = 10
"""Of so many graphs, one is a program with states or of any length."""

_BOUND = 1e-4
"""Between float results here and of onnxruntime, relative to the largest."""


class CrashedError(RuntimeError):
    """The process that ran a model was ended by a signal."""


class Worker:
    """A process with guard pages around its tensors."""

    def __init__(self, guard: Path) -> None:
        """Start it.

        Args:
            guard: guard.c as a library.
        """
        self._environment = {**os.environ, "LD_PRELOAD": str(guard), "TVM_NUM_THREADS": "1"}
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, library: Path, machines: Sequence[Sequence[Sequence[np.ndarray]]], function: str = "main"
    ) -> Iterator[tuple[list[tuple[str, list[np.ndarray]]], list[str]]]:
        """Run a model: the inputs of each call in one machine, for each of several machines.

        Yields of each machine the error and the outputs of each call, and what was wrong with the memory.

        Raises:
            CrashedError: It accessed what it must not.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.memory_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
                cwd=Path(__file__).parents[2],
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((str(library), function, machines), process.stdin)
            process.stdin.flush()
            for _ in machines:
                yield pickle.load(process.stdout)
        except (EOFError, BrokenPipeError) as err:
            self._process = None
            raise CrashedError(f"the process ended with code {process.wait()}") from err

    def close(self) -> None:
        """End it."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
            self._process = None


def guard_library(folder: Path) -> Path:
    """guard.c, compiled."""
    library = folder / "guard.so"
    source = Path(__file__).with_name("guard.c")
    subprocess.run(["cc", "-O1", "-fPIC", "-shared", "-o", library, source], check=True)
    return library


@dataclass
class Tally:
    """What was covered.

    Attributes:
        graphs: How many were drawn and ran.
        runs: How many lists of inputs.
        covered: (operator, form of the index, kind of the value, outcome).
        refused: Operator → how many graphs with it were refused at compile time.
        lenient: Operator → how often it gave a result where onnxruntime has an error.
        findings: What went wrong, with the graph.
    """

    graphs: int = 0
    runs: int = 0
    covered: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    lenient: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Add another one."""
        self.graphs += other.graphs
        self.runs += other.runs
        self.covered += other.covered
        self.refused += other.refused
        self.lenient += other.lenient
        self.findings += other.findings

    def table(self) -> str:
        """Operators by kinds of values: how many runs gave a result and how many an error."""
        kinds = sorted({kind for _, _, kind, _ in self.covered})
        lines = ["operator: kind of index: results/errors"]
        for operator in sorted({operator for operator, *_ in self.covered}):
            cells = []
            for kind in kinds:
                counts = [
                    sum(
                        n
                        for (o, _, k, outcome), n in self.covered.items()
                        if (o, k, outcome) == (operator, kind, wanted)
                    )
                    for wanted in ("result", "error")
                ]
                if any(counts):
                    cells.append(f"{kind or 'right'} {counts[0]}/{counts[1]}")
            lines.append(f"{operator}: {', '.join(cells)}")
        forms: Counter[str] = Counter()
        for (_, form, _, _), n in self.covered.items():
            forms[form or "right"] += n
        lines.append("forms: " + ", ".join(f"{form} {n}" for form, n in sorted(forms.items())))
        for title, counts in (("refused", self.refused), ("no error, unlike onnxruntime", self.lenient)):
            lines.append(f"{title}: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
        return "\n".join(lines)


def operators_of(rng: np.random.Generator, number: int, most: int) -> list[str]:
    """The operators that the graph of a number has; now and then one whose result has no fixed size."""
    names = sorted(OPERATORS)
    chosen = [names[number % len(names)]]
    chosen += [str(rng.choice(names)) for _ in range(int(rng.integers(0, most)))]
    return [str(rng.choice(sorted(SIZES)))] if rng.integers(50) == 0 else chosen


def graph_of(seed: int, *numbers: int, most: int = GRAPH_OPERATORS) -> Graph:
    """The graphs of some numbers side by side, each of at most so many operators."""
    g = Graph(np.random.default_rng())
    for number in numbers:
        g.rng = np.random.default_rng([seed, number])
        for name in operators_of(g.rng, number, most):
            g.operator = name
            (OPERATORS | SIZES)[name](g)
    return g


def compiled(g: Graph, library: Path, *, arena: bool) -> None:
    """Compile a graph to a library; without an arena each activation has memory of its own."""
    profile = host_profile()
    with contextlib.ExitStack() as stack:
        if not arena:
            stack.enter_context(mock.patch.object(relax.transform, "StaticPlanBlockMemory", _no_plan))
        planned = last(run_phases(PhaseResult(import_onnx(g.model()).mod), PhaseOptions(profile))).mod
    build(planned, profile).export_library(str(library), fcompile=lld)


def _no_plan() -> Any:
    return relax.transform.Normalize()


def run_graphs(
    seed: int, numbers: Sequence[int], worker: Worker, tally: Tally, most: int = GRAPH_OPERATORS
) -> None:
    """Draw, compile and run the graphs of some numbers as one module, and programs each as its own."""
    programs = [number for number in numbers if number % EVERY == EVERY - 1]
    for number in programs:
        run_program(seed, number, worker, tally)
    graphs = [number for number in numbers if number not in programs]
    if not graphs:
        return
    g = graph_of(seed, *graphs, most=most)
    operators = sorted({given.operator for given in g.inputs if given.operator} or {g.operator})
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        try:
            compiled(g, library, arena=graphs[0] // len(numbers) % 2 == 0)
        except ModelError:
            if len(graphs) == 1:
                tally.refused.update(operators)
            else:  # one of them need not be the others' end
                for number in graphs:
                    run_graphs(seed, [number], worker, tally, most)
            return
        lists = batches(g)
        fault = _held(g, lists, library, worker, tally)
    tally.graphs += len(graphs)
    if fault:
        tally.findings.append(f"{fault}\nseed {seed}, graphs {graphs}\n{listing(g.model())}")


def program_of(seed: int, number: int) -> Program:
    """The program of a number."""
    g = Graph(np.random.default_rng([seed, number]))
    return PROGRAMS[number // EVERY % len(PROGRAMS)](g)


def run_program(seed: int, number: int, worker: Worker, tally: Tally) -> None:
    """Draw, compile and run one program."""
    program = program_of(seed, number)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "model.so"
        try:
            compiled_program(program, library)
        except ModelError:
            tally.refused[program.name] += 1
            return
        fault = _program_held(program, library, worker, tally)
    tally.graphs += 1
    if fault:
        what = f"{program.name} {program.shapes or program.states}: {fault}"
        tally.findings.append(f"{what}\nseed {seed}, program {number}\n{listing(program.model)}")


def compiled_program(program: Program, library: Path) -> None:
    """Compile a program to a library, as `compile` does."""
    profile = host_profile()
    source = Source(program.model, ModelOptions(state=program.states))
    variants, _ = source.variants(buckets_of(program.shapes), PhaseOptions(profile))
    for variant in variants:
        variant.run(None, lambda step: None)
    merged = merge_variants(variants)
    initial = [state.initial for state in merged.largest.model.states]
    build(merged.result.mod, profile, initial).export_library(str(library), fcompile=lld)


def _program_held(program: Program, library: Path, worker: Worker, tally: Tally) -> str | None:
    """What is wrong with the runs of a program, or None."""
    ran: list[Any] = []
    try:
        for answer in worker.run(library, program.calls, program.function):
            ran.append(answer)  # noqa: PERF402 (those before a crash tell which it was)
    except CrashedError as err:
        return f"{err}: {program.calls[len(ran)]}"
    for machine, ((answers, faults), wanted) in enumerate(zip(ran, program.expected(), strict=True)):
        tally.runs += len(answers)
        if faults:
            return f"{faults}\n{program.calls[machine]}"
        for call, ((error, outputs), expected) in enumerate(zip(answers, wanted, strict=True)):
            place = machine, call
            kind = "longer than the bound" if place in program.too_long else program.wrong.get(place, "")
            tally.covered[program.name, "as given", kind, "error" if error else "result"] += 1
            if place in program.too_long:
                expected = None
            if bool(error) != (expected is None):
                return f"call {call}: error '{error}', expected {expected}\n{program.calls[machine]}"
            if not all(_near(*pair) for pair in zip(outputs, expected or (), strict=True)):
                return f"call {call}: {outputs} instead of {expected}\n{program.calls[machine]}"
    return None


def _held(g: Graph, lists: Sequence[Batch], library: Path, worker: Worker, tally: Tally) -> str | None:
    """What is wrong with the runs of a graph, or None."""
    session = _session(g)
    inputs = [batch.inputs for batch in lists]
    ran: list[Any] = []
    try:
        for answer in worker.run(library, [[values] for values in inputs]):
            ran.append(answer)  # noqa: PERF402 (those before a crash tell which it was)
    except CrashedError as err:
        return f"{err}: {lists[len(ran)]}"
    for batch, (((error, outputs),), faults) in zip(lists, ran, strict=True):
        tally.runs += 1
        what = f"{batch.operator} {batch.wrong} {batch.form}"
        tally.covered[batch.operator, batch.form, batch.wrong, "error" if error else "result"] += 1
        if faults:
            return f"{what}: {faults}\n{batch.inputs}"
        if _undefined(batch):
            continue
        expected = _expected(session, g, batch)
        if expected is None and not error:
            tally.lenient[batch.operator] += 1
        elif expected is not None and error:
            return f"{what}: error '{error}', onnxruntime has none\n{batch.inputs}"
        for name, actual, wanted in zip(g.outputs, outputs, expected or (), strict=False):
            if name not in g.undefined and not _near(actual, wanted):
                return f"{what}: {name} is {actual} instead of {wanted}\n{batch.inputs}"
    return None


def _undefined(batch: Batch) -> bool:
    """Whether an index is what a processor makes of a float that no integer is near."""
    return batch.form == "of a float" and batch.wrong in (*FLOATS, *BEYOND_INT32)


def _session(g: Graph) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(g.model().SerializeToString(), options, ["CPUExecutionProvider"])


def _expected(session: Any, g: Graph, batch: Batch) -> list[np.ndarray] | None:
    """What onnxruntime gives; None for an error."""
    given = {value.name: array for value, array in zip(g.inputs, batch.inputs, strict=True)}
    try:
        return list(session.run(None, given))
    except Exception:  # its classes are not documented
        return None


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    scale = float(np.abs(b[np.isfinite(b)]).max(initial=1)) if b.dtype.kind == "f" else 0
    return bool(np.allclose(a, b, rtol=0, atol=_BOUND * scale, equal_nan=True))
