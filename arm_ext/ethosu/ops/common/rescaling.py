# SPDX-License-Identifier: Apache-2.0
"""Helpers of operators whose definition contains a RESCALE, which Vela may fuse with another RESCALE."""

from collections.abc import Mapping
from typing import Any

from schedules.numerics.tosa import RescaleFactor

JOINED = "joined with what it reads, it would not saturate in between"
"""Reason for a barrier: Vela 5.2 fuses two RESCALEs, the first by 1, to one that no longer saturates in between."""


def scale_named(attrs: Mapping[str, Any], name: str) -> RescaleFactor:
    """Return the scale that a routine's attributes store as "name_multiplier" and "name_shift"."""
    return RescaleFactor(int(attrs[f"{name}_multiplier"]), int(attrs[f"{name}_shift"]))
