# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.attributes import encoded
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.trees import tree_ensemble as kernel
from schedules.kernels.trees.tree_ensemble import Params
from schedules.numerics.tree_ensemble import IDENTITY, Forest, Trees, tree_ensemble, tree_ensemble_routine
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.programs import BASELINE, NEON, Array, assembly, loops, model_so, run_on_host

CORE = CORES["neoverse-n2"]


class Case:
    """Trees of random shapes, data that hit their thresholds exactly, and the result of the definition."""

    def __init__(
        self,
        trees: int,
        depth: int,
        rows: int,
        columns: int = 5,
        targets: int = 1,
        *,
        shared: bool = False,
        aggregate: str = "sum",
        kinds: int = 3,
        dtype: str = "float32",
        ragged: float = 0.3,
    ) -> None:
        rng = np.random.default_rng(3)
        nodes: list[tuple[float, int, int, int]] = [(np.inf, 0, k, 0) for k in range(trees)]
        levels, leaves = np.zeros(trees, int), 0
        paths: list[list[int]] = [[] for _ in range(trees)]
        open_ = [(k, k, 0) for k in range(trees)]
        while open_:
            at, tree, level = open_.pop()
            levels[tree] = max(levels[tree], level)
            if level == depth or (level and rng.random() < ragged):
                nodes[at], leaves = (np.inf, 0, at, leaves), leaves + 1
                paths[tree].append(level)
                continue
            kind, threshold = int(rng.integers(kinds)), float(rng.integers(-2, 3)) / 2
            nodes[at] = (threshold, kind * columns + int(rng.integers(columns)), len(nodes), 0)
            open_ += [(len(nodes), tree, level + 1), (len(nodes) + 1, tree, level + 1)]
            nodes += [(np.inf, 0, 0, 0)] * 2
        steps = float(sum(np.mean(path) for path in paths))
        groups = (trees,) if shared else tuple(len(range(k, trees, targets)) for k in range(targets))
        self.forest = Forest(
            columns, targets, depth, steps, int(levels.sum()), groups, kinds, shared, aggregate
        )
        thresholds, features, children, rows_of = (np.array(column) for column in zip(*nodes, strict=True))
        base = rng.normal(size=targets) if aggregate == "sum" else np.full(targets, IDENTITY[aggregate])
        self.trees = Trees(
            thresholds.astype(dtype),
            features.astype(np.int32),
            children.astype(np.int32),
            rows_of.astype(np.int32),
            np.arange(trees, dtype=np.int32),
            rng.normal(size=(leaves, targets if shared else 1)).astype(np.float32),
            base.astype(np.float32),
        )
        self.x = (rng.integers(-3, 4, (rows, columns)) / 2).astype(dtype)
        self.x[rng.random(self.x.shape) < 0.2] = np.nan
        self.inputs, self.constants = [self.x], self.trees.arrays
        # Sums of that many weights of about 1 in another order; minimum and maximum are exact.
        self.bound = 1e-6 * trees if aggregate == "sum" else 0
        self.expected = tree_ensemble(self.forest, self.x, self.trees)
        constants = [
            Operand(array.shape, str(array.dtype), "constant", k) for k, array in enumerate(self.trees.arrays)
        ]
        attributes = tuple((name, encoded(value)) for name, value in sorted(self.forest.attributes.items()))
        data = Operand(self.x.shape, dtype, "input", 0)
        self.workload = Workload(
            kernel.COMPOSITE, (data, *constants), attributes, (), self.expected.shape, "float32"
        )

    def call(self, params: Params) -> tuple[object, list[Array], tuple[int, ...], str]:
        packed = kernel.pack(self.workload, params, self.trees.arrays)
        return kernel.build(self.workload, params), [self.x, *packed], self.expected.shape, "float32"

    def check(self, actual: Array) -> None:
        np.testing.assert_allclose(actual, self.expected, rtol=0, atol=self.bound)


CASES = [
    Case(1, 0, 1),
    Case(1, 3, 1),
    Case(9, 4, 3, kinds=1),
    Case(8, 6, 7, ragged=0.0, kinds=2),
    Case(13, 5, 31, targets=3),
    Case(7, 5, 8, targets=9, shared=True),
    Case(6, 4, 9, columns=300, targets=4, shared=True, aggregate="min"),
    Case(6, 4, 9, aggregate="max", dtype="float64"),
    Case(5, 9, 66, columns=31, kinds=2, dtype="float64"),
]


def test_the_routine_equals_the_definition():
    for case in CASES[1:]:
        routine = tree_ensemble_routine(case.forest, len(case.x), case.trees)
        func = routine.func.with_attr("global_symbol", "trees")
        case.check(run_on_host(func, [case.x, *case.trees.arrays], case.expected.shape, "float32"))


def test_equals_the_definition(tmp_path: Path, board: Board):
    chosen = [(case, kernel.candidates(case.workload, CORE)[-1 - k % 2]) for k, case in enumerate(CASES)]
    chosen += [(CASES[4], Params(2, 8, True, parallel=True)), (CASES[8], Params(4, 16, False, True))]
    calls = [case.call(params) for case, params in chosen]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for (case, _), actual in zip(chosen, outputs, strict=True):
        case.check(actual)


def test_rows_and_threads_give_the_same_bits():
    case = CASES[4]
    values = [
        run_on_host(*case.call(params))
        for params in (Params(4, 31), Params(4, 8), Params(4, 8, parallel=True), Params(4, 1, early=True))
    ]
    assert all((value == values[0]).all() for value in values)


@pytest.mark.parametrize("walks", [4, 8])
@pytest.mark.parametrize("target", [NEON, {**NEON, "mcpu": "cortex-a76"}], ids=["neoverse-n2", "cortex-a76"])
def test_a_step_takes_six_instructions_and_no_branch(walks: int, target: dict[str, object]):
    func = CASES[3].call(Params(walks, 7, fused=True))[0]
    found = [loop for loop in loops(assembly(func, target)) if any("cinc" in line for line in loop)]
    assert found
    for steps in found:
        assert len(steps) == 6 * walks + 2
        assert [line[:2] for line in steps if line.startswith(("b", "cb", "tb"))] == ["b."]


def test_the_code_does_not_grow_with_the_trees():
    few, many = (assembly(Case(n, 4, 3).call(Params(4, 3))[0], BASELINE) for n in (8, 80))
    assert abs(len(few.splitlines()) - len(many.splitlines())) < 20


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[4].workload, CORE) == KernelMatch("13 trees of depth 5, 31 x 5")


def test_as_many_trees_as_fill_the_time_of_a_step_walk_side_by_side():
    assert kernel.default(Case(40, 6, 1, ragged=0.0).workload, CORE) == Params(8, 1, True)
    assert not kernel.default(Case(40, 6, 1).workload, CORES["cortex-a55"]).fused
    assert kernel.default(CASES[1].workload, CORE).walks == 1


def test_deep_trees_of_short_paths_end_early():
    case = CASES[3]
    forest = dataclasses.replace(case.forest, levels=8 * 29, steps=8 * 15.7)
    attributes = tuple((name, encoded(value)) for name, value in sorted(forest.attributes.items()))
    assert kernel.default(dataclasses.replace(case.workload, attributes=attributes), CORE).early
    assert not kernel.default(case.workload, CORE).early


def test_long_calls_are_parallel():
    large, small = (kernel.default(Case(40, 6, rows, ragged=0.0).workload, CORE) for rows in (256, 4))
    assert large.parallel
    assert large.rows < 256
    assert not small.parallel


def test_near_misses_name_limit_and_actual():
    good = CASES[2].workload
    refused = refusals_of(kernel, CORE)

    assert refused(dataclasses.replace(good, composite="arm.linear")) == ("arm.tree_ensemble", "arm.linear")
    first, *rest = good.operands
    empty = dataclasses.replace(first, shape=(0, *first.shape[1:]))
    assert refused(dataclasses.replace(good, operands=(empty, *rest)))[0] == "1 or more"
