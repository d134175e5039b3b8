# SPDX-License-Identifier: Apache-2.0
"""Damaged model files end in a clean error or in a model."""

import os
import sys
from pathlib import Path

import pytest

from tests.fuzz import importing
from tests.fuzz.damage import FORMATS, whole_files
from tests.fuzz.importing import import_damaged

FILES = {"pt2": 12}
"""Number of damaged files of the format whose import takes longest; 30 of the others."""


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(tmp_path: Path, kind: str):
    files = range(FILES.get(kind, 30))
    outcomes = list(import_damaged(whole_files(kind), kind, 0, files, tmp_path))
    assert [o.number for o in outcomes] == list(files)
    assert [o for o in outcomes if o.what == "defect"] == []
    # Neither are all files beyond reading, nor is the damage without effect.
    assert 0 < sum(o.what == "imported" for o in outcomes) < len(files)


def _crash(path: Path) -> None:
    os._exit(3)


def _hang(path: Path) -> None:
    while True:
        pass


def _hoard(path: Path) -> None:
    bytearray(2 * importing.MEMORY_BYTES)


def _stray(path: Path) -> None:
    raise KeyError("lost")


def _leave(path: Path) -> None:
    sys.exit(3)


@pytest.mark.parametrize(
    ("effect", "why"),
    [
        (_crash, "ends the process with 3"),
        (_hang, "hangs"),
        (_hoard, "MemoryError"),
        (_stray, "KeyError: 'lost'"),
        (_leave, "SystemExit: 3"),
    ],
)
def test_other_effects_are_defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effect: object, why: str):
    monkeypatch.setattr(importing, "import_model", effect)
    if effect is _hang:  # the others end by themselves, which takes its time on a busy machine
        monkeypatch.setattr(importing, "TIMEOUT_SECONDS", 0.5)
    outcomes = list(import_damaged(whole_files("tflite"), "tflite", 0, range(2), tmp_path))
    assert [o.number for o in outcomes] == [0, 1]
    assert all(o.what == "defect" and why in o.why for o in outcomes)
