# SPDX-License-Identifier: Apache-2.0
"""The same small networks in several formats, imported as `advise` imports them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from jax import export
from onnx import helper

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.canonicalize.canonicalize import without_rules
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.torch import compared
from tests.arm_ext.models import model

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def from_onnx(
    nodes: list[onnx.NodeProto], shape: list[int], outputs: tuple[str, ...] = ("y",), **constants: np.ndarray
) -> ImportedModel:
    """Import nodes that take "x"."""
    return prepared(import_model(model(nodes, {"x": list(shape)}, list(outputs), constants)))


def from_torch(function: Callable[..., Any], *inputs: Any) -> ImportedModel:
    return prepared(compared.imported(function, *inputs))


def from_jax(function: Callable[..., Any], *shape: int) -> ImportedModel:
    x = jax.ShapeDtypeStruct(shape, np.float32)
    return prepared(import_model(export.export(jax.jit(function))(x)))


def from_tflite(builder: TfliteBuilder, folder: Path) -> ImportedModel:
    path = folder / "m.tflite"
    path.write_bytes(builder.build())
    return prepared(import_model(path))


def prepared(given: ImportedModel) -> ImportedModel:
    return replace(given, mod=without_rules(given.mod))


def computed(given: object, *inputs: np.ndarray) -> np.ndarray:
    """Return the only output of a model."""
    assert isinstance(given, ImportedModel)
    (found,) = run_on_host(given.mod, list(inputs))
    return np.asarray(found)


def silu(*, gate_elsewhere: bool = False) -> ImportedModel:
    """ONNX: a SiLU behind a convolution, added to itself or to its gate."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Sigmoid", ["c"], ["s"], name="sigmoid"),
        helper.make_node("Mul", ["c", "s"], ["m"], name="mul"),
        helper.make_node("Add", ["m", "s" if gate_elsewhere else "m"], ["y"], name="add"),
    ]
    return from_onnx(nodes, [1, 3, 6, 6], w=weights(4, 3, 1, 1))


def chain(channels: int = 28, *, also_output: bool = False) -> ImportedModel:
    """ONNX: convolution, batch norm, clip, depthwise convolution, hard-swish and relu, convolution."""
    constants = {
        "w1": weights(channels, 3, 3, 3),
        "b1": weights(channels),
        **{name: abs(weights(channels)) for name in ("scale", "shift", "mean", "variance")},
        "low": np.float32(0),
        "high": np.float32(6),
        "dw": weights(channels, 1, 3, 3),
        "w2": weights(5, channels, 1, 1),
    }
    norm = ["c", "scale", "shift", "mean", "variance"]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], name="first"),
        helper.make_node("BatchNormalization", norm, ["n"], name="norm"),
        helper.make_node("Clip", ["n", "low", "high"], ["k"], name="clip"),
        helper.make_node("Conv", ["k", "dw"], ["d"], name="depthwise", group=channels),
        helper.make_node("HardSigmoid", ["d"], ["g"], name="gate", alpha=1 / 6),
        helper.make_node("Mul", ["d", "g"], ["h"], name="swish"),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w2"], ["y"], name="last"),
    ]
    return from_onnx(nodes, [1, 3, 6, 6], ("y", "r") if also_output else ("y",), **constants)
