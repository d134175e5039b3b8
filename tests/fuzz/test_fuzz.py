# SPDX-License-Identifier: Apache-2.0
"""Random graphs compute what they are defined to; and the machinery that says so finds what does not."""

import os
import sys
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import Phase, assume, given, settings
from onnx import TensorProto

from arm_ext.frontends.onnx.reference import run_onnxruntime
from tests.fuzz import campaign
from tests.fuzz.campaign import COUNTED, Failure, Tally, covering, run_shard, shards
from tests.fuzz.compiled import Outcome
from tests.fuzz.definitions import FORMS
from tests.fuzz.graphs import Case, float_cases
from tests.fuzz.groups import UndefinedError
from tests.fuzz.oracle import UNCHECKED, check_float, check_quantized
from tests.fuzz.quantized import quantized_cases

SEED = 0
QUICK = (
    *(23, 38, 43, 44, 47, 58, 79, 81, 83, 84, 88, 90, 93, 95, 100),
    *(103, 111, 118, 124, 127, 128, 140, 154),
)
"""Of the graphs that `python scripts/fuzz.py --examples 160 --cover 2` prints, the cheapest that provoke each rule, and
hold each operator against its definition."""
LEAST = 0.05
"""Of many graphs, the least share that provokes a rule."""

few = settings(max_examples=20, database=None, deadline=None, derandomize=True, phases=[Phase.generate])


def test_random_graphs_compute_what_they_are_defined_to() -> None:
    # In this process, as another one takes as long to begin as for 10 graphs.
    total = run_shard(QUICK, SEED)
    assert isinstance(total, Tally), str(total)
    _covers(total, 1)


@pytest.mark.long
def test_a_thousand_random_graphs_do() -> None:
    total = Tally()
    for result in shards(range(1000), SEED, len(os.sched_getaffinity(0))):
        assert isinstance(result, Tally), str(result)
        total.add(result)
    _covers(total, LEAST * total.graphs)


def _covers(total: Tally, least: float) -> None:
    seldom = {name: total.rules[name] for name in COUNTED if total.rules[name] < least}
    assert not seldom, f"of {total.graphs} graphs too few provoke these rules (limit {least:g}): {seldom}"
    unchecked = set(FORMS) - set(total.definitions)
    assert not unchecked, f"no graph holds these operators against their definition: {unchecked}"


def test_few_graphs_cover_what_all_do() -> None:
    rules = ({"a": 1}, {"a": 1, "b": 1}, {"b": 3}, {"a": 1, "b": 1, "c": 1})
    tallies = [Tally([n], rules=Counter(found)) for n, found in enumerate(rules)]
    tallies[0].definitions["add"] = 1
    assert covering(tallies, 1) == [0, 3]
    assert covering(tallies, 2) == [0, 1, 3]


def test_a_seed_draws_the_same_graphs_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[bytes] = []

    def note(case: Case) -> Outcome:
        drawn.append(case.model.SerializeToString())
        return Outcome(None, Counter(), Counter())

    monkeypatch.setattr(campaign, "outcome_of", note)
    assert isinstance(run_shard(range(5), 3), Tally)
    # In another process other modules are loaded.
    (tmp_path / "numbers.py").write_text(f"NUMBERS = {list(range(256))}")
    spec = spec_from_file_location("more_numbers", tmp_path / "numbers.py")
    monkeypatch.setitem(sys.modules, spec.name, module_from_spec(spec))
    for numbers, seed in ((range(3), 3), (range(3, 5), 3), (range(5), 4)):
        assert isinstance(run_shard(numbers, seed), Tally)
    assert drawn[:5] == drawn[5:10]
    assert len({*drawn}) == 10


def test_a_failure_is_shrunk_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_product(case: Case) -> Outcome:
        fault = "a product" if any(node.op_type == "Mul" for node in case.model.graph.node) else None
        return Outcome(fault, Counter(), Counter())

    monkeypatch.setattr(campaign, "outcome_of", no_product)
    failure = run_shard(range(20), 0)
    assert isinstance(failure, Failure)
    assert len(onnx.load_model_from_string(failure.model).graph.node) <= 8  # one step is left
    lines = str(failure).splitlines()
    assert lines[0] == "a product"
    assert any(" = Mul(" in line for line in lines)
    assert lines[-1] == f"again: python scripts/fuzz.py --seed 0 --first {failure.number} --examples 1"


@few
@given(float_cases())
def test_a_wrong_float_is_found(case: Case) -> None:
    outputs = run_onnxruntime(case.model.SerializeToString(), case.inputs, integers=False)
    assert check_float(case.model, case.inputs, outputs) is None
    outputs[-1] = outputs[-1] + np.float32(0.01) * np.abs(outputs[-1]).max() + np.float32(0.01)
    assert "is off by" in str(check_float(case.model, case.inputs, outputs))


@few
@given(quantized_cases())
def test_a_wrong_integer_is_found(case: Case) -> None:
    # onnxruntime takes no values of 16 bits before opset 21.
    assume(all(constant.data_type != TensorProto.INT16 for constant in case.model.graph.initializer))
    outputs = run_onnxruntime(case.model.SerializeToString(), case.inputs, integers=False)
    broken = outputs[-1].copy()
    limits = np.iinfo(broken.dtype)
    broken.flat[0] = limits.max if broken.flat[0] <= limits.max // 2 else limits.min
    try:
        fault, forms = check_quantized(case.model, case.inputs, [*outputs[:-1], broken])
    except UndefinedError:
        return
    assume(UNCHECKED not in forms)
    assert "is off by" in str(fault)
