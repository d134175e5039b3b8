# SPDX-License-Identifier: Apache-2.0
"""The kernels for Cortex-M against the host: sizes with tails, strides, dilations, borders, batches, zero points."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import arm_ext
from arm_ext import NpuOptions
from arm_ext.api.run_library import run_on_bare, selftest_of
from arm_ext.package import load_package
from tests.arm_ext.clibrary.test_microcontrollers import ROUTINES


@dataclass(frozen=True)
class Case:
    """A quantised convolution of data [batch, channels, height, width]."""

    channels: int
    outputs: int
    kernel: tuple[int, int] = (1, 1)
    size: tuple[int, int] = (5, 7)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    batch: int = 1
    extreme: bool = False
    gain: float = 1.0


PRODUCTS = (
    Case(16, 16),
    Case(64, 31),
    Case(80, 16),
    Case(7, 9),
    Case(1, 1, (3, 3)),
    Case(3, 8, (3, 3), pads=(1, 1, 1, 1), strides=(2, 2)),
    Case(16, 17, (3, 3), pads=(1, 0, 2, 1), batch=2),
    Case(31, 16, (2, 3), dilations=(2, 1)),
    Case(8, 33, (5, 1), (9, 9), pads=(2, 0, 2, 0)),
    Case(16, 16, (3, 3), extreme=True),
    Case(208, 16),
    Case(4, 16, gain=100.0),
    Case(80, 7, (3, 3)),
    Case(32, 16, (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    Case(16, 16, (2, 2), (7, 8), pads=(1, 1, 0, 1), strides=(3, 3), batch=2),
    Case(48, 5, (5, 1), (3, 3), pads=(4, 0, 4, 0)),
)
DEPTHWISE = (
    Case(16, 16, (3, 3), groups=16),
    Case(48, 48, (3, 3), pads=(1, 1, 1, 1), groups=48, batch=2),
    Case(8, 8, (3, 3), pads=(1, 1, 1, 1), strides=(2, 2), groups=8),
    Case(31, 31, (5, 3), (9, 8), pads=(2, 1, 2, 1), groups=31),
    Case(32, 32, (2, 2), dilations=(2, 3), groups=32),
    Case(20, 20, (3, 3), (7, 5), pads=(2, 1, 2, 1), strides=(2, 1), dilations=(2, 1), groups=20, batch=2),
    Case(16, 16, (3, 3), groups=16, extreme=True),
)


def model(cases: Sequence[Case], dtypes: Sequence[str] = ("int8", "uint8")) -> onnx.ModelProto:
    """A model with a convolution for each case, each with an input and an output of its own, of one dtype in turn."""
    rng, nodes, inputs, outputs, constants = np.random.default_rng(3), [], [], [], []
    for number, case in enumerate(cases):
        dtype = dtypes[number % len(dtypes)]
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        shape = (case.outputs, case.channels // case.groups, *case.kernel)
        weights = rng.integers(-128, 128, shape) if case.extreme else rng.integers(-127, 128, shape)
        weights.flat[: 4 * case.extreme] = -128
        scale = case.gain * 0.9 / np.sqrt(weights[0].size) / 60
        known = {
            "xs": np.float32(0.05),
            "xz": np.dtype(dtype).type(3 if dtype == "int8" else 131),
            "w": weights.astype("int8"),
            "ws": (scale * rng.uniform(0.5, 1.5, case.outputs)).astype("float32"),
            "wz": np.zeros(case.outputs, "int8"),
            "ys": np.float32(0.04),
            "yz": np.dtype(dtype).type(-7 if dtype == "int8" else 117),
            "b": rng.integers(-3000, 3000, case.outputs).astype("int32"),
        }
        for name, value in known.items():
            constants.append(numpy_helper.from_array(np.asarray(value), f"{name}{number}"))
        names = [f"{name}{number}" for name in ("x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b")]
        attributes = {
            "kernel_shape": case.kernel,
            "pads": case.pads,
            "strides": case.strides,
            "dilations": case.dilations,
            "group": case.groups,
        }
        nodes.append(helper.make_node("QLinearConv", names, [f"y{number}"], f"conv{number}", **attributes))
        inputs.append(
            helper.make_tensor_value_info(f"x{number}", element, (case.batch, case.channels, *case.size))
        )
        outputs.append(helper.make_tensor_value_info(f"y{number}", element, None))
    graph = helper.make_graph(nodes, "cases", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("target", "cases", "kernel"),
    [
        ("cortex-m55", PRODUCTS, "gemm_s8_mve"),
        ("cortex-m55", DEPTHWISE, "depthwise_s8_mve"),
        ("cortex-m4", PRODUCTS, "gemm_s8_dsp"),
        ("cortex-m7", DEPTHWISE, "depthwise_s8_dsp"),
        ("cortex-m0plus", PRODUCTS, "gemm_s8_thumb"),
        ("cortex-m3", DEPTHWISE, "depthwise_s8_thumb"),
    ],
)
def test_convolutions_are_those_of_the_host(
    tmp_path: Path, target: str, cases: Sequence[Case], kernel: str
) -> None:
    folder = tmp_path / "library"
    arm_ext.compile(model(cases), target=target, output=folder, emit="c-library")
    report = json.loads((folder / "report.json").read_text())
    chosen = [call["kernel"] for call in report["kernels"]]
    declined = 2 if cases is DEPTHWISE else 0
    assert chosen.count(kernel) >= len(cases) - declined - 1, chosen
    equal_to_host(folder, model(cases), tmp_path, [str(case) for case in cases])


@pytest.mark.parametrize(
    ("target", "mattr", "isa"),
    [("cortex-m33", "-vfp2sp", "thumb"), ("cortex-m4", "-dsp", "thumb"), ("cortex-m55", "-mve.fp", "dsp")],
)
def test_cores_that_lack_a_feature_have_the_kernels_of_others(
    tmp_path: Path, target: str, mattr: str, isa: str
) -> None:
    cases, folder = (*PRODUCTS[2:6], DEPTHWISE[1]), tmp_path / "library"
    arm_ext.compile(model(cases), target=target, mattr=mattr, output=folder, emit="c-library")
    report = json.loads((folder / "report.json").read_text())
    chosen = {call["kernel"] for call in report["kernels"]}
    assert {f"gemm_s8_{isa}", f"depthwise_s8_{isa}"} <= chosen
    equal_to_host(folder, model(cases), tmp_path, [str(case) for case in cases])


@pytest.mark.parametrize(
    ("target", "isa"),
    [
        ("cortex-m55", "mve"),
        # An Ethos-U stands beside cores with Helium; the others have the same rounding by other instructions.
        pytest.param("cortex-m33", "dsp", marks=pytest.mark.long),
        pytest.param("cortex-m0plus", "thumb", marks=pytest.mark.long),
    ],
)
def test_convolutions_round_as_tosa_beside_an_npu(tmp_path: Path, target: str, isa: str) -> None:
    npu = NpuOptions("ethos-u55-128", cpu_ops=("conv2d", "depthwise_conv2d"))
    cases, folder = (*PRODUCTS, *DEPTHWISE), tmp_path / "library"
    source = model(cases, ("int8",))
    arm_ext.compile(source, target=target, output=folder, emit="c-library", npu=npu)
    report = json.loads((folder / "report.json").read_text())
    chosen = [call["kernel"] for call in report["kernels"]]
    assert chosen.count(f"gemm_s8_{isa}") + chosen.count(f"depthwise_s8_{isa}") >= len(cases) - 4, chosen
    equal_to_host(folder, source, tmp_path, [str(case) for case in cases], npu)


def equal_to_host(
    folder: Path,
    source: onnx.ModelProto,
    tmp_path: Path,
    told: Sequence[str],
    npu: NpuOptions | None = None,
) -> None:
    """Check a library's outputs on the emulated board: random data, the self-test's, all-least and all-greatest."""
    library = load_package(folder, bare=True)
    rng, selftest = np.random.default_rng(8), selftest_of(library)
    limits = [(np.iinfo(each.dtype).min, np.iinfo(each.dtype).max) for each in selftest.inputs]
    pairs = list(zip(selftest.inputs, limits, strict=True))
    extremes = [[np.full_like(each, limit[end]) for each, limit in pairs] for end in (0, 1)]
    host = arm_ext.compile(source, target="host", output=tmp_path / "host", npu=npu)
    batches = [
        selftest.inputs,
        *extremes,
        [rng.integers(low, high + 1, each.shape).astype(each.dtype) for each, (low, high) in pairs],
    ]
    result = run_on_bare(library, "virtual", batches)
    found = result.outputs
    assert library.manifest.library is not None
    bound = library.manifest.library.stack_bytes
    assert bound is not None
    assert result.stack_bytes <= bound + ROUTINES
    names = [tensor.name for tensor in library.manifest.inputs]
    for inputs, outputs in zip(batches, found, strict=True):
        expected = arm_ext.run(host, board="local", inputs=dict(zip(names, inputs, strict=True))).outputs
        for number, (output, (name, value)) in enumerate(zip(outputs, expected.items(), strict=True)):
            np.testing.assert_array_equal(output, value, err_msg=f"{name}: {told[number]}")
            assert value.size == 1 or len(np.unique(value)) > 1 or any(inputs is each for each in extremes)


SUMS = (("Add", 1, 0.07), ("Add", 7, 0.03), ("Sub", 31, 0.05), ("Add", 48, 0.4), ("Sub", 33, 0.011))
"""Operator, number of elements and scale of the second operand; the sum of equal scales has ties, and no such form."""


@dataclass
class Network:
    """Nodes and constants of a quantised ONNX model of one dtype, under construction."""

    dtype: str

    def __post_init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(5)
        self.zero = np.dtype(self.dtype).type(3 if self.dtype == "int8" else 131)

    def constant(self, value: object) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def scale(self, value: float) -> list[str]:
        """Add a scale and the zero point; return their names."""
        return [self.constant(np.float32(value)), self.constant(self.zero)]

    def binary(self, operator: str, x: str, z: str, scale: float = 0.05) -> str:
        """Add a sum or difference of two tensors; return its name."""
        y = f"y{len(self.nodes)}"
        for each, its in ((x, 0.05), (z, scale)):
            names = [each, *self.scale(its)]
            self.nodes.append(helper.make_node("DequantizeLinear", names, [f"{y}_{len(self.nodes)}"]))
        operands = [self.nodes[-2].output[0], self.nodes[-1].output[0]]
        self.nodes.append(helper.make_node(operator, operands, [f"{y}_real"], y))
        self.nodes.append(helper.make_node("QuantizeLinear", [f"{y}_real", *self.scale(0.05)], [y]))
        return y

    def convolution(self, x: str, channels: tuple[int, int], size: int = 1, groups: int = 1) -> str:
        """Add a convolution that keeps height and width; return its name."""
        y = f"y{len(self.nodes)}"
        weights = self.rng.integers(-127, 128, (channels[1], channels[0] // groups, size, size)).astype(
            "int8"
        )
        scale = 0.9 / np.sqrt(weights[0].size) / 60
        names = [x, *self.scale(0.05), self.constant(weights), self.constant(np.float32(scale))]
        names += [self.constant(np.int8(0)), *self.scale(0.05)]
        pads = [size // 2] * 4
        self.nodes.append(helper.make_node("QLinearConv", names, [y], y, pads=pads, group=groups))
        return y

    def model(self, inputs: Sequence[tuple[str, tuple[int, ...]]], outputs: Sequence[str]) -> onnx.ModelProto:
        """Return the model."""
        element = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        ins = [helper.make_tensor_value_info(name, element, shape) for name, shape in inputs]
        outs = [helper.make_tensor_value_info(name, element, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "network", ins, outs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("target", "dtype"), [("cortex-m55", "uint8"), ("cortex-m4", "int8"), ("cortex-m3", "int8")]
)
def test_sums_are_those_of_the_host(tmp_path: Path, target: str, dtype: str) -> None:
    network = Network(dtype)
    outputs = [
        network.binary(operator, f"x{n}", f"z{n}", scale) for n, (operator, _, scale) in enumerate(SUMS)
    ]
    inputs = [(f"{name}{n}", (1, size)) for n, (_, size, _) in enumerate(SUMS) for name in "xz"]
    source = network.model(inputs, outputs)
    folder = tmp_path / "library"
    arm_ext.compile(source, target=target, output=folder, emit="c-library")
    report = json.loads((folder / "report.json").read_text())
    chosen = [call["kernel"] for call in report["kernels"]]
    assert chosen.count("binary_s8_m") == len(SUMS) - 1, chosen
    equal_to_host(folder, source, tmp_path, [str(each) for each in SUMS])


@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m4"])
def test_results_take_the_memory_of_operands_that_nothing_needs(tmp_path: Path, target: str) -> None:
    network, pixels = Network("int8"), 9 * 8
    wide = network.convolution("x", (3, 32))
    deep = network.convolution(wide, (32, 32), 3)  # over its operand, but for the sum, which needs that
    total = network.binary("Add", wide, deep)  # over one of its operands
    spread = network.convolution(total, (32, 32), 5, groups=32)  # over its operand
    narrow = network.convolution(spread, (32, 16))  # over its operand
    again = network.convolution(narrow, (16, 32))  # not: it has more channels
    y = network.convolution(again, (32, 7))
    source = network.model([("x", (1, 3, 9, 8))], [y])
    folder = tmp_path / "library"
    arm_ext.compile(source, target=target, output=folder, emit="c-library")
    library = load_package(folder, bare=True)
    assert library.manifest.library is not None
    strip = (8 + 4) * 32 * 5 + 16
    assert pixels * 32 * 2 <= library.manifest.library.arena_bytes < pixels * 32 * 2 + strip + 1024
    equal_to_host(folder, source, tmp_path, [y])
