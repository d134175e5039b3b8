# SPDX-License-Identifier: Apache-2.0
"""A model.so that is none, crashes, is exchanged, or puts something else in the place of the emulator's dump."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from arm_ext.board import Board, open_board, session
from arm_ext.board.confine import OFF
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.target.toolchain import zig, zig_target
from tests.arm_ext.board.models import words_for_hostile


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    # What Linux can refuse a model is not what is tested here.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OFF, "no")
        with open_board("virtual", counting=True, caches=(1 << 15, 1 << 18), calls=True) as opened:
            yield opened


def _library(folder: Path, code: str, machine: str = "aarch64") -> Path:
    (folder / "model.c").write_text(code)
    flags = ["-target", zig_target(f"{machine}-linux-gnu"), "-shared", "-fPIC"]
    zig(["cc", *flags, folder / "model.c", "-o", folder / "model.so"])
    return folder / "model.so"


_NO_MODULE = "int f(void) { return 1; }"
_CRASH = "__attribute__((constructor)) static void AtLoad(void) { *(volatile int *)8 = 0; }"


@pytest.mark.parametrize(
    ("code", "says"), [(_NO_MODULE, "cannot load it"), (_CRASH, "crashes when board virtual")]
)
def test_a_library_that_does_not_load_is_refused(board: Board, tmp_path: Path, code: str, says: str) -> None:
    with pytest.raises(UsageError, match=rf"model\.so: .*{says}"):
        board.load(_library(tmp_path, code))


def test_a_library_that_crashes_on_this_machine_is_refused(tmp_path: Path) -> None:
    with open_board("local") as local:
        so = _library(tmp_path, _CRASH, local.info.machine)
        with pytest.raises(UsageError, match=r"model\.so: crashes when board local loads it"):
            local.load(so)


@pytest.mark.parametrize("shared_bytes", [0, 1 << 30])
def test_what_is_loaded_has_the_hash(
    board: Board, add_relu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_bytes: int
) -> None:
    monkeypatch.setattr(session, "_SHARED_BYTES", shared_bytes)
    so = Path(shutil.copy(add_relu, tmp_path / "model.so"))
    sha256 = hashlib.sha256(so.read_bytes()).hexdigest()
    board.load(so, sha256)
    so.write_bytes(so.read_bytes() + b"\0")
    with pytest.raises(UsageError, match=r"model\.so: was changed"):
        board.load(so, sha256)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fifo", "../dump"), "named pipe"),
        (("folder", "../dump"), "a folder"),
        (("symlink", "/dev/zero", "../dump"), "symbolic link"),
    ],
)
def test_what_is_no_dump_is_refused(board: Board, hostile: Path, words: tuple[str, ...], says: str) -> None:
    assert board.dump is not None
    if board.dump.is_file():
        board.dump.unlink()
    model = board.load(hostile)
    try:
        model.run(words_for_hostile(*words))
        with pytest.raises(EnvError, match=f"dump .*{says}"):
            model.count_calls(words_for_hostile("read", "/dev/null"))
        assert model.counted_so_far() is None
    finally:
        model.close()
        (board.dump.rmdir if board.dump.is_dir() else board.dump.unlink)()
