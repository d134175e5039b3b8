# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from tests.kills.campaign import CASES, Campaign, Case


def killed(folder: Path, case: Case, moments: int) -> None:
    outcome = Campaign(folder, seed=0).run(case, moments)
    assert not outcome.faults
    assert outcome.finished + sum(outcome.kills.values()) == moments


# Databases of killed searches are looked at in tests/arm_ext/tune/test_database.py, too.
@pytest.mark.parametrize("name", ["compile over a package", pytest.param("db prune", marks=pytest.mark.long)])
def test_a_few_moments(tmp_path: Path, name: str):
    killed(tmp_path, next(case for case in CASES if case.name == name), 2)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_many_moments(tmp_path: Path, case: Case):
    killed(tmp_path, case, 24)
