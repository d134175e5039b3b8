# SPDX-License-Identifier: Apache-2.0
"""A row of the operator table."""

from dataclasses import dataclass, field

from arm_ext.target.npu import Family
from tests.arm_ext.ethosu.ops.limit_case import EVERY, Build

U85: tuple[Family, ...] = ("u85",)


@dataclass(frozen=True)
class Row:
    """A row of the operator table.

    Attributes:
        kinds: Operator kinds, each of which occurs in some model.
        models: Models with edge shapes by name; each must run exactly on `families`.
        families: Families that support the operators, with or without limits.
        refused: Models that the other families, or all, must refuse.
        reason: The reason of these refusals.
    """

    kinds: tuple[str, ...]
    models: dict[str, Build]
    families: tuple[Family, ...] = EVERY
    refused: dict[str, Build] = field(default_factory=dict)
    reason: str = ""
