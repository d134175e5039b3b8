# SPDX-License-Identifier: Apache-2.0
import importlib.metadata
import platform
import re
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
import tvm
from elftools.elf.elffile import ELFFile
from tvm import relax, te

from arm_ext.common.cache import cache_folder
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.target import toolchain
from arm_ext.target.toolchain import LibraryLinker, LinkerRecord, link_shared, zig

TRIPLE = "aarch64-linux-gnu"
ROOT = Path(__file__).parents[3]


def export(folder: Path) -> Path:
    x = te.placeholder((31,), "float32", "x")
    y = te.compute((31,), lambda i: te.exp(x[i]), "y")
    kernel = te.create_prim_func([x, y]).with_attr("global_symbol", "exp")
    module = tvm.compile(kernel, target={"kind": "llvm", "mtriple": TRIPLE})
    folder.mkdir(exist_ok=True)
    record = module.export_library(str(folder / "model.so"), fcompile=LibraryLinker(TRIPLE))
    assert record == LinkerRecord("ziglang", toolchain.ZIGLANG)
    return folder / "model.so"


def needed(so: Path) -> set[str]:
    with so.open("rb") as file:
        tags = ELFFile(file).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
        return {tag.needed for tag in tags}


def symbols(so: Path) -> set[str]:
    with so.open("rb") as file:
        return {s.name for s in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}


def c_object(folder: Path, source: str) -> Path:
    (folder / "x.c").write_text(source)
    zig(["cc", "-target", toolchain.zig_target(TRIPLE), "-O2", "-g", "-c", "x.c", "-o", "x.o"], cwd=folder)
    return folder / "x.o"


def test_needs_libc_and_libm_alone(tmp_path):
    uses_both = '#include <math.h>\n#include <stdio.h>\nvoid f(double *x) { printf("%f", *x = exp(*x)); }'
    link_shared([c_object(tmp_path, uses_both)], tmp_path / "x.so", triple=TRIPLE)
    assert needed(tmp_path / "x.so") == {"libc.so.6", "libm.so.6"}
    assert needed(export(tmp_path)) == {"libm.so.6"}


def test_two_links_in_different_folders_give_the_same_bytes(tmp_path):
    first, second = export(tmp_path / "a"), export(tmp_path / "another_folder")
    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()


def test_a_folder_with_a_comma_is_one_name(tmp_path, monkeypatch):
    (tmp_path / "a, b").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "a, b"))
    assert needed(export(tmp_path / "a, b")) == {"libm.so.6"}


def test_routines_of_compilers_are_built_only_where_they_are_called(tmp_path, monkeypatch):
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))
    calls_libc_and_runtime = """#include <math.h>
                                #include <string.h>
                                void TVMFFIErrorMoveFromRaised(void);
                                double f(char *x, int n) {
                                    TVMFFIErrorMoveFromRaised(); memcpy(x, x + n, n); return exp(n);
                                }"""
    link_shared([c_object(tmp_path, calls_libc_and_runtime)], tmp_path / "x.so", triple=TRIPLE)
    assert not list((tmp_path / "cache").rglob("libcompiler_rt.a"))
    # No instruction divides numbers of 128 bits.
    link_shared(
        [c_object(tmp_path, "__int128 f(__int128 a, __int128 b) { return a / b; }")],
        tmp_path / "y.so",
        triple=TRIPLE,
    )
    assert list((tmp_path / "cache").rglob("libcompiler_rt.a"))
    with (tmp_path / "y.so").open("rb") as file:
        (routine,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name("__divti3")
        assert routine.entry["st_shndx"] != "SHN_UNDEF"


def test_keeps_local_kernel_symbols_and_drops_debug_sections(tmp_path):
    source = """__attribute__((noinline)) static int kernel(int *x) { return ++*x; }
                int f(int *x) { return kernel(x); }"""
    so = tmp_path / "x.so"
    link_shared([c_object(tmp_path, source)], so, triple=TRIPLE)
    assert {"kernel", "f"} <= symbols(so)
    with so.open("rb") as file:
        names = {s.name for s in ELFFile(file).iter_sections()}
    assert not {n for n in names if n.startswith(".debug") or n in {".comment", ".note.gnu.build-id"}}


def test_module_without_code_is_packed_for_the_target(tmp_path):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((7,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.call_dps_packed("some.packed", [x], x.ty)))
    so = tmp_path / "model.so"
    relax.build(builder.get()).export_library(str(so), fcompile=LibraryLinker(TRIPLE))
    with so.open("rb") as file:
        assert ELFFile(file).header.e_machine == "EM_AARCH64"


def test_another_linker_is_used_and_recorded(tmp_path):
    obj = c_object(tmp_path, "int f(void) { return 7; }")
    cc = f"{sys.executable} -m ziglang cc -target {TRIPLE}.{toolchain.GLIBC}"
    record = link_shared([obj], tmp_path / "x.so", triple=TRIPLE, cc=cc)
    assert record.name == Path(sys.executable).name
    assert "clang version" in record.version
    assert "f" in symbols(tmp_path / "x.so")


def test_gnu_ld_takes_the_same_flags(tmp_path):
    so = tmp_path / "x.so"
    (tmp_path / "x.c").write_text("static int g; int f(void) { return ++g; }")
    record = link_shared([tmp_path / "x.c"], so, triple="x86_64-linux-gnu", cc="gcc -g")
    assert record.name == "gcc"
    assert {"f", "g"} <= symbols(so)
    with so.open("rb") as file:
        assert not {s.name for s in ELFFile(file).iter_sections() if s.name.startswith(".debug")}


def test_missing_linker_names_what_to_install(tmp_path):
    with pytest.raises(EnvError, match="apt install gcc-aarch64-linux-gnu"):
        link_shared([], tmp_path / "x.so", triple=TRIPLE, cc="no-such-gcc")


@pytest.mark.skipif(platform.machine() == "aarch64", reason="gcc makes code for aarch64 there")
def test_a_linker_of_another_machine_is_a_usage_error(tmp_path):
    (tmp_path / "x.c").write_text("int f(void) { return 1; }")
    toolchain.zig(["cc", "-target", toolchain.zig_target(TRIPLE), "-c", "x.c"], tmp_path)
    with pytest.raises(UsageError, match=r"--cc gcc is a driver for x86_64-\S+; name one for aarch64"):
        link_shared([tmp_path / "x.o"], tmp_path / "x.so", triple=TRIPLE, cc="gcc")


@pytest.mark.parametrize("cc", ["", '"'])
def test_malformed_linker_command_is_a_usage_error(tmp_path, cc):
    with pytest.raises(UsageError, match="--cc"):
        link_shared([], tmp_path / "x.so", triple=TRIPLE, cc=cc)


def test_a_percent_sign_in_a_path_is_no_wildcard(tmp_path):
    folder = tmp_path / "100%s"
    folder.mkdir()
    link_shared([c_object(tmp_path, "int f(void) { return 7; }")], folder / "x.so", triple=TRIPLE)
    assert "f" in symbols(folder / "x.so")


def test_a_comma_in_the_temporary_folder_is_part_of_its_name(tmp_path, monkeypatch):
    folder = tmp_path / "a;b,c d"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    obj = c_object(tmp_path, "int f(void) { return 7; }")
    for cc in (None, "gcc"):
        link_shared([obj] if cc is None else [tmp_path / "x.c"], tmp_path / "x.so", triple=TRIPLE, cc=cc)
        assert "f" in symbols(tmp_path / "x.so")


def test_nothing_of_the_working_folder_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("ziglang", "subprocess", "os"):
        (tmp_path / f"{name}.py").write_text("import pathlib; pathlib.Path('pwned').touch()")
    (tmp_path / "out").mkdir()
    link_shared([c_object(tmp_path, "int x;")], tmp_path / "out/x.so", triple=TRIPLE)
    zig(["version"])
    assert not list(tmp_path.rglob("pwned"))


def test_a_linker_that_writes_nothing_is_told(tmp_path):
    with pytest.raises(EnvError, match="true reported no error, but wrote no library"):
        link_shared([c_object(tmp_path, "int x;")], tmp_path / "x.so", triple=TRIPLE, cc="true")


def test_a_linker_of_the_working_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cc").symlink_to(shutil.which("gcc"))
    (tmp_path / "x.c").write_text("int f(void) { return 7; }")
    (tmp_path / "out").mkdir()
    link_shared([tmp_path / "x.c"], tmp_path / "out/x.so", triple="x86_64-linux-gnu", cc="./cc")
    assert "f" in symbols(tmp_path / "out/x.so")


def test_failing_linker_says_why(tmp_path, monkeypatch):
    # An error in an input is not retried with an empty cache of zig, which would take ten seconds.
    monkeypatch.setattr(tempfile, "TemporaryDirectory", None)
    (tmp_path / "bad.o").write_bytes(b"not an object")
    with pytest.raises(EnvError, match=r"bad\.o"):
        link_shared([tmp_path / "bad.o"], tmp_path / "x.so", triple=TRIPLE)


def test_missing_ziglang_names_the_pinned_version(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    monkeypatch.setattr(toolchain, "_program", toolchain._program.__wrapped__)
    with pytest.raises(EnvError, match=f"pip install ziglang=={toolchain.ZIGLANG}"):
        zig(["version"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"ziglang=={toolchain.ZIGLANG}" in project["dependencies"]


def test_other_systems_are_refused():
    with pytest.raises(UsageError, match="arm64-apple-darwin"):
        toolchain.zig_target("arm64-apple-darwin")


def test_cache_folder_obeys_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    assert cache_folder().is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(EnvError, match="ARM_EXT_CACHE"):
        cache_folder()


def test_zig_keeps_its_caches_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path))
    folders = re.findall(r'cache_dir\W+"(.*)"', zig(["env"]).stdout)
    assert folders == [str(tmp_path / "zig")]


@pytest.mark.long  # zig makes libc's stubs anew
@pytest.mark.parametrize("name", ["50%", "a:b", "a\nb"])
def test_the_path_of_the_cache_may_have_any_name(tmp_path, monkeypatch, name):
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path / name))
    source = tmp_path / "sine.c"
    source.write_text("#include <math.h>\ndouble sine(double x) { return sin(x); }\n")
    link_shared([source], tmp_path / "sine.so", triple="aarch64-linux-gnu")
    assert {path.name for path in (tmp_path / name).iterdir()} == {"zig"}


@pytest.mark.long  # zig makes libc's stubs anew
def test_a_damaged_cache_of_zigs_is_replaced(tmp_path, monkeypatch):
    shutil.copytree(cache_folder() / "zig", tmp_path / "zig")
    monkeypatch.setenv("ARM_EXT_CACHE", str(tmp_path))
    for file in (tmp_path / "zig" / "o").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:100])
    source = tmp_path / "sine.c"
    source.write_text("#include <math.h>\ndouble sine(double x) { return sin(x); }\n")
    link_shared([source], tmp_path / "sine.so", triple="aarch64-linux-gnu")
    assert {path.name for path in tmp_path.iterdir()} == {"zig", "sine.c", "sine.so"}


def test_an_error_in_a_source_costs_no_second_cache(tmp_path):
    source = tmp_path / "wrong.c"
    source.write_text("not C")
    before = set(cache_folder().iterdir())
    with pytest.raises(EnvError, match=r"wrong\.c:1:1: error"):
        zig(["cc", "-c", source, "-o", tmp_path / "wrong.o"])
    assert set(cache_folder().iterdir()) == before
