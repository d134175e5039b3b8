# SPDX-License-Identifier: Apache-2.0
"""Distance between the outputs of a quantised model and of its float model, with warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.package.manifest import Calibration, FloatDistance
from arm_ext.quantization.error_sums import ErrorSums

Array = npt.NDArray[Any]

LEAST_SQNR_DB = 10.0
"""SQNR at an output below which a user is warned: the noise is more than a tenth of the signal's power. Networks that
keep their accuracy in int8 have 15 to 40 dB at their outputs."""

_BEYOND = 8.0
"""Multiple of the samples' largest value up to which a self-test's values count as alike.

Standard normal values stay within this multiple of samples from 0 to 1."""


@dataclass
class Accuracy:
    """Sums up the difference between two models' outputs over samples."""

    outputs: Sequence[str]
    compared: int = 0
    _sums: dict[str, ErrorSums] = field(default_factory=dict)

    def add(self, values: Sequence[Array], references: Sequence[Array]) -> None:
        """Add the outputs of one sample."""
        self.compared += 1
        for name, value, reference in zip(self.outputs, values, references, strict=True):
            self._sums.setdefault(name, ErrorSums()).add(value, reference)

    def distances(self) -> list[FloatDistance]:
        """Return the distance of each output; [] if no sample was added."""
        return [
            FloatDistance(output=name, sqnr_db=round(sums.sqnr_db, 1), relative=sums.relative)
            for name, sums in self._sums.items()
        ]


def selftest_distances(
    names: Sequence[str], values: Sequence[Array], references: Sequence[Array]
) -> list[FloatDistance]:
    """Return the distances of the self-test's outputs from the float model's; [] if the float model has no outputs."""
    accuracy = Accuracy(names)
    if references:
        accuracy.add(values, references)
    return accuracy.distances()


def warnings(calibration: Calibration | None, inputs: Mapping[str, Array]) -> list[str]:
    """Return the warnings about a quantised model.

    Args:
        calibration: How the model was quantised; None if it was not.
        inputs: Inputs of the self-test by name.
    """
    if calibration is None:
        return []
    if not calibration.distance:
        return [
            "quantised, but not compared with the float model on the calibration samples: onnxruntime cannot run one "
            "of the two"
        ]
    lines = []
    if poor := _poor(calibration.distance):
        lines.append(
            f"far from the float model on {calibration.compared} calibration samples: {poor}. Try another "
            "--calibration or more samples, or compile the model without --quantize"
        )
    elif (poor := _poor(calibration.selftest)) and (beyond := _beyond(calibration.largest, inputs)):
        lines.append(
            f"far from the float model on the self-test's inputs, though not on the calibration samples: {poor}. "
            f"{beyond}: if the model will see values like the self-test's, the scale of the samples is wrong"
        )
    return lines


def describe(calibration: Calibration) -> str:
    """Return a text with the outputs' distances on the samples: "y 35.5 dB SQNR on 40 calibration samples"."""
    if not calibration.distance:
        return "not compared with the float model"
    outputs = ", ".join(f"{each.output} {each.sqnr_db:.1f} dB" for each in calibration.distance)
    return f"{outputs} SQNR against the float model on {calibration.compared} calibration samples"


def _beyond(largest: Mapping[str, float], inputs: Mapping[str, Array]) -> str:
    """Return a text that names the self-test's inputs with values far outside the samples' range."""
    found = []
    for name, of_samples in largest.items():
        reached = (
            float(np.max(np.abs(inputs[name].astype(np.float64)), initial=0.0)) if name in inputs else 0.0
        )
        if reached > _BEYOND * of_samples:
            found.append(f"{name} reaches {reached:.3g} there and {of_samples:.3g} in the samples")
    return ", ".join(found)


def _poor(distances: Sequence[FloatDistance]) -> str:
    return ", ".join(
        f"{each.output} has an SQNR of {each.sqnr_db:g} dB (bound {LEAST_SQNR_DB:g} dB)"
        for each in distances
        if each.sqnr_db < LEAST_SQNR_DB
    )
