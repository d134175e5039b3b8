# SPDX-License-Identifier: Apache-2.0
"""C libraries for Cortex-M, run on emulated boards."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from elftools.elf.elffile import ELFFile
from onnx import helper, numpy_helper

import arm_ext
from arm_ext.api.run_library import bare_model, run_on_bare, selftest_of
from arm_ext.board.bare import MACHINES, BareBoard
from arm_ext.clibrary.objects import symbols_of
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.package import Package, load_package
from arm_ext.target.profiles import PROFILES, resolve
from arm_ext.target.toolchain import Driver
from tests.arm_ext import models, state_models

DIGITS = Path(arm_ext.__file__).parent / "api" / "digits"
KWS = Path(__file__).parents[4] / "shared" / "models" / "kws_ref_model.tflite"
CORES = [name for name, profile in PROFILES.items() if profile.core.is_microcontroller]
ROUTINES = 128
"""Most bytes of stack of compiler-rt's routines, which the bound of a library does not count."""


def compiled(model: object, target: str, folder: Path, **options: object) -> Package:
    arm_ext.compile(model, target=target, output=folder, emit="c-library", **options)
    return load_package(folder, bare=True)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("model", ["digits_int8", "digits_fp32"])
def test_digits_are_those_of_the_host(tmp_path: Path, core: str, model: str) -> None:
    library = compiled(DIGITS / f"{model}.onnx", core, tmp_path / "library")
    selftest = selftest_of(library)
    result = run_on_bare(library, "virtual", [selftest.inputs] * 2)
    for outputs in result.outputs:
        for found, expected in zip(outputs, selftest.expected, strict=True):
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
            else:
                np.testing.assert_array_equal(found, expected)
    assert library.manifest.library is not None
    bound = library.manifest.library.stack_bytes
    assert bound is not None
    assert bound - 64 <= result.stack_bytes <= bound + ROUTINES


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_a_trained_model_is_equal_to_the_byte(tmp_path: Path, core: str) -> None:
    if not KWS.is_file():
        pytest.skip(f"{KWS} is not there")
    result = arm_ext.run(compiled(KWS, core, tmp_path / "library"), check=True)
    assert [check.expected.exact for check in result.checks] == [True]


def test_instructions_are_counted_by_function_and_repeat(tmp_path: Path) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m4", tmp_path / "library")
    inputs = selftest_of(library).inputs
    first, second = run_on_bare(library, "virtual", [inputs] * 2, count=True).counts
    assert first == second
    kernels = {name: count for name, count in first.items() if "_k_" in name}
    assert len(kernels) >= 2
    assert sum(kernels.values()) > 0.9 * sum(first.values())


def test_bench_tells_instructions_by_kernel(tmp_path: Path) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m85", tmp_path / "library")
    report = arm_ext.bench(library)
    assert report.kind == "microcontroller"
    assert report.instructions == sum(each.instructions for each in report.functions)
    assert "M55" in report.stands_in
    with pytest.raises(UsageError, match="has one core"):
        arm_ext.bench(library, threads=2)


def test_report_estimates_instructions(tmp_path: Path) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m4", tmp_path / "library")
    text = (library.path / "report.txt").read_text()
    assert "instructions, estimated" in text
    assert "cycles" not in text.replace("a cycle or", "")
    assert "profile" not in text


def test_steps_keep_states(tmp_path: Path) -> None:
    library = compiled(state_models.held(), "cortex-m33", tmp_path / "library", state={"last": "next"})
    result = arm_ext.run(library, check=True)
    assert any("steps" in check.name for check in result.checks)
    assert all(check.passed for check in result.checks)


@pytest.mark.parametrize(
    ("mattr", "isa", "abi"),
    [
        ("-mve.fp", "mve", "hf"),
        ("-mve", "dsp", "hf"),
        ("-fp64", "mve", "hf"),
        ("-mve,-vfp2sp", "dsp", "eabi"),
    ],
)
def test_features_can_be_left_out(tmp_path: Path, mattr: str, isa: str, abi: str) -> None:
    profile = resolve("cortex-m55", mattr, library=True)
    assert profile.core.isa.name == isa
    assert profile.triple.endswith(abi)
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m55", tmp_path / "library", mattr=mattr)
    selftest = selftest_of(library)
    np.testing.assert_array_equal(
        run_on_bare(library, "virtual", [selftest.inputs]).outputs[0][0], selftest.expected[0]
    )


def test_archive_has_no_writable_data_and_says_what_it_calls(tmp_path: Path) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m0plus", tmp_path / "library")
    info = library.manifest.library
    assert info is not None
    Driver.of(resolve("cortex-m0plus", library=True))
    subprocess.run(["ar", "x", library.path / f"lib{info.name}.a"], cwd=tmp_path, check=True)
    with (tmp_path / f"{info.name}.o").open("rb") as file:
        elf = ELFFile(file)
        assert not [
            s.name for s in elf.iter_sections() if s.name.startswith((".data", ".bss")) and s.header.sh_size
        ]
        undefined = {s.name for s in symbols_of(elf) if s.name and s.entry.st_shndx == "SHN_UNDEF"}
    assert undefined == set(info.requires)
    header = (library.path / "include" / f"{info.name}.h").read_text()
    assert all(name in header for name in undefined)


@pytest.mark.parametrize(("own", "other"), [("cortex-m4", "soft"), ("cortex-m0plus", "hard")])
def test_a_program_of_the_other_float_abi_does_not_link(tmp_path: Path, own: str, other: str) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", own, tmp_path / "library")
    (tmp_path / "main.c").write_text(
        '#include "digits_int8.h"\nfloat start(float x) { return x + digits_int8_run(0, 0, 0); }\n'
    )
    command = [
        "arm-none-eabi-gcc",
        "-mcpu=cortex-m4",
        f"-mfloat-abi={other}",
        "-mfpu=fpv4-sp-d16",
        "-nostdlib",
    ]
    command += [
        "-Wl,-e,start",
        "-Wl,--unresolved-symbols=ignore-all",
        f"-I{library.path / 'include'}",
        "main.c",
    ]
    done = subprocess.run(
        [*command, library.path / "libdigits_int8.a", "-o", "program"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode
    assert b"VFP register arguments" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"emit": "package"}, "--emit c-library"),
        ({"emit": "c-library", "threads": 2}, "has one core"),
        ({"emit": "c-library", "mattr": "+mve"}, "cortex-m55, cortex-m85 can have it"),
        ({"emit": "c-library", "mattr": "+dotprod"}, "unknown feature 'dotprod'"),
        ({"emit": "c-library", "mattr": "+hwdiv", "memory": "fast=16"}, "fewer than 64 bytes"),
        ({"emit": "c-library", "cc": "gcc"}, "arm-none-eabi-gcc"),
    ],
)
def test_options_that_no_microcontroller_has(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises((UsageError, EnvError), match=message):
        arm_ext.compile(
            DIGITS / "digits_int8.onnx", target="cortex-m4", output=tmp_path / "library", **options
        )
    assert not (tmp_path / "library").exists()


def test_gcc_compiles_a_library(tmp_path: Path) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m7", tmp_path / "library", cc="arm-none-eabi-gcc")
    assert all(check.passed for check in arm_ext.run(library, check=True).checks)


def test_other_boards_are_refused(tmp_path: Path) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m4", tmp_path / "library")
    with pytest.raises(UsageError, match="runs on the emulated board mps2-an386"):
        arm_ext.run(library, board="local")


def test_a_model_that_does_not_fit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m4", tmp_path / "library")
    small = MACHINES["mps2-an386"]
    monkeypatch.setitem(MACHINES, small.name, type(small)(small.name, small.core, (0, 8 << 10), small.data))
    with pytest.raises(
        UsageError, match=r"does not fit the memory of the emulated mps2-an386: 8 KiB of code"
    ):
        BareBoard(bare_model(library))


def test_the_emulated_program_reaches_no_other_files(tmp_path: Path) -> None:
    library = compiled(DIGITS / "digits_int8.onnx", "cortex-m4", tmp_path / "library")
    board = BareBoard(bare_model(library))
    # The path is as long as "outputs", so that it can stand in the program in its place.
    board._program = board._program.replace(b"outputs\0", b"/tmp/oo\0")
    with pytest.raises(EnvError, match="failed on the emulated mps2-an386"):
        board.run([selftest_of(library).inputs])
    assert not Path("/tmp/oo").exists()


@pytest.mark.parametrize("core", ["cortex-m3", "cortex-m4", "cortex-m55"])
def test_extrema_are_ieees(tmp_path: Path, core: str) -> None:
    edges = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5, -1.5, 3.0, -3.0], np.float32)
    x, y = (each.ravel() for each in np.meshgrid(edges, edges))
    limits = (0.0, 1.5, -np.inf)
    nodes, outputs, constants = [], [], []
    for operator in ("Max", "Min"):
        for number, limit in enumerate(limits):
            constants.append(numpy_helper.from_array(np.float32(limit), f"{operator}{number}c"))
            nodes.append(helper.make_node(operator, ["x", f"{operator}{number}c"], [f"{operator}{number}"]))
        nodes.append(helper.make_node(operator, ["x", "y"], [f"{operator}xy"]))
        outputs += [f"{operator}{number}" for number in range(len(limits))] + [f"{operator}xy"]
    graph = helper.make_graph(
        nodes,
        "extrema",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name in "xy"],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name in outputs],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = run_on_bare(compiled(model, core, tmp_path / "library"), "virtual", [[x, y]]).outputs[0]
    for name, value in zip(outputs, found, strict=True):
        other = y if name.endswith("xy") else np.float32(limits[int(name[3:])])
        greater = (x > other) | ((x == other) & ~np.signbit(x)) == name.startswith("Max")
        expected = np.where(np.isnan(x) | np.isnan(other), np.float32(np.nan), np.where(greater, x, other))
        np.testing.assert_array_equal(value, expected, err_msg=name)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(value)[known], np.signbit(expected)[known], err_msg=name)


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_float_models_pass_with_functions_of_libm(tmp_path: Path, core: str) -> None:
    states = {"h": "hn", "c": "cn"}
    library = compiled(state_models.lstm(), core, tmp_path / "lstm", state=states)
    assert library.manifest.library is not None
    assert "expf" in library.manifest.library.requires
    assert all(check.passed for check in arm_ext.run(library, check=True).checks)
    assert all(
        check.passed
        for check in arm_ext.run(compiled(models.residual_cnn(), core, tmp_path / "cnn"), check=True).checks
    )


@pytest.mark.parametrize(
    ("operator", "shapes", "reason"),
    [
        ("Mul", {"x": ("n<=9", 4)}, "sizes of its inputs are given at run time"),
        ("Pow", {"x": (3, 4)}, "it calls powf of libm"),
    ],
)
def test_what_the_program_on_a_board_lacks_is_told(
    tmp_path: Path, operator: str, shapes: dict[str, tuple[object, ...]], reason: str
) -> None:
    source = models.model([helper.make_node(operator, ["x", "x"], ["y"])], {"x": ["n", 4]}, ["y"], {})
    library = compiled(source, "cortex-m4", tmp_path / "library", shapes=shapes)
    with pytest.raises(UsageError, match=reason):
        arm_ext.run(library, check=True)
