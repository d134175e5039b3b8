# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import arm_ext
from arm_ext.api import digits
from arm_ext.quantization.bias_correction import mean_shifts
from arm_ext.quantization.static import Quantizer
from tests.arm_ext.quantization.uneven import training_images
from tests.arm_ext.sequence_models import transformer

SAMPLES = {"inputs": training_images(64)}
LAYERS = ("conv1", "conv2/depthwise", "conv2/pointwise", "conv3", "logits")


def test_corrected_means_are_those_of_the_float_model() -> None:
    feeds = [{"image": image} for image in SAMPLES["inputs"][:, None]]
    source = Quantizer(digits.model_path("fp32"), SAMPLES, "minmax", ({},)).float_model({})

    def shift(corrections: tuple[str, ...]) -> float:
        made = Quantizer(digits.model_path("fp32"), SAMPLES, "minmax", ({},), corrections=corrections)
        shifts = mean_shifts(source, made.quantized({}), feeds)
        assert tuple(shifts) == LAYERS
        return max(float(np.abs(each).max()) for each in shifts.values())

    assert shift(("bias",)) < shift(()) / 20


def test_the_output_is_nearer_on_data_that_was_not_seen() -> None:
    unseen = {"inputs": digits.held_out()[0][:100]}

    def sqnr(*corrections: str) -> float:
        made = Quantizer(digits.model_path("fp32"), SAMPLES, "minmax", ({},), corrections=corrections)
        report = arm_ext.accuracy(made.quantized({}), digits.model_path("fp32"), unseen)
        assert report.to_blame() == [], "a bias that was corrected is not the float model's on purpose"
        return report.outputs[0].integers.sqnr_db

    assert sqnr("bias") > sqnr() + 0.4


def test_values_that_are_no_floats_are_left_alone() -> None:
    samples = {"x": np.random.default_rng(1).standard_normal((6, 1, 8, 16)).astype(np.float32)}
    made = Quantizer(transformer(), samples, "minmax", ({"x": (1, 8, 16)},), corrections=("smooth", "bias"))
    assert made.quantized({"x": (1, 8, 16)}).graph.node


@pytest.mark.parametrize("kept", [("conv3",), ()])
def test_layers_in_float_keep_their_bias(kept: tuple[str, ...]) -> None:
    made = Quantizer(
        digits.model_path("fp32"), SAMPLES, "minmax", ({},), keep_float=kept, corrections=("bias",)
    )
    names = {tensor.name for tensor in made.quantized({}).graph.initializer}
    assert ("conv3/bias" in names) == bool(kept)
