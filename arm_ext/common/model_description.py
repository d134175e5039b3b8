# SPDX-License-Identifier: Apache-2.0
"""The description of a model, model.onnx.yaml beside model.onnx: options that each command needs for it, given once.

It may come from a stranger, together with the model. It therefore holds no option that runs code.
"""

from pathlib import Path

DESCRIPTION_KEYS = ("shape", "value", "random", "state", "state-init")
"""Options of the command line that a description may hold."""


def description_of(model: Path) -> Path:
    """Return the path of a model's description, which need not exist."""
    return model.with_name(f"{model.name}.yaml")
