# SPDX-License-Identifier: Apache-2.0
"""The digits classifier that is part of arm_ext: model files, held-out images, accuracy.

`scripts/train_digits.py` made the files. Input: float32 [1, 1, 8, 8], 0..1; output: float32 [1, 10] logits.
"""

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Precision = Literal["int8", "fp32"]

_FOLDER = Path(__file__).parent

HELD_OUT = _FOLDER / "held_out.npz"

# Share of the held-out images that onnxruntime classifies correctly: 357 of 360 in either precision.
ACCURACY: dict[Precision, float] = {"int8": 357 / 360, "fp32": 357 / 360}


def model_path(precision: Precision = "int8") -> Path:
    """Return the path of the ONNX file.

    The int8 model is in QDQ form (signed activations, symmetric weights per channel).
    """
    return _FOLDER / f"digits_{precision}.onnx"


def held_out() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the images kept out of training and calibration, float32 [360, 1, 8, 8], and their labels."""
    with np.load(HELD_OUT) as data:
        return data["inputs"], data["labels"]
