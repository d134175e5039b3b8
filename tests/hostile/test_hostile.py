# SPDX-License-Identifier: Apache-2.0
"""The hostile cases as tests: a quick subset, and with -m long all of them.

One run of scripts/hostile.py serves all tests of a subset: cases are forks of a process that has loaded the compiler.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.case import Case
from tests.hostile.table import CASES, is_fast

ROOT = Path(__file__).parents[2]


def _outcomes(*options: str) -> dict[str, list[str]]:
    command = [sys.executable, str(ROOT / "scripts/hostile.py"), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def quick() -> dict[str, list[str]]:
    return _outcomes("--fast", "-j", "2")


def test_every_case_has_a_name_of_its_own():
    assert len({case.id for case in CASES}) == len(CASES)
    assert all(len(case.id.split("/")) == 3 for case in CASES)


@pytest.mark.parametrize("case", [case for case in CASES if is_fast(case)], ids=lambda case: case.id)
def test_quick(quick: dict[str, list[str]], case: Case):
    assert quick[case.id] == []


@pytest.mark.long
def test_all():
    wrong = {id_: faults for id_, faults in _outcomes("-j", str(os.cpu_count())).items() if faults}
    assert not wrong, "\n".join(f"{id_}: {'; '.join(faults)}" for id_, faults in wrong.items())
