# SPDX-License-Identifier: Apache-2.0
"""Test cases on both sides of a constraint."""

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from arm_ext.target.npu import Family

EVERY: tuple[Family, ...] = ("u55", "u65", "u85")
EARLIER: tuple[Family, ...] = ("u55", "u65")

Build = Callable[[], onnx.ModelProto]


@dataclass(frozen=True)
class LimitCase:
    """An operator that just meets a constraint, and one that just violates it.

    Attributes:
        reason: Reason of the constraint.
        inside: Builds the operator that meets it, on the families that it holds for.
        outside: Builds the operator that violates it.
        families: Families that the constraint holds for.
    """

    reason: str
    inside: Build
    outside: Build
    families: tuple[Family, ...] = EVERY
