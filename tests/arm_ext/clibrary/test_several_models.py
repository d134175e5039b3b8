# SPDX-License-Identifier: Apache-2.0
"""Libraries of several models, which store the weights that they share once."""

import json
import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import arm_ext
from arm_ext import LibraryModel, LibraryResult
from arm_ext.api import digits
from arm_ext.cli import invoke
from arm_ext.clibrary.library import check_names
from arm_ext.common.errors import UsageError
from arm_ext.package import load_package
from tests.arm_ext import models, state_models
from tests.arm_ext.clibrary.programs import STRICT, cc, cross, run

HIDDEN = 96


def headed(classes: int, batch: int | str = 2) -> onnx.ModelProto:
    """Return an encoder, the same in all of these models, with a head of its own."""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.standard_normal((31, HIDDEN), dtype=np.float32),
        "b": rng.standard_normal(HIDDEN, dtype=np.float32),
        "head": np.random.default_rng(classes).standard_normal((HIDDEN, classes), dtype=np.float32),
    }
    nodes = [
        models.helper.make_node("MatMul", ["x", "w"], ["product"], name="encode"),
        models.helper.make_node("Add", ["product", "b"], ["sum"], name="encode/bias"),
        models.helper.make_node("Relu", ["sum"], ["code"], name="encode/relu"),
        models.helper.make_node("MatMul", ["code", "head"], ["y"], name="classify"),
    ]
    return models.model(nodes, {"x": [batch, 31]}, ["y"], weights)


def saved(folder: Path, **protos: onnx.ModelProto) -> list[Path]:
    for name, proto in protos.items():
        onnx.save(proto, folder / f"{name}.onnx")
    return [folder / f"{name}.onnx" for name in protos]


def selftest(library: LibraryResult) -> list[str | Path]:
    """What a compiler takes to build the example."""
    example = library.path / "example"
    sources = [*sorted(example.glob("*.[cS]")), *library.path.glob("src/*_pool.c")]
    archive = library.path / f"lib{library.manifest.archive}.a"
    return [f"-I{library.path / 'include'}", f"-I{example}", *sources, archive, "-lm", "-lpthread"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> LibraryResult:
    """Two heads on one encoder, and a model that shares nothing, for this machine."""
    folder = tmp_path_factory.mktemp("several")
    paths = saved(folder, first=headed(7), second=headed(5), other=models.mlp())
    return arm_ext.compile_library(paths, "host", folder / "trio")


@pytest.mark.long
def test_both_classifiers_run_in_one_program_on_aarch64(tmp_path: Path) -> None:
    """The digits twice, with another last layer: the library is smaller than both by the weights of the others."""
    inputs = [digits.held_out()[0][:1]]
    other = onnx.load(digits.model_path())
    head = next(each for each in other.graph.initializer if each.name == "logits/weight_quantized")
    head.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(head)[::-1].copy(), head.name))
    paths = [digits.model_path(), *saved(tmp_path, reversed_digits=other)]
    options: dict[str, Any] = {"threads": 2, "memory": "fast=4K,slow=1M"}
    library = arm_ext.compile_library(
        [LibraryModel(path, inputs=inputs) for path in paths], "arm", tmp_path / "both", **options
    )
    assert run(cross([*STRICT, *selftest(library)], tmp_path / "selftest")).count("all outputs agree") == 2

    alone = [
        arm_ext.compile(path, "arm", tmp_path / path.stem, emit="c-library", inputs=inputs, **options).package
        for path in paths
    ]
    infos = [each.manifest.library for each in alone]
    together = [each.package.manifest.library for each in library.models]
    assert all(infos)
    assert all(together)
    (shared,) = {each.shared_weight_bytes for each in together if each}
    whole = sum(each.weight_bytes for each in infos if each)
    assert shared > 0.8 * whole / 2
    assert sum(each.weight_bytes for each in together if each) + 2 * shared - whole < 1024  # alignment
    sizes = [next(each.path.glob("lib*.a")).stat().st_size for each in alone]
    saved_bytes = sum(sizes) - (library.path / "libboth.a").stat().st_size
    assert saved_bytes > 1.1 * shared  # kernels, too
    # All kernels are the same: the bound is that of the deepest, and of what calls it.
    assert [each.stack_bytes for each in together if each] == pytest.approx(
        [e.stack_bytes for e in infos if e], abs=64
    )
    assert [each.regions for each in together if each] == [each.regions for each in infos if each]


def test_the_cmake_project_runs_the_selftest_of_each_model(pair: LibraryResult, tmp_path: Path) -> None:
    build = ["cmake", "-S", pair.path / "example", "-B", tmp_path]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", tmp_path], check=True, stdout=subprocess.DEVNULL)
    said = run(tmp_path / "selftest")
    assert [line.partition(":")[0] for line in said.splitlines()] == ["first", "second", "other"]
    said = subprocess.run(
        ["pkg-config", "--libs", "trio"],
        env={**os.environ, "PKG_CONFIG_PATH": str(pair.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "-ltrio" in said


def test_a_program_is_linked_with_the_models_that_it_calls_alone(pair: LibraryResult, tmp_path: Path) -> None:
    linked = {}
    for name in ("first", "other"):
        source = tmp_path / f"{name}.c"
        source.write_text(
            f'#include "{name}.h"\nint main(void) {{ return {name}_init(NULL, NULL, 0) == 0; }}\n'
        )
        words = [*STRICT, f"-I{pair.path / 'include'}", source, pair.path / "libtrio.a", "-lm"]
        program = cc(words, tmp_path / name)
        listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        linked[name] = {
            symbol
            for symbol in re.findall(r" (\w+)$", listed, re.MULTILINE)
            if re.search("_weights|_k_", symbol)
        }
    # All three have the same bias of zeros, and two the same encoder and its kernel.
    kernel = "k_arm_linear_f32"
    first = {"first_weights", f"first_{kernel}", "trio_shared_weights", f"trio_shared_{kernel}_bias_relu"}
    other = {"other_weights", f"other_{kernel}", f"other_{kernel}_bias_relu"}
    assert linked == {
        name: {*own, "trio_shared_2_weights"} for name, own in (("first", first), ("other", other))
    }


def test_an_output_may_not_lie_in_shared_weights(pair: LibraryResult, tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text("""
#include "first.h"
extern const unsigned char trio_shared_weights[];
static _Alignas(64) unsigned char arena[FIRST_ARENA_BYTES];
int main(void)
{
    static float x[FIRST_INPUT_X_ELEMENTS];
    const first_input inputs[] = {{x, sizeof x}};
    const first_output outputs[] = {{(void *)(uintptr_t)trio_shared_weights, FIRST_OUTPUT_Y_BYTES}};
    first_instance model;
    return first_init(&model, arena, sizeof arena) != FIRST_OK ||
           first_run(&model, inputs, outputs) != FIRST_ERROR_OVERLAP;
}
""")
    run(
        cc(
            [*STRICT, f"-I{pair.path / 'include'}", source, pair.path / "libtrio.a", "-lm"],
            tmp_path / "program",
        )
    )


def test_python_loads_each_model_from_one_shared_library(pair: LibraryResult, tmp_path: Path) -> None:
    whole = ["-shared", "-Wl,--whole-archive", pair.path / "libtrio.a", "-Wl,--no-whole-archive", "-lm"]
    cc(whole, tmp_path / "libtrio.so")
    x = np.linspace(-1, 1, 62, dtype=np.float32)
    shapes = []
    for name in ("first", "second"):
        shutil.copy(pair.path / "python" / f"{name}.py", tmp_path)
        model = runpy.run_path(str(tmp_path / f"{name}.py"))["Model"]()
        shapes.append(model.run(x)[0].shape)
    assert shapes == [(2, 7), (2, 5)]


def test_the_weights_of_all_may_be_one_file(tmp_path: Path) -> None:
    """With a state that begins with other values than zeros, after the constants of its model and of the next."""
    first = {"c": np.linspace(-1, 1, 7, dtype=np.float32).reshape(1, 1, 7)}
    (lstm,) = saved(tmp_path, lstm=state_models.lstm())
    given = [
        LibraryModel(lstm, state={"h": "hn", "c": "cn"}, state_init=first),
        *saved(tmp_path, first=headed(7), second=headed(5)),
    ]
    library = arm_ext.compile_library(given, "host", tmp_path / "apart", weights="file", cache=False)
    program = cc([*STRICT, *selftest(library)], tmp_path / "selftest")
    assert run(program).count("all outputs agree") == 3
    data = (library.path / "apart.weights").read_bytes()
    encoder = np.random.default_rng(3).standard_normal((31, HIDDEN), dtype=np.float32)
    assert 1.2 * encoder.nbytes < len(data) < 2 * encoder.nbytes
    assert data.count(first["c"].tobytes()) == 1
    assert {model.package.manifest.library.weight_bytes for model in library.models} == {len(data)}
    archive = (library.path / "libapart.a").read_bytes()
    assert b".rodata.lstm_weights" not in archive
    assert b".rodata.apart_shared" not in archive


def test_the_manifests_say_what_there_is(pair: LibraryResult) -> None:
    document = json.loads((pair.path / "manifest.json").read_text())
    jsonschema.validate(document, arm_ext.schema("library"))
    assert [model["name"] for model in document["models"]] == ["first", "second", "other"]
    for entry, model in zip(pair.manifest.models, pair.models, strict=True):
        assert json.loads((pair.path / entry.manifest).read_text()) == model.package.manifest.model_dump(
            mode="json"
        )
        assert (pair.path / entry.report).is_file()
        assert all((pair.path / file.path).is_file() for file in model.package.manifest.files)
    other = pair.models[2].package.manifest.library
    assert other is not None
    assert other.shared_weight_bytes < 64
    with pytest.raises(UsageError, match="is a C library"):
        load_package(pair.path)
    with pytest.raises(UsageError, match="is a C library"):
        arm_ext.run(pair.models[0].package)


def test_the_same_library_replaces_it_with_the_same_bytes(tmp_path: Path) -> None:
    paths = saved(tmp_path, first=headed(7), second=headed(5))
    runs = [arm_ext.compile_library(paths, "host", tmp_path / "pair", cache=False) for _ in range(2)]
    assert runs[0].manifest == runs[1].manifest
    (tmp_path / "pair" / "mine").write_text("")
    with pytest.raises(UsageError, match="holds mine"):
        arm_ext.compile_library(paths, "host", tmp_path / "pair")


def test_options_name_the_model_of_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, first=headed(7, "n"), second=headed(5, "n"))
    words = ["compile", "first.onnx", "second.onnx", "--target", "host", "--emit", "c-library", "-o", "pair"]
    said = ["--shape", "first:x=2,31", "--shape", "second:x={1,3},31", "--json"]
    assert invoke([*words, *said]) == 0
    first, second = (each["manifest"] for each in json.loads(capsys.readouterr().out)["models"])
    assert first["inputs"][0]["shape"] == [2, 31]
    assert [bucket["inputs"][0]["shape"] for bucket in second["buckets"]] == [[1, 31], [3, 31]]
    assert {bucket["selftest"] for bucket in second["buckets"]} == {"example/second.bin"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out"], "2 models, but a package holds one"),
        (["--emit", "c-library"], "-o is missing"),
        (["--emit", "c-library", "-o", "out", "--shape", "x=2,31"], "--shape x: the model is missing"),
        (["--emit", "c-library", "-o", "out", "--shape", "third:x=2,31"], "first or second"),
        (
            ["--emit", "c-library", "-o", "out", "--save-node", "encode", "--quantize", "x.npz"],
            "--quantize and --save-node: only for one",
        ),
    ],
)
def test_what_is_for_one_model_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path, first=headed(7), second=headed(5))
    assert invoke(["compile", "first.onnx", "second.onnx", *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_models_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    paths = [*saved(tmp_path, first=headed(7)), *saved(tmp_path / "again", First=headed(5))]
    with pytest.raises(UsageError, match=r"first and First would have the same C names first_…"):
        arm_ext.compile_library(paths, "host", tmp_path / "out")
    with pytest.raises(UsageError, match="two models are called first"):
        check_names(["first", "first"])
    with pytest.raises(
        UsageError, match="the C names a_input_… of the model a-input would also be names of the model a"
    ):
        check_names(["a-input", "a"])
    check_names(["a", "a_int8", "ab"])
    with pytest.raises(UsageError, match="compile_library for a C library of several"):
        arm_ext.compile(paths, "host", tmp_path / "out")
    with pytest.raises(UsageError, match="expected a list of models"):
        arm_ext.compile_library("first.onnx", "host", tmp_path / "out")


def test_models_of_open_sizes_are_in_it(tmp_path: Path) -> None:
    """Of a length, of any number of samples, and of one shape."""
    paths = saved(tmp_path, first=headed(7, "n"), second=headed(5, "n"), third=headed(3))
    sizes = ({"x": ("n<=8", 31)}, {"x": ("n", 31)}, None)
    given = [LibraryModel(path, shapes=each) for path, each in zip(paths, sizes, strict=True)]
    library = arm_ext.compile_library(given, "host", tmp_path / "open", threads=2)
    assert run(cc([*STRICT, *selftest(library)], tmp_path / "selftest")).count("all outputs agree") == 3
