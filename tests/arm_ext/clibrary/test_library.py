# SPDX-License-Identifier: Apache-2.0
"""C libraries as their users build them: self-tests, misuse, threads, C and C++ compilers."""

import array
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.api import digits
from arm_ext.common.errors import EnvError, ModelError, UsageError
from arm_ext.package import load_package
from tests.arm_ext import models
from tests.arm_ext.clibrary.programs import HERE, STRICT, Library, cc, cross, python_module, run

SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def test_the_selftest_passes_on_aarch64(digits_library: Library, tmp_path: Path) -> None:
    assert "all outputs agree" in run(cross([*STRICT, *digits_library.selftest], tmp_path / "dynamic"))


@pytest.mark.long  # zig builds musl first, and the stubs of an older glibc
@pytest.mark.parametrize("target", ["aarch64-linux-musl", "aarch64-linux-gnu.2.17"])
def test_the_selftest_passes_with_other_c_libraries(
    digits_library: Library, tmp_path: Path, target: str
) -> None:
    assert "all outputs agree" in run(cross(digits_library.selftest, tmp_path / "selftest", target))


def test_the_selftest_passes_with_a_static_glibc(
    host_digits: Library, host_shared: Library, tmp_path: Path
) -> None:
    """Of this machine: zig has no static glibc for aarch64."""
    for library in (host_digits, host_shared):
        program = cc(["-static", *STRICT, *library.selftest], tmp_path / library.name)
        assert "all outputs agree" in run(program)
        with program.open("rb") as file:
            assert ELFFile(file).get_section_by_name(".interp") is None


def test_a_share_of_integers_that_floats_decide_may_differ(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"], "scores"),
        helper.make_node("ArgMax", ["scores"], ["y"], "classes", axis=1, keepdims=0),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((16, 5), np.float32)}
    model = models.model(nodes, {"x": [2000, 16]}, ["y"], weights)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    library = Library.of(model, tmp_path / "m", "host", name="classes")
    assert library.package.manifest.check.differing == 1e-3
    test = library.folder / "example" / "selftest.bin"
    whole, first = test.read_bytes(), 2000 * 16 * 4
    for count, agrees in ((2, True), (3, False)):
        data = bytearray(whole)
        for index in range(count):
            data[first + 8 * index] ^= 7
        test.write_bytes(data)
        program = cc(library.selftest, tmp_path / f"selftest{count}")
        done = subprocess.run([program], check=False, capture_output=True, text=True)
        assert (done.returncode == 0) == agrees, done.stdout
        assert ("y: byte 0 is " in done.stdout) != agrees


# What a "host_mapped" has beyond the others takes in an LSTM's states.
@pytest.mark.parametrize(
    "library",
    [
        *("host_digits", "host_mapped", "host_total"),
        *(pytest.param(each, marks=pytest.mark.long) for each in ("host_cnn", "host_lstm")),
    ],
)
def test_the_c_parts_are_clean_under_sanitizers(
    request: pytest.FixtureRequest, tmp_path: Path, library: str
) -> None:
    built: Library = request.getfixturevalue(library)
    # The sources are the archive's, whose objects come after them: the linker leaves those out that define the same.
    sources = [built.folder / "src" / f"{built.name}_text.c", built.folder / "src" / f"{built.name}.c"]
    joined = tmp_path / "kernels.o"
    _weaken(built, joined)
    example = [built.folder / "example" / name for name in ("main.c", "selftest.S")]
    words = [
        *SANITIZED,
        *STRICT,
        f"-I{built.folder / 'include'}",
        f"-I{built.folder / 'example'}",
        *sources,
        *example,
        joined,
        "-lm",
    ]
    assert "all outputs agree" in run(cc(words, tmp_path / "selftest"))


def _weaken(library: Library, joined: Path) -> None:
    """Write the library's object with its API weak, so that the same functions of a source take its place."""
    subprocess.run(["ar", "x", library.archive], cwd=joined.parent, check=True)
    subprocess.run(["objcopy", "--weaken", joined.parent / f"{library.name}.o", joined], check=True)


@pytest.mark.parametrize("sanitized", [False, True])
def test_misuse_gives_codes(host_digits: Library, tmp_path: Path, sanitized: bool) -> None:
    words = [*(SANITIZED if sanitized else ()), *STRICT, HERE / "misuse.c", *host_digits.arguments]
    run(cc(words, tmp_path / "misuse"))


@pytest.mark.parametrize("sanitized", [False, True])
def test_inputs_and_outputs_may_be_in_place(host_digits: Library, tmp_path: Path, sanitized: bool) -> None:
    words = [*(SANITIZED if sanitized else ()), *STRICT, HERE / "in_place.c", *host_digits.arguments]
    run(cc(words, tmp_path / "in_place"))


def test_inputs_and_outputs_may_be_in_place_on_aarch64(digits_library: Library, tmp_path: Path) -> None:
    run(cross([*STRICT, HERE / "in_place.c", *digits_library.arguments], tmp_path / "in_place"))


def test_an_arena_of_the_least_size_has_no_places(tmp_path: Path) -> None:
    model = models.model([helper.make_node("Sqrt", ["x"], ["y"], name="root")], {"x": [3, 40]}, ["y"], {})
    library = Library.of(model, tmp_path / "root", "host", name="root")
    run(cc([*SANITIZED, *STRICT, HERE / "no_room.c", *library.arguments], tmp_path / "program"))


def test_regions_of_memory_are_checked(host_mapped: Library, tmp_path: Path) -> None:
    example = host_mapped.folder / "example"
    words = [*STRICT, HERE / "regions.c", f"-I{example}", example / "selftest.S", *host_mapped.arguments]
    run(cc(words, tmp_path / "regions"))
    info = host_mapped.package.manifest.library
    assert info is not None
    assert list(info.regions) == ["fast", "slow"]
    assert info.arena_bytes == sum(info.regions.values())


def test_the_classifier_runs_in_several_regions_on_aarch64(tmp_path: Path) -> None:
    inputs = [digits.held_out()[0][:1]]
    options: dict[str, Any] = {"emit": "c-library", "memory": "tcm=1K,fast=2K,slow=1M", "threads": 2}
    package = arm_ext.compile(
        digits.model_path(), "arm", tmp_path / "digits", inputs=inputs, **options
    ).package
    library = Library(package)
    assert "all outputs agree" in run(cross(library.selftest, tmp_path / "selftest"))
    source = (library.folder / "src" / "digits_int8.c").read_text()
    assert all(re.search(rf"\b{name} \+ \d+[,)]", source) for name in ("tcm", "fast", "slow"))


def test_models_and_instances_share_a_program(
    host_digits: Library, host_cnn: Library, tmp_path: Path
) -> None:
    words = ["-O1", HERE / "threads.c", *host_digits.arguments, *host_cnn.arguments, "-lpthread"]
    run(cc(words, tmp_path / "threads"))


@pytest.mark.parametrize("flags", [["-O1"], ["-g", "-fsanitize=thread"]], ids=["plain", "thread"])
def test_instances_in_threads_share_nothing_that_is_written(
    host_digits: Library, tmp_path: Path, flags: list[str]
) -> None:
    # A read of what nobody wrote would differ, too: arenas and stacks hold other bytes in each thread and round.
    words = [*flags, *STRICT, "-DROUNDS=1000", HERE / "instances.c", *host_digits.arguments, "-lpthread"]
    assert run(cc(words, tmp_path / "instances")) == "0 of 8000 runs differ\n"


def test_instances_in_threads_share_nothing_on_aarch64(digits_library: Library, tmp_path: Path) -> None:
    words = [*STRICT, "-DROUNDS=100", HERE / "instances.c", *digits_library.arguments, "-lpthread"]
    assert run(cross(words, tmp_path / "instances")) == "0 of 800 runs differ\n"


@pytest.mark.long
def test_many_runs_of_instances_in_threads_agree(
    host_digits: Library, digits_library: Library, tmp_path: Path
) -> None:
    here, there = (
        [*STRICT, f"-DROUNDS={rounds}", HERE / "instances.c", *library.arguments, "-lpthread"]
        for library, rounds in ((host_digits, 100_000), (digits_library, 500))
    )
    run(cc(["-O1", *here], tmp_path / "here"))
    program = cross(there, tmp_path / "there")
    for _ in range(20):  # threads begin anew in each process
        run(program)


def test_other_weights_are_refused(host_mapped: Library, tmp_path: Path) -> None:
    run(cc([*STRICT, HERE / "weights.c", *host_mapped.selftest[:1], host_mapped.folder / "example" / "selftest.S",
            *host_mapped.arguments], tmp_path / "weights"))  # fmt: skip
    assert b".rodata.mapped_weights" not in host_mapped.archive.read_bytes()


@pytest.mark.parametrize(
    ("sanitizer", "spin"), [("", 1000), ("thread", 1000), ("thread", 0), ("address,undefined", 1000)]
)
def test_results_do_not_depend_on_the_number_of_threads(
    host_shared: Library, tmp_path: Path, sanitizer: str, spin: int
) -> None:
    flags = ["-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"] if sanitizer else ["-O1"]
    pool = host_shared.folder / "src" / "shared_pool.c"
    flags += [f"-DSHARED_SPIN_MICROSECONDS={spin}"]
    words = [*flags, *STRICT, HERE / "pool.c", pool, *host_shared.arguments, "-lpthread"]
    run(cc(words, tmp_path / "pool"))


def test_kernels_are_shared_by_tasks(host_shared: Library, tmp_path: Path) -> None:
    source = (host_shared.folder / "src" / "shared.c").read_text()
    assert source.count("share(pool, ") >= 2
    assert " * thread" in source  # a workspace of each thread's
    assert "all outputs agree" in run(cc(host_shared.selftest, tmp_path / "selftest"))


def test_no_placeholder_is_left_in_a_file(digits_library: Library) -> None:
    folder = digits_library.folder
    texts = [
        path
        for path in folder.rglob("*")
        if path.suffix in (".h", ".hpp", ".c", ".cmake", ".pc", ".py", ".txt", ".rs", ".toml")
    ]
    assert len(texts) > 8
    assert not [path.name for path in texts if re.search(r"@\w+@", path.read_text())]
    digest = digits_library.package.manifest.model.sha256
    assert digest in (folder / "include" / f"{digits_library.name}.h").read_text()


# The oldest standards allow least.
@pytest.mark.parametrize(
    "standard", ["c11", "c++11", *(pytest.param(each, marks=pytest.mark.long) for each in ("c17", "c++20"))]
)
def test_the_headers_compile_everywhere(
    request: pytest.FixtureRequest, tmp_path: Path, standard: str
) -> None:
    is_cpp = standard.startswith("c++")
    for name in ("host_digits", "host_lstm", "host_mapped", "host_lengths", "host_samples"):
        library: Library = request.getfixturevalue(name)
        source = tmp_path / f"{library.name}.{'cpp' if is_cpp else 'c'}"
        header = f"{library.name}.{'hpp' if is_cpp else 'h'}"
        source.write_text(f'#include "{header}"\n#include "{header}"\nint main(void) {{ return 0; }}\n')
        compiler = "g++" if is_cpp else "gcc"
        cc([*STRICT, f"-std={standard}", source, *library.arguments], tmp_path / "program", compiler)


def test_the_class_runs_and_steps(host_digits: Library, host_lstm: Library, tmp_path: Path) -> None:
    words = [*STRICT, "-std=c++11", "-fno-exceptions", HERE / "wrapper.cpp"]
    run(cc([*words, *host_digits.arguments, *host_lstm.arguments], tmp_path / "wrapper", "g++"))


@pytest.mark.parametrize(
    "library", ["digits_library", "host_cnn", "host_lstm", "host_lengths", "host_samples", "host_total"]
)
def test_nothing_is_asked_of_the_system_beyond_what_the_manifest_says(
    request: pytest.FixtureRequest, library: str
) -> None:
    built: Library = request.getfixturevalue(library)
    listed = subprocess.run(["nm", "-u", built.archive], capture_output=True, text=True, check=True).stdout
    undefined = set(re.findall(r"^ +U (\w+)$", listed, re.MULTILINE))
    info = built.package.manifest.library
    assert info is not None
    # Those of its own are in the other member of the archive.
    assert undefined == set(info.requires)
    assert undefined <= {"memcpy", "memset", "memmove"}
    assert bool(undefined) == (library == "host_total")  # whose step copies the states to the outputs


def test_nothing_is_written_but_what_the_caller_gives(digits_library: Library) -> None:
    listed = subprocess.run(
        ["readelf", "-SW", digits_library.archive], capture_output=True, text=True, check=True
    ).stdout
    sections = re.findall(r"\] (\S+) +\w+ +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) +\d+ +(\w+)", listed)
    written = {name for name, size, flags in sections if "W" in flags and int(size, 16)}
    assert written <= {".data.rel.ro"}  # which the loader writes addresses to, and nobody after it
    assert ".rodata.digits_int8_weights" in {name for name, _, _ in sections}


def test_a_shared_library_exports_the_functions_alone(digits_library: Library, tmp_path: Path) -> None:
    whole = ["-shared", "-Wl,--whole-archive", digits_library.archive, "-Wl,--no-whole-archive"]
    shared = cross(whole, tmp_path / "libdigits.so")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", shared], capture_output=True, text=True, check=True
    ).stdout
    names = set(re.findall(r" [A-Z] digits_int8_(\w+)$", listed, re.MULTILINE))
    assert names == {
        "init",
        "run",
        "strerror",
        "failure",
        "input_tensor",
        "output_tensor",
        "input_place",
        "output_place",
    }


def test_the_stack_bound_holds(digits_library: Library, tmp_path: Path) -> None:
    """Painted stack below `run`, on aarch64, is left beyond the bound."""
    info = digits_library.package.manifest.library
    assert info is not None
    assert info.stack_bytes
    used = int(run(cross([HERE / "paint.c", *digits_library.arguments], tmp_path / "paint")))
    assert 0.8 * info.stack_bytes <= used <= info.stack_bytes, used


def test_the_bytes_are_reproducible(digits_library: Library, tmp_path: Path) -> None:
    inputs = [digits.held_out()[0][:1]]
    again = arm_ext.compile(
        digits.model_path(), "arm", tmp_path / "again", emit="c-library", inputs=inputs, cache=False
    )
    hashes = [
        {file.path: file.sha256 for file in package.manifest.files}
        for package in (digits_library.package, again.package)
    ]
    assert hashes[0] == hashes[1]


def test_the_cmake_project_builds_and_tests(host_digits: Library, tmp_path: Path) -> None:
    assert shutil.which("cmake"), "cmake is missing; scripts/setup.sh test installs it"
    build = ["cmake", "-S", host_digits.folder / "example", "-B", tmp_path]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", tmp_path], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tmp_path / "selftest"], check=True, stdout=subprocess.DEVNULL)


def test_pkg_config_finds_it(host_digits: Library) -> None:
    assert shutil.which("pkg-config"), "pkg-config is missing; scripts/setup.sh test installs it"
    said = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "--static", host_digits.name],
        env={**os.environ, "PKG_CONFIG_PATH": str(host_digits.folder)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert f"-I{host_digits.folder}/include" in said
    assert f"-l{host_digits.name}" in said


def test_a_kernel_that_threads_would_share_runs_on_one(tmp_path: Path) -> None:
    """A product large enough for a parallel loop, whose workspace is in the arena then."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((256, 320), dtype=np.float32)}
    node = models.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    library = Library.of(
        models.model([node], {"x": [300, 256]}, ["y"], weights), tmp_path / "wide", "host", name="wide"
    )
    assert "all outputs agree" in run(cc(library.selftest, tmp_path / "selftest"))


@pytest.fixture(scope="module")
def lookup(libraries: Path) -> Library:
    """Rows of two tables by number."""
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["five", "ids"], ["rows"], name="look up"),
            helper.make_node("Gather", ["seven", "more"], ["others"], name="look further"),
        ],
        "lookup",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, [3]),
            helper.make_tensor_value_info("more", TensorProto.INT64, [1]),
        ],
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, [3, 4]),
            helper.make_tensor_value_info("others", TensorProto.FLOAT, [1, 2]),
        ],
        [
            numpy_helper.from_array(np.arange(20, dtype=np.float32).reshape(5, 4), "five"),
            numpy_helper.from_array(np.arange(14, dtype=np.float32).reshape(7, 2), "seven"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return Library.of(model, libraries / "lookup", "host", name="lookup")


def test_an_index_out_of_bounds_is_a_code_and_names_its_node(lookup: Library, tmp_path: Path) -> None:
    assert "all outputs agree" in run(cc(lookup.selftest, tmp_path / "selftest"))
    run(cc([*STRICT, HERE / "lookup.c", *lookup.arguments], tmp_path / "program"))


def test_python_names_the_node_of_an_index_out_of_bounds(lookup: Library, tmp_path: Path) -> None:
    model = python_module(lookup, tmp_path)["Model"]()
    ids, more = np.array([0, 4, 1]), np.array([7])
    with pytest.raises(
        ValueError, match="node 'look further': an index is out of bounds for an axis of size 7"
    ):
        model.run(ids, more)
    with pytest.raises(ValueError, match="the size of a buffer is not that of its tensor"):
        model.run(ids, ids)
    assert model.run(ids, more - 1)[1].tolist() == [[12, 13]]


def test_what_is_not_there_yet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="memory is for emit c-library"):
        arm_ext.compile(models.mlp(), "host", tmp_path / "a", memory="fast=1K")
    with pytest.raises(
        ModelError,
        match=r"it has 64 of fast bytes, and one region would need [\d,]+; alive at the widest layers",
    ):
        arm_ext.compile(models.residual_cnn(), "host", tmp_path / "a", emit="c-library", memory="fast=64")
    assert not (tmp_path / "a").exists()


def test_another_compiler_makes_the_c_parts(tmp_path: Path) -> None:
    library = Library.of(models.mlp(), tmp_path / "mlp", "host", name="mlp", cc="gcc")
    linker = library.package.manifest.versions.linker
    assert (linker.name, linker.version.split()[0]) == ("gcc", "gcc")
    assert "all outputs agree" in run(cc([*STRICT, *library.selftest], tmp_path / "selftest"))
    options: dict[str, Any] = {"emit": "c-library"}
    for command, fault in {
        "true": "the compiler true reported no error, but wrote no object file",
        "gcc -finstrument-functions": "would need .*__cyg_profile_func_enter.*; leave out the options",
    }.items():
        with pytest.raises((EnvError, UsageError), match=fault):
            arm_ext.compile(models.mlp(), "host", tmp_path / "a", cc=command, **options)
    assert not (tmp_path / "a").exists()


def test_boards_refuse_a_library(digits_library: Library) -> None:
    with pytest.raises(UsageError, match="is a C library"):
        load_package(digits_library.folder)
    with pytest.raises(UsageError, match="is a C library"):
        arm_ext.run(digits_library.package)


def test_a_library_is_replaced_by_another(tmp_path: Path) -> None:
    for _ in range(2):
        arm_ext.compile(models.mlp(), "host", tmp_path / "mlp", emit="c-library")
    (tmp_path / "mlp" / "mine").write_text("")
    with pytest.raises(UsageError, match="mine"):
        arm_ext.compile(models.mlp(), "host", tmp_path / "mlp", emit="c-library")


def test_python_runs_the_classifier(host_digits: Library, tmp_path: Path) -> None:
    module = python_module(host_digits, tmp_path)
    model = module["Model"]()
    images, labels = digits.held_out()
    results = [model.run(image)[0] for image in images[:100]]
    assert {logits.shape for logits in results} == {(1, 10)}
    right = np.argmax(np.concatenate([np.asarray(logits) for logits in results]), axis=1) == labels[:100]
    assert right.mean() > 0.95
    with pytest.raises(ValueError, match="the size of a buffer is not that of its tensor"):
        model.run(images[0, :, :4].copy())
    with pytest.raises(ValueError, match="takes 1 inputs, not 2"):
        model.run(images[0], images[0])


def test_python_steps_with_weights_of_a_file(host_mapped: Library, tmp_path: Path) -> None:
    model = python_module(host_mapped, tmp_path)["Model"](weights=host_mapped.folder / "mapped.weights")
    x = array.array("f", range(5))
    first, second = (model.step(x)[0].tolist() for _ in range(2))
    model.reset()
    assert first != second
    assert model.step(x)[0].tolist() == first
    assert model.step(bytes(x))[0].tolist() == second


_PROJECT = """
cmake_minimum_required(VERSION 3.13)
project(app C)
if(AS_ZEPHYR)
  add_library(zephyr_interface INTERFACE)
  function(zephyr_include_directories)
    target_include_directories(zephyr_interface INTERFACE ${ARGN})
  endfunction()
  function(zephyr_link_libraries)
    target_link_libraries(zephyr_interface INTERFACE ${ARGN})
  endfunction()
endif()
add_subdirectory("${LIBRARY}" library)
add_executable(app main.c)
if(AS_ZEPHYR)
  target_link_libraries(app PRIVATE zephyr_interface)
else()
  target_link_libraries(app PRIVATE digits_int8::digits_int8)
endif()
"""


@pytest.mark.parametrize("as_zephyr", ["OFF", "ON"])
def test_the_folder_is_a_part_of_a_cmake_project(
    host_digits: Library, tmp_path: Path, as_zephyr: str
) -> None:
    (tmp_path / "CMakeLists.txt").write_text(_PROJECT)
    (tmp_path / "main.c").write_text(
        '#include "digits_int8.h"\nint main(void) { return digits_int8_input_tensor(0) == NULL; }\n'
    )
    assert (host_digits.folder / "zephyr/module.yml").read_text() == "build:\n  cmake: .\n"
    definitions = [f"-DLIBRARY={host_digits.folder}", f"-DAS_ZEPHYR={as_zephyr}"]
    for words in (["-S", ".", "-B", "build", *definitions], ["--build", "build"]):
        subprocess.run(["cmake", *words], cwd=tmp_path, check=True, capture_output=True)
    assert run(tmp_path / "build/app") == ""
