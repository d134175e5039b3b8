# SPDX-License-Identifier: Apache-2.0
"""Packages in which a size, such as a sequence's length, is known at run time."""

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
import torch

import arm_ext
from arm_ext.api.compile import CompileResult
from arm_ext.cli.console import ShapeOption
from arm_ext.common.errors import ModelError, UsageError
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.sequence_models import WIDTH, convolution, moved, recurrent, transformer
from tests.arm_ext.test_dynamic_batch import main

LENGTHS = (1, 7, 8, 9, 31, 40)


def source(model: onnx.ModelProto, x: np.ndarray) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompileResult:
    out = tmp_path_factory.mktemp("length") / "p"
    return arm_ext.compile(transformer(), "host", out, shapes={"x": (1, "n<=40", WIDTH)})


def test_every_length_equals_the_sources_runtime(compiled: CompileResult):
    call = main(compiled.package.path)
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal((1, length, WIDTH), np.float32)
        (found,), (expected,) = call(x), source(transformer(), x)
        assert found.shape == expected.shape
        # Sums of 40 terms at most: 1e-5 of the largest is ten times their rounding.
        assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_main_refuses_what_is_longer(compiled: CompileResult):
    with pytest.raises(ValueError, match=r"compiled for x float32\[1, n<=40, 16\]"):
        main(compiled.package.path)(np.zeros((1, 41, WIDTH), np.float32))
    with pytest.raises(UsageError, match=r"shape is \[1, 41, 16\], the model takes \[1, n<=40, 16\]"):
        arm_ext.run(compiled.package, "host:1", inputs={"x": np.zeros((1, 41, WIDTH), np.float32)})


def test_report_states_the_form_of_each_kernel(compiled: CompileResult):
    reasons = {source: kernel.reason for kernel in compiled.report.kernels for source in kernel.sources}
    assert "in chunks of" in reasons["out"]
    assert "any length" in reasons["mixed"]
    assert compiled.package.manifest.inputs[0].open == ["", "n<=40", ""]
    assert compiled.package.manifest.outputs[0].open == ["", "n", ""]


def test_strided_convolutions(tmp_path: Path):
    result = arm_ext.compile(convolution(), "host", tmp_path / "p", shapes={"x": (1, 8, "n<=40")})
    call = main(result.package.path)
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal((1, 8, length), np.float32)
        for found, expected in zip(call(x), source(convolution(), x), strict=True):
            assert found.shape == expected.shape
            assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_outputs_have_sizes_that_follow_from_the_length(tmp_path: Path):
    result = arm_ext.compile(moved(), "host", tmp_path / "p", shapes={"x": (1, "n<=40", WIDTH)})
    call = main(result.package.path)
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal((1, length, WIDTH), np.float32)
        for found, expected in zip(call(x), source(moved(), x), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_board_runs_any_length(tmp_path: Path):
    package = arm_ext.compile(transformer(), "arm", tmp_path / "p", shapes={"x": (1, "n<=40", WIDTH)}).package
    (check,) = arm_ext.run(package, check=True).checks
    assert check.passed
    assert check.source is not None
    assert check.source.relative < 1e-5
    x = np.random.default_rng(9).standard_normal((1, 9, WIDTH), np.float32)
    (found,) = arm_ext.run(package, inputs={"x": x}).outputs.values()
    (expected,) = source(transformer(), x)
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_indices_are_checked_against_the_length(tmp_path: Path):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[n, 4] x, int64[3] i) => (float[3, 4] y) { [pick] y = Gather<axis = 0>(x, i) }"""
    )
    call = main(arm_ext.compile(model, "host", tmp_path / "p", shapes={"x": ("n<=40", 4)}).package.path)
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal((length, 4), np.float32)
        (found,) = call(x, np.array([0, -length, length - 1]))
        assert np.array_equal(found, x[[0, 0, -1]])
        for wrong in (length, -length - 1):
            with pytest.raises(IndexError, match="node 'pick': an index is out of bounds"):
                call(x, np.array([0, 0, wrong]))


def test_indices_into_a_multiple_of_the_length_are_checked(tmp_path: Path):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[n, 4] x, int64[2] i) => (float[2] y) {
            s = Constant<value_ints = [-1]>() flat = Reshape(x, s) [pick] y = Gather<axis = 0>(flat, i) }"""
    )
    call = main(arm_ext.compile(model, "host", tmp_path / "p", shapes={"x": ("n<=40", 4)}).package.path)
    x = np.random.default_rng(3).standard_normal((3, 4), np.float32)
    assert np.array_equal(call(x, np.array([-12, 11]))[0], x.reshape(-1)[[0, -1]])
    for wrong in (12, -13):
        with pytest.raises(IndexError, match=r"'pick': an index is out of bounds for an axis of size n \* 4"):
            call(x, np.array([0, wrong]))


class Indexed(torch.nn.Module):
    """Each way that torch indexes an axis by numbers known at run time."""

    def forward(
        self, x: torch.Tensor, i: torch.Tensor, j: torch.Tensor, k: torch.Tensor, m: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        put = x.clone()
        put[j] = x[:2]
        embedded = torch.nn.functional.embedding(k, x)
        return x[i], put, embedded, torch.take(x, m), torch.gather(x, 0, k.view(1, 2))


def test_torch_checks_indices_against_the_length(tmp_path: Path):
    first = [torch.zeros(2, dtype=torch.int64) for _ in range(4)]
    length = torch.export.Dim("n", min=2, max=40)
    program = torch.export.export(
        Indexed(), (torch.ones(5, 4), *first), dynamic_shapes=({0: length}, *[None] * 4)
    )
    call = main(arm_ext.compile(program, "host", tmp_path / "p", shapes={"x": ("n<=40", 4)}).package.path)
    for n in (2, 7, 40):
        x = torch.randn(n, 4, generator=torch.Generator().manual_seed(n))
        right = [[-n, n - 1], [n - 1, 0], [0, n - 1], [-4 * n, 4 * n - 1]]
        expected = Indexed()(x, *map(torch.tensor, right))
        for ours, theirs in zip(call(x.numpy(), *map(np.array, right)), expected, strict=True):
            assert np.array_equal(ours, theirs.numpy())
        for which, node in enumerate(("index", "index_put_", "(embedding|gather)", "take")):
            wrong = [list(each) for each in right]
            wrong[which][1] = 4 * n if node == "take" else n
            with pytest.raises(IndexError, match=f"node '{node}': an index is out of bounds"):
                call(x.numpy(), *map(np.array, wrong))


def test_tflite_checks_indices_against_the_length(tmp_path: Path):
    m = TfliteBuilder()
    x, i, j = m.take("float32", 5, 4), m.take("int32", 2), m.take("int32", 2, 1)
    taken = [m.tensor("float32", 2, 4) for _ in range(2)]
    m.op("GATHER", [x, i], [taken[0]])
    m.op("GATHER_ND", [x, j], [taken[1]])
    m.tensors[x].shapeSignature = [-1, 4]
    (tmp_path / "m.tflite").write_bytes(m.build(*taken))
    result = arm_ext.compile(tmp_path / "m.tflite", "host", tmp_path / "p", shapes={"t0": ("n<=40", 4)})
    call = main(result.package.path)
    for n in (1, 7, 40):
        rows = np.random.default_rng(n).standard_normal((n, 4), np.float32)
        right = np.array([0, n - 1], np.int32)
        for found in call(rows, right, right[:, None]):
            assert np.array_equal(found, rows[right])
        for number in (n, -1, 2**31 - 1):
            wrong = np.array([0, number], np.int32)
            for indices in ((wrong, right[:, None]), (right, wrong[:, None])):
                with pytest.raises(IndexError, match="an index is out of bounds for an axis of size n"):
                    call(rows, *indices)


def test_a_recurrent_layer_is_refused_by_node(tmp_path: Path):
    with pytest.raises(
        ModelError, match=r"'n' in shapes cannot be known.*: lstm: a recurrent layer has one.*\{20,40\}"
    ):
        arm_ext.compile(recurrent(), "host", tmp_path / "p", shapes={"x": ("n<=40", 1, 5)})
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, "n<=4", WIDTH), "the minimum bound is 8"),
        (("m", "n<=40", WIDTH), "m and n<=40: a size with a bound can be combined only with fixed sizes"),
        ((1, "n", WIDTH), "what is known at run time has a bound"),
    ],
)
def test_bounds_are_checked(shape: tuple[int | str, ...], message: str, tmp_path: Path):
    with pytest.raises(UsageError, match=message):
        arm_ext.compile(transformer(), "host", tmp_path / "p", shapes={"x": shape})


def test_what_is_made_for_one_shape_is_refused(tmp_path: Path):
    shapes = {"x": (1, "n<=40", WIDTH)}
    with pytest.raises(UsageError, match="npu cannot be combined with a bounded size"):
        arm_ext.compile(transformer(), "arm", tmp_path / "p", shapes=shapes, npu="ethos-u65-256")
    with pytest.raises(UsageError, match="state cannot be combined with a bounded size"):
        arm_ext.compile(transformer(), "arm", tmp_path / "p", shapes=shapes, state={"x": "y"})


def test_command_line_takes_a_bound():
    assert ShapeOption().convert("a=b=1,n<=40", None, None) == ("a=b", (1, "n<=40"))


def parsed(shape: str, outputs: str, nodes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[{shape}] x) => ({outputs}) {{{nodes}}}'
    )


@pytest.mark.parametrize(
    ("shape", "axis", "outputs", "nodes"),
    [
        (
            "1,n",
            1,
            "float[1,2] y, int64[1,2] i",
            "k = Constant<value_ints = [2]>() y, i = TopK<axis = 1>(x, k)",
        ),
        (
            "1,2,n",
            2,
            "float[1,2,m] y",
            'p = Constant<value_ints = [0,0,1,0,0,1]>() y = Pad<mode = "reflect">(x, p)',
        ),
    ],
    ids=["two best", "border that mirrors"],
)
def test_a_length_that_is_too_short_for_the_model_is_refused(
    shape: str, axis: int, outputs: str, nodes: str, tmp_path: Path
):
    model = parsed(shape, outputs, nodes)
    result = arm_ext.compile(model, "host", tmp_path / "p", shapes={"x": shape.replace("n", "n<=40")})
    call = main(result.package.path)
    sizes = [int(size) if size != "n" else 0 for size in shape.split(",")]
    for length in (2, 3, 9):
        sizes[axis] = length
        x = np.random.default_rng(length).standard_normal(sizes, np.float32)
        for found, expected in zip(call(x), source(model, x), strict=True):
            np.testing.assert_array_equal(found, expected)
    sizes[axis] = 1
    with pytest.raises(ValueError, match=r"compiled for x float32\[.*n<=40\], n from 2"):
        call(np.zeros(sizes, np.float32))


def test_a_slice_may_go_to_the_end(tmp_path: Path):
    ends = "s = Constant<value_ints = [1]>() e = Constant<value_ints = [9223372036854775807]>() "
    model = parsed(
        "1,n,4", "float[1,m,4] y", f"{ends} a = Constant<value_ints = [1]>() y = Slice(x, s, e, a)"
    )
    call = main(arm_ext.compile(model, "host", tmp_path / "p", shapes={"x": "1,n<=40,4"}).package.path)
    for length in LENGTHS[1:]:
        x = np.random.default_rng(length).standard_normal((1, length, 4), np.float32)
        np.testing.assert_array_equal(call(x)[0], x[:, 1:])


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("operator", ["ScatterND", "ScatterElements"])
def test_scatters_of_any_length(operator: str, reduction: str, tmp_path: Path):
    """Indices, updates or data of the length: loops of a scatter have the sizes of its own buffers."""
    last = 2 if operator == "ScatterND" else 4
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[n, 4] x, int64[n, {last}] i, float[{"n" if last == 2 else "n, 4"}] u) => (float[n, 4] y) {{
            y = {operator}<reduction = "{reduction}">(x, i, u) }}"""
    )
    bound = {"x": ("n<=40", 4), "i": ("n<=40", last), "u": ("n<=40",) if last == 2 else ("n<=40", 4)}
    result = arm_ext.compile(model, "host", tmp_path / "p", shapes=bound)
    call = main(result.package.path)
    for length in LENGTHS:
        rng = np.random.default_rng(length)
        x, u = (rng.standard_normal((length, 4), np.float32) for _ in range(2))
        places = rng.permutation(length)
        i = np.stack([places, places % 4], 1) if last == 2 else np.tile(places[:, None], (1, 4))
        u = u[:, 0] if last == 2 else u
        feed = {"x": x, "i": i, "u": u}
        (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
        np.testing.assert_array_equal(call(x, i, u)[0], expected)


def test_a_column_is_written_at_any_length(tmp_path: Path):
    """`x[..., 0] = c` of PyTorch, whose indices follow from the length."""

    class Written(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y[..., 0] = 7.0
            return y

    out = tmp_path / "m.onnx"
    torch.onnx.export(
        Written().eval(), (torch.zeros(1, 9, 4),), str(out), dynamo=False, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {1: "n"}, "y": {1: "n"}}, opset_version=17,
    )  # fmt: skip
    assert any(node.op_type == "ScatterND" for node in onnx.load(out).graph.node)
    call = main(arm_ext.compile(out, "host", tmp_path / "p", shapes={"x": (1, "n<=40", 4)}).package.path)
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal((1, length, 4), np.float32)
        expected = x * 2
        expected[..., 0] = 7
        np.testing.assert_array_equal(call(x)[0], expected)
