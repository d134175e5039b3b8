# SPDX-License-Identifier: Apache-2.0
"""Libraries that take a length up to a bound."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

import arm_ext
from arm_ext.common.errors import ModelError
from tests.arm_ext.clibrary.programs import HERE, STRICT, Library, cc, cross, python_module, run
from tests.arm_ext.models import model
from tests.arm_ext.sequence_models import WIDTH, convolution, moved, transformer
from tests.arm_ext.test_dynamic_batch import main

LARGEST = 40
LENGTHS = (1, 7, 8, 9, 31, LARGEST)
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def layers() -> onnx.ModelProto:
    """A product with weights of each position, and a convolution along positions of what it gives."""
    rng = np.random.default_rng(6)
    weights = {
        "w": rng.standard_normal((WIDTH, 24), np.float32) / 4,
        "v": rng.standard_normal((7, 24, 3), np.float32) / 8,
        "b": rng.standard_normal(7, np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Transpose", ["r"], ["t"], name="turned", perm=[0, 2, 1]),
        helper.make_node("Conv", ["t", "v", "b"], ["y"], name="conv", pads=[1, 1]),
    ]
    return model(nodes, {"x": [1, "n", WIDTH]}, ["y"], weights)


def products() -> onnx.ModelProto:
    """Two products with weights that are worth threads, the second with a residual."""
    rng = np.random.default_rng(7)
    weights = {
        "w": rng.standard_normal((64, 320), np.float32) / 8,
        "v": rng.standard_normal((320, 64), np.float32) / 16,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Sigmoid", ["h"], ["s"], name="sigmoid"),
        helper.make_node("MatMul", ["s", "v"], ["m"], name="back"),
        helper.make_node("Add", ["m", "x"], ["y"], name="residual"),
    ]
    return model(nodes, {"x": [1, "n", 64]}, ["y"], weights)


MODELS = {
    "transformer": transformer,
    "convolution": convolution,
    "layers": layers,
    "moved": moved,
    "products": products,
}
SHAPES = dict.fromkeys(MODELS, (1, f"n<={LARGEST}", WIDTH)) | {
    "convolution": (1, 8, f"n<={LARGEST}"),
    "products": (1, "n<=200", 64),
}


class Samples(CalibrationDataReader):
    """What the tests give the models, to quantise them by."""

    def __init__(self, kind: str) -> None:
        self._left = [{"x": x_of(kind, length)} for length in LENGTHS]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def x_of(kind: str, length: int) -> np.ndarray:
    shape = [length if isinstance(size, str) else size for size in SHAPES[kind]]
    return np.random.default_rng(length).standard_normal(shape, np.float32)


def model_of(kind: str, dtype: str, folder: Path) -> onnx.ModelProto:
    made = MODELS[kind]()
    if dtype == "int8":
        whole, quantised = folder / "float.onnx", folder / "int8.onnx"
        onnx.save(made, whole)
        quantize_static(whole, quantised, Samples(kind), quant_format=QuantFormat.QDQ, per_channel=True)
        made = onnx.load(quantised)
    return made


def cases(results: Iterable[tuple[int, np.ndarray, list[np.ndarray]]]) -> bytes:
    """Return lengths, inputs and outputs as lengths.c reads them."""
    each = [b"".join([bytes([n]), x.tobytes(), *(y.tobytes() for y in found)]) for n, x, found in results]
    return bytes([len(each)]) + b"".join(each)


def program(library: Library, data: bytes, bound: float, folder: Path) -> list[Any]:
    """Return what a compiler takes to build lengths.c with the library."""
    (folder / "cases.bin").write_bytes(data)
    (folder / "cases.S").write_text(
        '.section .rodata\n.globl cases\ncases: .incbin "cases.bin"\n.section .note.GNU-stack,"",%progbits\n'
    )
    bounds = (f"-DBOUND={bound!r}", f"-I{folder}", f"-Wa,-I{folder}")
    return [*STRICT, *bounds, HERE / "lengths.c", folder / "cases.S", *library.arguments]


def package_results(
    made: onnx.ModelProto, kind: str, folder: Path, lengths: Iterable[int] = LENGTHS
) -> list[Any]:
    call = main(arm_ext.compile(made, "host", folder, shapes={"x": SHAPES[kind]}).package.path)
    return [(length, x_of(kind, length), call(x_of(kind, length))) for length in lengths]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        # Packages of transformers have every length in tests/arm_ext/shapes, and products of threads are below.
        pytest.param("transformer", "float", marks=pytest.mark.long),
        ("convolution", "float"),
        ("layers", "int8"),
        ("moved", "float"),
    ],
)
def test_every_length_equals_the_package(kind: str, dtype: str, tmp_path: Path) -> None:
    made = model_of(kind, dtype, tmp_path)
    results = package_results(made, kind, tmp_path / "package")
    shapes = {"x": SHAPES[kind]}
    here = Library.of(made, tmp_path / "here", "host", name="seq", shapes=shapes)
    # On one machine the kernels' instructions are the same.
    given = program(here, cases(results), 0, tmp_path)
    assert "all lengths agree" in run(cc([*SANITIZED, *given], tmp_path / "lengths"))
    assert "all outputs agree" in run(cc([*STRICT, *here.selftest], tmp_path / "selftest"))
    there = Library.of(made, tmp_path / "there", "cortex-a76", name="seq", shapes=shapes)
    bound = 0 if dtype == "int8" else there.package.manifest.check.relative_bound
    given = program(there, cases(results), bound, tmp_path)
    assert "all lengths agree" in run(cross(given, tmp_path / "lengths_there"))
    assert "all outputs agree" in run(cross([*STRICT, *there.selftest], tmp_path / "selftest_there"))


def test_threads_share_kernels_of_any_length(tmp_path: Path) -> None:
    results = package_results(products(), "products", tmp_path / "package", (*LENGTHS, 200))
    shapes = {"x": SHAPES["products"]}
    library = Library.of(products(), tmp_path / "seq", "host", name="seq", shapes=shapes, threads=4)
    assert (library.folder / "src" / "seq.c").read_text().count("share(pool, (size_t)(quotient(") == 2
    given = program(library, cases(results), 0, tmp_path)
    pool = library.folder / "src" / "seq_pool.c"
    assert "all lengths agree" in run(cc([*SANITIZED, *given, pool, "-lpthread"], tmp_path / "lengths"))


def test_the_manifest_and_the_header_name_the_bound(host_lengths: Library) -> None:
    manifest = host_lengths.package.manifest
    assert manifest.inputs[0].open == ["", "", "n<=40"]
    assert manifest.outputs[0].open == ["", "", "(n + 1) // 2"]
    header = (host_lengths.folder / "include" / "seq.h").read_text()
    assert "#define SEQ_LENGTH_MAX 40u" in header
    assert "/** x float32[1, 8, n<=40] */" in header
    assert "/** d float32[1, 8, (n + 1) // 2] */" in header


def test_the_class_takes_the_length(host_lengths: Library, tmp_path: Path) -> None:
    source = tmp_path / "program.cpp"
    source.write_text("""
#include "seq.hpp"
int main()
{
    static float x[SEQ_INPUT_X_ELEMENTS], d[SEQ_OUTPUT_D_ELEMENTS], m[SEQ_OUTPUT_M_ELEMENTS];
    seq::Model model;
    return model.run(9, x, d, m) != SEQ_OK || model.run(40) != SEQ_OK || model.input(0) == nullptr ||
           model.run(0, x, d, m) != SEQ_ERROR_LENGTH || model.run(41, x, d, m) != SEQ_ERROR_LENGTH;
}
""")
    for standard in ("c++11", "c++20"):
        flags = [*SANITIZED, *STRICT, f"-std={standard}", source]
        run(cc([*flags, *host_lengths.arguments], tmp_path / "program", "g++"))


def test_python_finds_the_length_by_the_inputs(host_lengths: Library, tmp_path: Path) -> None:
    model = python_module(host_lengths, tmp_path)["Model"]()
    for length, x, expected in package_results(convolution(), "convolution", tmp_path / "package"):
        found = model.run(x)
        assert found[0].shape == (1, 8, (length + 1) // 2)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(one), other)
    with pytest.raises(ValueError, match="x of 1312 bytes is longer than 40"):
        model.run(x_of("convolution", LARGEST + 1))
    with pytest.raises(ValueError, match="the size of a buffer is not that of its tensor"):
        model.run(np.zeros(9, np.float32))
    with pytest.raises(ValueError, match="takes 1 inputs, not 0"):
        model.run()


def test_indices_are_checked_for_a_length(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="look up"),
        helper.make_node("Relu", ["rows"], ["y"], name="relu"),
    ]
    table = np.random.default_rng(0).standard_normal((10, 4), np.float32)
    made = model(nodes, {"ids": [1, "n"]}, ["y"], {"table": table})
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    library = Library.of(made, tmp_path / "seq", "host", name="seq", shapes={"ids": (1, "n<=9")})
    given = python_module(library, tmp_path)["Model"]()
    ids = np.array([[9, 0, 3]])
    np.testing.assert_array_equal(np.asarray(given.run(ids)[0]), np.maximum(table[ids], 0))
    with pytest.raises(ValueError, match="an index is out of bounds"):
        given.run(np.array([[1, 10]]))


def test_indices_along_the_length_are_checked(tmp_path: Path) -> None:
    """Outputs have fixed sizes, so that the length matters to no size of theirs."""
    made = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[n, 4] x, int64[2] i, int64[2, 1] j) => (float[1, 4] y) {
            [pick] rows = Gather<axis = 0>(x, i)
            [put] filled = ScatterND(x, j, rows)
            y = ReduceMax<axes = [0]>(filled) }"""
    )
    library = Library.of(made, tmp_path / "seq", "host", name="seq", shapes={"x": ("n<=9", 4)})
    given = python_module(library, tmp_path)["Model"]()
    for length in (2, 5, 9):
        x = np.random.default_rng(length).standard_normal((length, 4), np.float32)
        right, places = np.array([-length, length - 1]), np.array([[-1], [0]])
        filled = x.copy()
        filled[places[:, 0]] = x[right]
        np.testing.assert_array_equal(
            np.asarray(given.run(x, right, places)[0]), filled.max(0, keepdims=True)
        )
        for wrong in (length, -length - 1):
            for indices in ((np.array([0, wrong]), places), (right, np.array([[0], [wrong]]))):
                with pytest.raises(ValueError, match="an index is out of bounds"):
                    given.run(x, *indices)


def test_rows_of_any_number_are_sorted(tmp_path: Path) -> None:
    """The indices of the best of each row, whose values nothing reads, and the best row of each column."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "places"], name="best", axis=-1),
        helper.make_node("Identity", ["places"], ["y"], name="same"),
        helper.make_node("TopK", ["x", "one"], ["z", "rows"], name="row", axis=1),
    ]
    made = model(nodes, {"x": [1, "n", 5]}, ["y", "z"], {"k": np.array([3]), "one": np.array([1])})
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    for target in ("host", "arm"):
        shapes = {"x": (1, f"n<={LARGEST}", 5)}
        library = Library.of(made, tmp_path / target, target, name="seq", shapes=shapes)
        results = []
        for length in LENGTHS:
            x = np.random.default_rng(length).integers(-4, 5, (1, length, 5)).astype(np.float32)
            best = np.argsort(-x, -1, kind="stable")[..., :3].astype(np.int64)
            results.append((length, x, [best, x.max(1, keepdims=True)]))
        given = program(library, cases(results), 0, tmp_path)
        built = (
            cc([*SANITIZED, *given], tmp_path / "here")
            if target == "host"
            else cross(given, tmp_path / "there")
        )
        assert "all lengths agree" in run(built)


def test_fewer_rows_than_are_wanted_are_refused(tmp_path: Path) -> None:
    two = helper.make_node("TopK", ["x", "k"], ["y", "places"], name="two", axis=1)
    made = model([two], {"x": [1, "n", 5]}, ["y"], {"k": np.array([2])})
    shapes = {"x": (1, "n<=9", 5)}
    with pytest.raises(ModelError, match=r"two: calls tvm.contrib.sort.topk of TVM's runtime"):
        arm_ext.compile(made, "host", tmp_path / "a", emit="c-library", shapes=shapes)


_SHORT = """
#include "seq.h"

static _Alignas(64) unsigned char arena[SEQ_ARENA_BYTES];
static float x[SEQ_INPUT_X_ELEMENTS], y[SEQ_OUTPUT_Y_ELEMENTS];

int main(void)
{
    seq_instance model;
    const seq_input one[] = {{x, 5 * sizeof *x}}, two[] = {{x, 10 * sizeof *x}};
    const seq_output of_one[] = {{y, 15 * sizeof *y}}, of_two[] = {{y, 20 * sizeof *y}};
    if (seq_init(&model, arena, sizeof arena) != SEQ_OK || seq_run(&model, 2, two, of_two) != SEQ_OK) {
        return 2;
    }
    return seq_run(&model, 1, one, of_one) != SEQ_ERROR_LENGTH;
}
"""


def test_a_length_that_is_too_short_for_the_model_is_an_error(tmp_path: Path) -> None:
    border = helper.make_node("Pad", ["x", "p"], ["y"], name="border", mode="reflect")
    made = model([border], {"x": [1, "n", 5]}, ["y"], {"p": np.array([0, 1, 0, 0, 1, 0])})
    shapes = {"x": (1, "n<=9", 5)}
    library = Library.of(made, tmp_path / "short", "host", name="seq", shapes=shapes)
    assert "#define SEQ_LENGTH_MIN 2u" in (library.folder / "include" / "seq.h").read_text()
    (tmp_path / "short.c").write_text(_SHORT)
    run(cc([*SANITIZED, *STRICT, tmp_path / "short.c", *library.arguments], tmp_path / "here"))


def test_lengths_in_regions_and_threads_with_weights_of_a_file(tmp_path: Path) -> None:
    options = {"memory": "fast=2K,slow=64K", "threads": 2, "weights": "file"}
    shapes = {"x": SHAPES["transformer"]}
    library = Library.of(transformer(), tmp_path / "seq", "arm", name="seq", shapes=shapes, **options)
    assert "all outputs agree" in run(cross([*STRICT, *library.selftest], tmp_path / "selftest"))
