# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import EnvError
from arm_ext.native import build


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache but for zig's own, whose libc stubs take seconds to build."""
    (cache_folder() / "zig").mkdir(exist_ok=True)
    (tmp_path / "zig").symlink_to(cache_folder() / "zig")
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path))
    return tmp_path


def test_the_server_needs_no_cxx_library_and_exports_nothing() -> None:
    # Its own C++ runtime beside the libstdc++ of the TVM runtime would be a clash of symbols.
    with build.board_server().open("rb") as file:
        elf = ELFFile(file)
        assert elf["e_machine"] == "EM_AARCH64"
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        symbols = elf.get_section_by_name(".dynsym").iter_symbols()
        exported = [symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"]
    assert needed <= {"libtvm_ffi.so", "libc.so.6", "libdl.so.2"}
    assert exported == []


def test_runtime_libs_are_of_aarch64_and_lie_flat() -> None:
    for name in ("libtvm_runtime.so", "libtvm_runtime_extra.so", "libtvm_ffi.so"):
        with (build.runtime_libs() / name).open("rb") as file:
            assert ELFFile(file)["e_machine"] == "EM_AARCH64"


def test_a_second_call_builds_nothing(fresh_cache: Path) -> None:
    first = build.probe_module()
    before = first.stat().st_mtime_ns
    assert build.probe_module() == first
    assert first.stat().st_mtime_ns == before


def test_a_changed_source_is_built_anew(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.probe_module()
    source = fresh_cache / "source"
    shutil.copytree(Path(build.__file__).parent, source)
    (source / "probe.c").write_text((source / "probe.c").read_text() + "\n// changed\n")
    monkeypatch.setattr(build, "NATIVE", source)
    assert build.probe_module() != first


def test_builds_at_the_same_time_do_no_harm(fresh_cache: Path) -> None:
    call = "from arm_ext.native import build; print(build.probe_module())"
    builders = [
        subprocess.Popen([sys.executable, "-c", call], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    paths = {builder.communicate()[0].strip() for builder in builders}
    assert [builder.returncode for builder in builders] == [0, 0, 0]
    assert len(paths) == 1
    assert [entry.name for entry in (fresh_cache / "native").iterdir()] == [Path(paths.pop()).parent.name]


@pytest.mark.parametrize("damage", ["truncate", "remove", "change", "pipe", "no record"])
def test_a_damaged_entry_is_built_anew(fresh_cache: Path, damage: str) -> None:
    whole = build.probe_module()
    content = whole.read_bytes()
    if damage == "truncate":
        whole.write_bytes(content[:100])
    elif damage == "remove":
        whole.unlink()
    elif damage == "change":
        whole.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:  # without a record, as an earlier version left it
        record = whole.parent / "contents.json"
        record.unlink()
        if damage == "pipe":
            os.mkfifo(record)
    build._whole.clear()  # as in another process
    assert build.probe_module() == whole
    assert whole.read_bytes() == content
    assert [entry.name for entry in (fresh_cache / "native").iterdir()] == [whole.parent.name]


def test_processes_that_mend_at_the_same_time_do_no_harm(fresh_cache: Path) -> None:
    call = (
        "import sys, time\n"
        "from arm_ext.native.build import cached\n"
        "def fill(folder):\n"
        "    time.sleep(0.2)\n"
        "    for number in range(20): (folder / str(number)).write_text('whole')\n"
        "for _ in range(5):\n"
        "    folder = cached('entry', ['1'], fill)\n"
        "    assert len(list(folder.iterdir())) == 21\n"
    )
    place = build._place("entry", ["1"])
    place.mkdir(parents=True)
    (place / "0").write_text("damaged")
    menders = [subprocess.Popen([sys.executable, "-c", call]) for _ in range(3)]
    assert [mender.wait() for mender in menders] == [0, 0, 0]
    assert list((fresh_cache / "native").iterdir()) == [place]


def test_what_a_killed_build_left_is_removed_a_day_later(fresh_cache: Path) -> None:
    old, young = (fresh_cache / "native" / f".aside-{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    build.cached("entry", ["1"], lambda folder: None)
    assert not old.exists()
    assert young.exists()


def test_a_failed_build_leaves_nothing(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = fresh_cache / "source"
    source.mkdir()
    (source / "probe.c").write_text("not C")
    monkeypatch.setattr(build, "NATIVE", source)
    with pytest.raises(EnvError, match=r"probe\.c:1"):
        build.probe_module()
    assert list((fresh_cache / "native").iterdir()) == []


def test_wheels_out_of_reach_name_the_command(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(fresh_cache))
    with pytest.raises(EnvError, match=r"pip download .*apache-tvm==0\.27(.|\n)*PIP_FIND_LINKS"):
        build.runtime_libs()
    assert list((fresh_cache / "native").iterdir()) == []
