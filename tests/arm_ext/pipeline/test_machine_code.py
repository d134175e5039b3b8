# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.api import digits
from arm_ext.cli import invoke
from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import KernelError
from arm_ext.pipeline.caches import KERNEL_ENTRIES, SELFTEST_ENTRIES
from arm_ext.pipeline.machine_code import packed_objects
from arm_ext.target.profiles import baseline_host

_COMPILE = ["compile", "--target", "arm", "-o"]
_RUN = "import sys; from arm_ext.cli import invoke; sys.exit(invoke(sys.argv[1:]))"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder without kernels, and with the linker's cache, which takes long to fill."""
    built = cache_folder()
    (tmp_path / "cache").mkdir()
    for name in ("zig", "native"):
        (built / name).mkdir(exist_ok=True)
        (tmp_path / "cache" / name).symlink_to(built / name)
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def _bytes(package: Path) -> dict[str, str]:
    files = (path for path in package.rglob("*") if path.is_file())
    return {str(path.relative_to(package)): sha256(path.read_bytes()).hexdigest() for path in files}


def _compiled(package: Path, *options: str) -> dict[str, str]:
    assert invoke([*_COMPILE, str(package), *options]) == 0
    return _bytes(package)


def test_a_package_is_the_same_with_and_without_the_cache(empty: Path, tmp_path: Path) -> None:
    without = _compiled(tmp_path / "without", "--no-cache")
    assert not empty.exists()
    cold = _compiled(tmp_path / "cold")
    kernels, _ = KERNEL_ENTRIES.size()
    assert kernels >= 10
    assert SELFTEST_ENTRIES.size()[0] == 1
    warm = _compiled(tmp_path / "warm")
    assert (KERNEL_ENTRIES.size()[0], SELFTEST_ENTRIES.size()[0]) == (kernels, 1)
    assert without == cold == warm
    for path in (*empty.iterdir(), *SELFTEST_ENTRIES.folder().iterdir()):
        path.write_bytes(path.read_bytes()[:-1])
    assert _compiled(tmp_path / "after-damage") == cold
    for path in empty.iterdir():
        if path.read_bytes()[sha256().digest_size :].startswith(b"\x7fELF"):
            path.unlink()
    assert _compiled(tmp_path / "with-choices-and-stubs-alone") == cold
    entry = next(empty.iterdir())
    entry.unlink()
    entry.mkdir()
    assert _compiled(tmp_path / "with-a-folder-in-the-way") == cold


def test_a_package_is_the_same_on_any_number_of_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = []
    for processors in (1, 4):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, count=processors: set(range(count)))
        packages.append(_compiled(tmp_path / str(processors), "--no-cache"))
    assert packages[0] == packages[1]


def test_two_commands_share_an_empty_cache(empty: Path, tmp_path: Path) -> None:
    model = str(digits.model_path())
    packages = [tmp_path / "one", tmp_path / "two"]
    commands = [
        subprocess.Popen([sys.executable, "-c", _RUN, "compile", model, "-o", str(package)])
        for package in packages
    ]
    assert [command.wait(120) for command in commands] == [0, 0]
    one, two = map(_bytes, packages)
    assert one["model.so"] == two["model.so"]
    assert not list(empty.glob(".*"))


def test_show_and_clear(empty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty.mkdir()
    for number in range(3):
        KERNEL_ENTRIES.get(f"{number:064x}", lambda: bytes(100))
    SELFTEST_ENTRIES.get(f"{0:064x}", lambda: bytes(100))
    shown = [
        f"folder      {empty.parent}",
        "kernels     3",
        "self-tests  1",
        "size        528 bytes of 1,342,177,280",
    ]
    for verb, left in (("show", 4), ("clear", 0)):
        assert invoke(["cache", verb]) == 0
        assert capsys.readouterr().out.splitlines() == shown
        assert len([*empty.iterdir(), *SELFTEST_ENTRIES.folder().iterdir()]) == left


def test_a_kernel_that_cannot_be_generated_is_named() -> None:
    @T.prim_func(private=True, s_tir=True)
    def broken(x: T.Buffer((16,), "float32")):
        with T.sblock("root"):
            x[0] = T.call_llvm_pure_intrin("float32", "llvm.fabs", x[0], x[1])

    with pytest.raises(KernelError, match=r"at the kernel broken_kernel: .*a defect of arm-ext") as caught:
        packed_objects({"broken_kernel": broken}, baseline_host().tvm_target())
    assert caught.value.symbol == "broken_kernel"
    assert caught.value.exit_code == 4
