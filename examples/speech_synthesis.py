# SPDX-License-Identifier: Apache-2.0
"""Split a speech model whose length the data decides (VITS, Piper) into two packages, before that length and after it.

    python examples/speech_synthesis.py
    python examples/speech_synthesis.py --board 192.168.0.7:9090

    text encoder, durations    →    number of frames    →    frames, decoder
    first.armpkg                    this program             second.armpkg, of any length up to a bound

The model is made here with random weights, so what it says means nothing.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx.reference import ReferenceEvaluator
from onnx.utils import Extractor

import arm_ext
from arm_ext.common.errors import ModelError

MODEL = """<ir_version: 8, opset_import: ["": 17]>
tiny_vits (int64[1,T] input, float[3] scales) => (float[1,1,samples] output)
<int64 zero = {0}, int64 one = {1}, int64[1] a1 = {1}, int64[2] a12 = {1, 2}, float least = {1}> {
  hidden = Gather(table, input) logw = MatMul(hidden, duration) w = Exp(logw)
  noise_scale = Gather(scales, zero) length_scale = Gather(scales, one)
  scaled = Mul(w, length_scale) durations = Ceil(scaled)
  means = MatMul(hidden, mean) logs = MatMul(hidden, log)
  total = ReduceSum<keepdims=0>(durations, a12) many = Max(total, least) whole = Cast<to=7>(many)
  length = ReduceMax<keepdims=0>(whole)
  [all_frames] frames = Range(zero, length, one)
  frame = Cast<to=1>(frames) row = Unsqueeze(frame, a1)
  ends = CumSum(durations, one) starts = Sub(ends, durations)
  end = Transpose<perm=[0,2,1]>(ends) start = Transpose<perm=[0,2,1]>(starts)
  before = Less(row, end) passed = Less(row, start) b = Cast<to=1>(before) p = Cast<to=1>(passed) path = Sub(b, p)
  m = MatMul(path, means) l = MatMul(path, logs) deviation = Exp(l)
  noise = RandomNormalLike(m) n1 = Mul(noise, deviation) n2 = Mul(n1, noise_scale) z = Add(m, n2)
  zt = Transpose<perm=[0,2,1]>(z) up = ConvTranspose<strides=[4]>(zt, up_w) y = LeakyRelu(up)
  wave = Conv<pads=[3,3]>(y, out_w) output = Tanh(wave) }"""
# fmt: off
WEIGHTS = {
    "table": (40, 16), "duration": (16, 1), "mean": (16, 8), "log": (16, 8), "up_w": (8, 8, 4), "out_w": (1, 8, 7),
}
# fmt: on
PHONEMES, MOST_FRAMES = 12, 512
# The values that the frames read of what comes before them; the refusal of the whole model lists them.
CROSSING = ["noise_scale", "means", "logs", "start", "end"]


def made() -> onnx.ModelProto:
    """Return the model."""
    model, rng = onnx.parser.parse_model(MODEL), np.random.default_rng(0)
    for name, shape in WEIGHTS.items():
        values = rng.standard_normal(shape).astype(np.float32) / 4
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


def main() -> None:
    """Split the model, compile both parts, and speak at two speeds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="raspberry-pi-5")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    model, text = made(), {"input": [1, PHONEMES]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            arm_ext.compile(model, args.target, Path(folder, "whole.armpkg"), shapes=text, random="zeros")
        except ModelError as refusal:
            print(refusal)  # noqa: T201

        # An extractor reads the types of values; extract_model infers them itself, and reads and writes files.
        extractor = Extractor(onnx.shape_inference.infer_shapes(model))
        first = extractor.extract_model(["input", "scales"], [*CROSSING, "length"])
        second = extractor.extract_model(["frames", *CROSSING], ["output"])
        encoder = arm_ext.compile(first, args.target, Path(folder, "first.armpkg"), shapes=text)
        shapes = {spec.name: spec.shape for spec in encoder.package.manifest.outputs if spec.name in CROSSING}
        shapes["frames"] = [f"n<={MOST_FRAMES}"]
        decoder = arm_ext.compile(
            second, args.target, Path(folder, "second.armpkg"), shapes=shapes, random="zeros"
        )

        phonemes = np.random.default_rng(1).integers(0, 40, (1, PHONEMES))
        for slowness in (1, 1.7):
            inputs = {"input": phonemes, "scales": np.array([0, slowness, 0], np.float32)}
            crossing = dict(arm_ext.run(encoder, args.board, inputs=inputs).outputs)
            frames = np.arange(int(crossing.pop("length")))
            audio = arm_ext.run(decoder, args.board, inputs={"frames": frames, **crossing}).outputs["output"]
            (expected,) = ReferenceEvaluator(model).run(None, inputs)
            differs = abs(audio - expected).max() / abs(expected).max()
            print(f"{len(frames)} frames: {audio.size} samples, {differs:.0e} from the whole model's")  # noqa: T201


if __name__ == "__main__":
    main()
