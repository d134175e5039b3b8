# SPDX-License-Identifier: Apache-2.0
import importlib

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.lower import lower
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import resolve
from relay_passes import canonicalize, fuse
from relay_passes.fusion.split_concat import WIDEST
from schedules.composites.vocabulary import LINEAR, VOCABULARY
from schedules.generic import families
from schedules.kernels.gemm import gemm_f32
from tests.arm_ext.models import model


def _attention(layers: int) -> onnx.ModelProto:
    """Self-attention of 2 heads, 9 tokens and 8 channels, so many times."""
    weights = {"scale": np.float32(0.25), "mask": np.where(np.tri(9), 0, -1e9).astype("float32")}
    nodes, x = [], "x"
    for i in range(layers):
        nodes += [
            helper.make_node("Transpose", [x], [f"k{i}"], name=f"keys{i}", perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", [x, f"k{i}"], [f"s{i}"], name=f"scores{i}"),
            helper.make_node("Mul", [f"s{i}", "scale"], [f"a{i}"], name=f"scale{i}"),
            helper.make_node("Add", [f"a{i}", "mask"], [f"b{i}"], name=f"mask{i}"),
            helper.make_node("Softmax", [f"b{i}"], [f"p{i}"], name=f"softmax{i}"),
            helper.make_node("MatMul", [f"p{i}", x], [f"y{i}"], name=f"values{i}"),
        ]
        x = f"y{i}"
    return model(nodes, {"x": [1, 2, 9, 8]}, [x], weights)


@pytest.fixture
def linear_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel but that of linear layers."""
    monkeypatch.setattr(importlib.import_module("schedules.select"), "KERNELS", (gemm_f32,))


@pytest.mark.usefixtures("linear_only")
def test_a_composite_without_a_kernel_is_lowered_as_if_it_had_not_been_formed() -> None:
    mod, profile = canonicalize(import_onnx(_attention(2)).mod), resolve("host")
    composed, composed_kernels = lower(fuse(mod, VOCABULARY), profile)
    plain, plain_kernels = lower(fuse(mod, (LINEAR,)), profile)
    tvm.ir.assert_structural_equal(composed, plain)
    assert [(k.symbol, k.sources) for k in composed_kernels] == [(k.symbol, k.sources) for k in plain_kernels]


@pytest.mark.usefixtures("linear_only")
def test_the_report_says_why_no_kernel_takes_a_composite() -> None:
    _, kernels = lower(fuse(canonicalize(import_onnx(_attention(1)).mod), VOCABULARY), resolve("arm"))
    inside = {"scores0", "scale0", "mask0", "softmax0", "values0"}
    mine = [kernel for kernel in kernels if inside & set(kernel.sources)]
    assert families.GENERIC in {kernel.kernel for kernel in mine} <= {families.GENERIC, *families.NAMES}
    assert {name for kernel in mine for name in kernel.sources} >= inside
    in_loops = [kernel for kernel in mine if kernel.kernel == families.GENERIC]
    assert all(kernel.reason.startswith("no hand-written kernel") for kernel in in_loops)


def _concatenation(parts: int, each: int) -> onnx.ModelProto:
    """Concatenations of so many inputs each, concatenated; of one part, none of parts."""
    names = [[f"x{part}_{k}" for k in range(each)] for part in range(parts)]
    nodes = [
        helper.make_node("Concat", group, [f"y{part}"], name=f"part{part}", axis=1)
        for part, group in enumerate(names)
    ]
    if parts > 1:
        joined = [f"y{part}" for part in range(parts)]
        nodes.append(helper.make_node("Concat", joined, ["y"], name="join", axis=1))
    inputs = {name: [1, 4] for group in names for name in group}
    return model(nodes, inputs, list(nodes[-1].output), {})


def test_parts_of_a_wide_concatenation_stay_functions_of_their_own() -> None:
    """As one, 600 operands take what makes kernels more than Python's stack."""
    planned = last(
        run_phases(PhaseResult(import_onnx(_concatenation(1, 600)).mod), PhaseOptions(resolve("host")))
    )
    widest = max(len(f.params) for f in planned.mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    assert widest <= 2 * WIDEST + 1
    assert not [kernel.reason for kernel in planned.kernels if "unscheduled" in kernel.reason]


def test_loops_of_very_many_operands_stay_unscheduled() -> None:
    mod = import_onnx(_concatenation(12, WIDEST - 5)).mod
    planned = last(run_phases(PhaseResult(mod), PhaseOptions(resolve("host"))))
    assert any("337 tensors; at most 300" in kernel.reason for kernel in planned.kernels)


def test_slopes_a_channel_are_part_of_the_product_before_them() -> None:
    """A PReLU behind a convolution, a depthwise one, and a residual sum behind one that Winograd takes."""
    rng = np.random.default_rng(0)
    shapes = {"w": (24, 16, 1, 1), "dw": (24, 1, 3, 3), "v": (16, 24, 3, 3), "s": (24, 1, 1), "t": (16, 1, 1)}
    weights = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv"),
        helper.make_node("PRelu", ["a", "s"], ["b"], name="slopes1"),
        helper.make_node("Conv", ["b", "dw"], ["c"], name="depthwise", group=24, pads=[1] * 4),
        helper.make_node("PRelu", ["c", "s"], ["d"], name="slopes2"),
        helper.make_node("Conv", ["d", "v"], ["e"], name="last", pads=[1] * 4),
        helper.make_node("Add", ["e", "x"], ["f"], name="sum"),
        helper.make_node("PRelu", ["f", "t"], ["y"], name="slopes3"),
    ]
    mod = import_onnx(model(nodes, {"x": [1, 16, 13, 11]}, ["y"], weights)).mod
    planned = last(run_phases(PhaseResult(mod), PhaseOptions(resolve("neoverse-n2"))))
    by_hand = {k.kernel: set(k.sources) for k in planned.kernels if not k.kernel.startswith("transpose")}
    assert by_hand == {
        "gemm_f32": {"conv", "slopes1"},
        "depthwise_f32": {"depthwise", "slopes2"},
        "winograd_f32": {"last", "sum", "slopes3"},
    }
