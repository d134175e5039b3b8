# SPDX-License-Identifier: Apache-2.0
"""StableHLO programs on a board."""

from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.board import Board
from tests.arm_ext.frontends.stablehlo.models import exported

# Sums in another order, and other polynomials for exponentials.
BOUND = 2e-6


@pytest.mark.parametrize("name", [pytest.param("cnn", marks=pytest.mark.long), "transformer"])
def test_board_computes_what_xla_does(tmp_path: Path, board: Board, name: str):
    package = arm_ext.compile(exported(name), output=tmp_path / "p").package
    selftest = package.selftest()
    assert selftest.source_runtime.startswith("XLA of jax ")
    found = board.load(package.so).run(selftest.inputs)
    for ours, host, xla in zip(found, selftest.expected, selftest.source, strict=True):
        for wanted in (host, xla):
            assert np.abs(ours - wanted).max() <= BOUND * np.abs(wanted).max()
