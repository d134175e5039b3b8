# SPDX-License-Identifier: Apache-2.0
"""The C++ example on frames like those of a camera."""

import subprocess
from pathlib import Path

import numpy as np

import arm_ext
from arm_ext.api import digits
from tests.arm_ext.clibrary.programs import STRICT, Library, cc

SOURCE = Path(__file__).parents[2] / "examples/camera_cpp/main.cpp"
WIDTH, HEIGHT, SCALE = 70, 48, 6


def test_frames_are_classified(tmp_path: Path) -> None:
    package = arm_ext.compile(digits.model_path(), "host", tmp_path / "digits", emit="c-library").package
    words = [*STRICT, "-std=c++11", "-O1", SOURCE, *Library(package).arguments]
    program = cc(words, tmp_path / "camera", "g++")
    images, labels = digits.held_out()
    frames = np.zeros((100, HEIGHT, WIDTH), np.uint8)
    left = (WIDTH - HEIGHT) // 2
    for frame, image in zip(frames, images, strict=False):
        frame[:, left : left + HEIGHT] = np.kron(np.round(image[0] * 255), np.ones((SCALE, SCALE)))
    said = subprocess.run(
        [program, str(WIDTH), str(HEIGHT)], input=frames.tobytes(), capture_output=True, check=True
    )
    found = [int(line) for line in said.stdout.split()]
    assert len(found) == len(frames)
    assert np.mean(found == labels[: len(frames)]) > 0.95
    refused = subprocess.run([program, "4", "4"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr[:6]) == (2, "usage:")
