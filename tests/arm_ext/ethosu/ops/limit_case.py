# SPDX-License-Identifier: Apache-2.0
"""A constraint's two sides."""

from collections.abc import Callable
from dataclasses import dataclass

import onnx

from arm_ext.target.npu import Family

EVERY: tuple[Family, ...] = ("u55", "u65", "u85")
EARLIER: tuple[Family, ...] = ("u55", "u65")

Build = Callable[[], onnx.ModelProto]


@dataclass(frozen=True)
class LimitCase:
    """A constraint's two sides.

    Attributes:
        reason: The constraint's.
        inside: Builds an operator that meets it, on the families that it holds for.
        outside: Builds one that does not.
        families: Of the accelerators.
    """

    reason: str
    inside: Build
    outside: Build
    families: tuple[Family, ...] = EVERY
