# SPDX-License-Identifier: Apache-2.0
"""Exported programs of PyTorch on a board."""

from pathlib import Path

import numpy as np
import pytest
import zoo

import arm_ext
from arm_ext.board import Board
from tests.arm_ext.frontends.torch.models import MODELS, exported
from tests.arm_ext.frontends.torch.quantizer import quantized

SAMPLE = ("detector", "llama")

# Sums in another order, and other polynomials for exponentials, through up to twenty layers.
BOUND = 2e-6


def check(path: Path, board: Board, name: str) -> None:
    package = arm_ext.compile(exported(name), output=path).package
    selftest = package.selftest()
    assert selftest.source_runtime.startswith("torch ")
    found = board.load(package.so).run(selftest.inputs)
    for ours, host, torch in zip(found, selftest.expected, selftest.source, strict=True):
        for wanted in (host, torch):
            assert np.abs(ours - wanted).max() <= BOUND * np.abs(wanted).max()


@pytest.mark.parametrize("name", SAMPLE)
def test_board_computes_what_torch_does(tmp_path: Path, board: Board, name: str):
    check(tmp_path / "p", board, name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(MODELS) - set(SAMPLE)))
def test_board_computes_what_torch_does_of_every_architecture(tmp_path: Path, board: Board, name: str):
    check(tmp_path / "p", board, name)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mobilenet_v2", "bert_tiny"])
def test_board_computes_quantised_programs_as_the_host(tmp_path: Path, board: Board, name: str):
    package = arm_ext.compile(quantized(*zoo.network(name)), output=tmp_path / "p").package
    selftest = package.selftest()
    for ours, host in zip(board.load(package.so).run(selftest.inputs), selftest.expected, strict=True):
        assert np.array_equal(ours, host)
