# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from arm_ext.common import cache
from arm_ext.common.cache import ASIDE, Entries, without_entries

KEY = "0" * 64

# Writes entries of a megabyte until it is killed: 00…, 01…, each with its number over and over.
_WRITER = """
import sys
from arm_ext.common.cache import Entries
entries = Entries("things", 1 << 40)
print("ready", flush=True)
for number in range(int(sys.argv[1])):
    entries.get(f"{number % 100:064x}", lambda: bytes([number % 100]) * (1 << 20))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "50%"))
    return tmp_path / "50%" / "things"


def _writer(count: int) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(count)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _refuse() -> bytes:
    raise AssertionError("there is one")


def test_an_entry_is_made_once(folder: Path) -> None:
    entries = Entries("things", limit=100)
    assert entries.get(KEY, lambda: b"made") == b"made"
    assert entries.get(KEY, _refuse) == b"made"
    assert entries.size() == (1, 32 + len(b"made"))
    entries.clear()
    assert entries.get(KEY, lambda: b"again") == b"again"


def test_files_of_the_user_stay(folder: Path) -> None:
    entries = Entries("things", limit=100)
    entries.get(KEY, lambda: b"made")
    mine = folder / "notes.txt"
    mine.write_bytes(b"mine" * 100)
    entries.trim()
    assert entries.size() == (1, 32 + len(b"made"))
    entries.clear()
    assert [*folder.iterdir()] == [mine]


@pytest.mark.parametrize("damage", [b"", b"x", b"x" * 36])
def test_a_damaged_entry_is_made_again(folder: Path, damage: bytes) -> None:
    entries = Entries("things", limit=100)
    entries.get(KEY, lambda: b"made")
    (folder / KEY).write_bytes(damage)
    assert entries.get(KEY, lambda: b"made") == b"made"
    assert entries.get(KEY, _refuse) == b"made"


def test_a_flipped_bit_is_damage(folder: Path) -> None:
    entries = Entries("things", limit=100)
    entries.get(KEY, lambda: b"made")
    whole = (folder / KEY).read_bytes()
    for at in range(len(whole)):
        (folder / KEY).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert entries.get(KEY, lambda: b"made") == b"made"


def test_the_oldest_go_first(folder: Path) -> None:
    entries = Entries("things", limit=3 * (32 + 100))
    keys = [f"{number:064x}" for number in range(4)]
    for age, key in enumerate(keys):
        entries.get(key, lambda: bytes(100))
        os.utime(folder / key, (age, age))
    entries.get(keys[0], _refuse)  # and is new again
    entries.trim()
    assert {path.name for path in folder.iterdir()} == {keys[0], keys[3]}
    entries.trim()
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(("limit", "kept"), [(1000, 0.7), (1100, 0.7), (1250, 1)])
def test_a_full_cache_is_trimmed_when_an_entry_was_added(folder: Path, limit: int, kept: float) -> None:
    entries = Entries("things", limit=100 * limit)
    folder.mkdir(parents=True)
    for number in range(1000):
        (folder / f"{number:064x}").write_bytes(bytes(100))
    entries.tidy()
    assert entries.size()[0] == 1000  # none was added
    entries.get("f" * 64, lambda: bytes(100 - 32))
    entries.tidy()
    assert entries.size()[0] == min(1001, int(kept * limit))


def test_a_nearly_full_cache_is_looked_through_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = Entries("things", limit=100 * 1050)
    folder.mkdir(parents=True)
    for number in range(1000):
        (folder / f"{number:064x}").write_bytes(bytes(100))
    entries.get("e" * 64, lambda: b"made")
    entries.tidy()
    monkeypatch.setattr(Entries, "trim", _refuse)
    entries.get("f" * 64, lambda: b"made")
    entries.tidy()


def test_few_of_many_entries_are_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = Entries("things", limit=1 << 20)
    folder.mkdir(parents=True)
    for number in range(2000):
        (folder / f"{number:064x}").write_bytes(bytes(100))
    monkeypatch.setattr(Entries, "trim", _refuse)
    entries.get("f" * 64, lambda: b"made")
    entries.tidy()


def test_nothing_is_read_or_written_without_entries(folder: Path) -> None:
    entries = Entries("things", limit=100)
    with without_entries():
        assert entries.get(KEY, lambda: b"made") == b"made"
    assert not folder.exists()
    entries.get(KEY, lambda: b"other")
    with without_entries():
        assert entries.get(KEY, lambda: b"made") == b"made"


def test_a_cache_that_cannot_be_written_costs_time_alone(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file where the folder should be")
    assert Entries("things", limit=100).get(KEY, lambda: b"made") == b"made"


def test_killed_writers_leave_whole_entries_and_what_goes_later(folder: Path) -> None:
    for delay in (0.0, 0.003, 0.01, 0.02, 0.05):
        process = _writer(100)
        time.sleep(delay)
        process.kill()
        process.wait()
        for path in folder.glob("0*"):
            number = int(path.name, 16)
            assert Entries("things", 1 << 40).get(path.name, _refuse) == bytes([number]) * (1 << 20)
            path.unlink()
    (folder / f"{ASIDE}left").write_bytes(b"half")
    os.utime(folder / f"{ASIDE}left", (0, 0))
    Entries("things", 1 << 40).trim()
    assert not (folder / f"{ASIDE}left").exists()


def test_two_writers_at_once_do_no_harm(folder: Path) -> None:
    for writer in [_writer(50), _writer(50)]:
        assert writer.wait(60) == 0
    for number in range(50):
        assert Entries("things", 1 << 40).get(f"{number:064x}", _refuse) == bytes([number]) * (1 << 20)
    assert len(list(folder.iterdir())) == 50


def test_an_entry_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "entry"
    os.mkfifo(path)
    assert cache._read(path) is None
