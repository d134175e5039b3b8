# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import helper
from torch import nn

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.padded_channels import full_tile, padded_channels
from relay_passes.canonicalize.fold_constants import compute
from relay_passes.ir.calls import nodes_of
from relay_passes.ir.main_signature import returned, returning
from relay_passes.ir.sources import sources_of
from relay_passes.rules.common.linear_calls import CONVOLUTIONS, channels_of
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.report.advice.formats import chain, from_onnx, from_tflite, from_torch, weights


def of_torch() -> ImportedModel:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 28, 3), nn.BatchNorm2d(28), nn.ReLU6(), nn.Conv2d(28, 28, 3, groups=28), nn.Hardswish()
    )
    return from_torch(nn.Sequential(*layers, nn.Conv2d(28, 5, 1)).eval(), torch.zeros(1, 3, 6, 6))


def of_tflite(folder: Path) -> ImportedModel:
    m = TfliteBuilder()
    x, w1, b1 = (
        m.take("float32", 1, 6, 6, 3),
        m.hold(weights(28, 3, 3, 3), "float32"),
        m.hold(weights(28), "float32"),
    )
    c, d, p, y = (m.tensor("float32", 1, size, size, n) for size, n in ((4, 28), (2, 28), (2, 28), (2, 5)))
    w, b = m.hold(weights(1, 3, 3, 28), "float32"), m.hold(weights(28), "float32")
    m.op("CONV_2D", [x, w1, b1], [c], strideH=1, strideW=1, padding=1, fusedActivationFunction=3)
    m.op("DEPTHWISE_CONV_2D", [c, w, b], [d], strideH=1, strideW=1, padding=1, depthMultiplier=1)
    m.op("MAX_POOL_2D", [d], [p], strideH=1, strideW=1, filterHeight=1, filterWidth=1)
    m.op(
        "CONV_2D",
        [p, m.hold(weights(5, 1, 1, 28), "float32"), m.hold(weights(5), "float32")],
        [y],
        strideH=1,
        strideW=1,
    )
    return from_tflite(m, folder)


def outputs(model: object) -> list[int]:
    assert isinstance(model, ImportedModel)
    return [
        channels_of(node.call).outputs for node in nodes_of(model.mod["main"]) if node.name in CONVOLUTIONS
    ]


@pytest.mark.parametrize("source", ["onnx", "torch", "tflite"])
def test_padded_channels_keep_the_numbers(source: str, tmp_path: Path) -> None:
    model = {"onnx": chain, "torch": of_torch, "tflite": lambda: of_tflite(tmp_path)}[source]()
    changed = padded_channels(model)
    assert changed is not None
    first = next(node for node in nodes_of(model.mod["main"]) if node.name in CONVOLUTIONS)
    assert changed.sources == sources_of(first.call)
    assert (changed.what, changed.comparable) == ("28 → 32 channels (1)", True)
    assert outputs(model) == [28, 28, 5]
    assert outputs(changed.model) == [32, 32, 5]
    x = weights(*model.inputs[0].shape)
    assert isinstance(changed.model, ImportedModel)
    (found,), (wanted,) = (
        compute(returning(each.mod, returned(each.mod)), [x]) for each in (changed.model, model)
    )
    np.testing.assert_array_equal(found, wanted)


def test_channels_stay_that_fill_a_tile() -> None:
    assert padded_channels(chain(32)) is None


def test_channels_stay_that_show_at_an_output() -> None:
    assert padded_channels(chain(also_output=True)) is None


@pytest.mark.parametrize(
    "between",
    [
        [
            helper.make_node("Add", ["c", "three"], ["r"], name="shift")
        ],  # zeros become 3, which the padding is not
        [helper.make_node("Softmax", ["c"], ["r"], name="mixes", axis=1)],
        [
            helper.make_node("Conv", ["c", "w2"], ["z"], name="second"),
            helper.make_node("Add", ["c", "z"], ["r"], name="residual"),
        ],
    ],
)
def test_channels_stay_that_others_would_see(between: list[object]) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], name="first"),
        *between,
        helper.make_node("Conv", ["r", "w2"], ["y"], name="last"),
    ]
    model = from_onnx(
        nodes, [1, 3, 6, 6], w1=weights(28, 3, 1, 1), w2=weights(28, 28, 1, 1), three=np.float32(3)
    )
    assert padded_channels(model) is None


@pytest.mark.parametrize(
    ("channels", "wanted"), [(16, None), (30, 32), (24, None), (20, 24), (9, None), (7, 8), (3, None)]
)
def test_the_next_full_tile(channels: int, wanted: int | None) -> None:
    assert full_tile(channels) == wanted
