# SPDX-License-Identifier: Apache-2.0
"""TOSA's reference model, which executes graphs as the specification defines them."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_reference_model

from arm_ext.common.errors import InternalError
from arm_ext.common.stdout import stdout_to


def run_reference(tosa: bytes, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Run a TOSA flatbuffer.

    Args:
        tosa: The flatbuffer.
        inputs: Inputs in the graph's order.

    Raises:
        InternalError: The reference model finds the graph invalid, or its result unpredictable.
    """
    said = io.BytesIO()
    with stdout_to(said):
        outputs, status = tosa_reference_model.run(tosa, list(inputs))
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        text = said.getvalue().decode(errors="replace").strip()
        raise InternalError(f"TOSA's reference model says {status.name}: {text}")
    return [np.asarray(output) for output in outputs]
