# SPDX-License-Identifier: Apache-2.0
"""Classify camera frames: the package takes 8-bit RGB frames and gives the most likely digits.

python examples/camera_classifier.py                       # generated frames
python examples/camera_classifier.py --frames folder       # .npy files, each u8 [48, 64, 3]
python examples/camera_classifier.py --board 192.168.0.7:9090
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import arm_ext
from arm_ext.api import digits

HEIGHT, WIDTH = 48, 64
Frame = npt.NDArray[np.uint8]


def generated() -> Iterator[tuple[str, Frame]]:
    """Yield frames as a camera would see the digits that ship: in the middle, enlarged."""
    images, labels = digits.held_out()
    for image, label in list(zip(images, labels, strict=True))[:3]:
        digit = np.kron(np.round(image[0] * 255).astype(np.uint8), np.ones((6, 6), np.uint8))
        frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        frame[:, (WIDTH - HEIGHT) // 2 :][:, :HEIGHT] = digit[..., None]
        yield f"a generated {label}", frame


def read(folder: Path) -> Iterator[tuple[str, Frame]]:
    """Yield the frames in a folder."""
    for path in sorted(folder.glob("*.npy")):
        yield path.name, np.load(path)


def main() -> None:
    """Compile once, then classify frame by frame."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=Path)
    parser.add_argument("--target", default="raspberry-pi-5")
    parser.add_argument("--board", default="virtual")
    args = parser.parse_args()

    # The camera's middle, made as small as the model's image, of one channel, from 0 to 1.
    camera = arm_ext.Preprocess(
        inputs={
            "image": {
                "frame": [HEIGHT, WIDTH, 3],
                "steps": [
                    {"crop": {"size": [HEIGHT, HEIGHT]}},
                    {"resize": {"mode": "linear"}},
                    {"channels": [0]},
                    {"normalize": {"divide": 255}},
                ],
            }
        },
        outputs={"logits": [{"softmax": {"axis": -1}}, {"top_k": {"k": 3}}]},
    )
    with tempfile.TemporaryDirectory() as folder:
        package = arm_ext.compile(
            digits.model_path("fp32"), args.target, Path(folder, "camera.armpkg"), preprocess=camera
        ).package
        for name, frame in read(args.frames) if args.frames else generated():
            outputs = arm_ext.run(package, args.board, inputs={"image": frame}).outputs
            chances, which = outputs["logits_values"][0], outputs["logits_indices"][0]
            told = ", ".join(f"{digit} ({chance:.0%})" for digit, chance in zip(which, chances, strict=True))
            print(f"{name}: {told}")  # noqa: T201 (this is what a program is for)


if __name__ == "__main__":
    main()
