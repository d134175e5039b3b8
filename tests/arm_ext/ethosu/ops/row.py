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
        kinds: Kinds of operators, all of which the models show.
        models: Edge shapes by name; each runs on `families`, and exactly.
        families: That take it, with limits or without.
        refused: Models that the other families must refuse, or all; they never run there.
        reason: Why they do.
    """

    kinds: tuple[str, ...]
    models: dict[str, Build]
    families: tuple[Family, ...] = EVERY
    refused: dict[str, Build] = field(default_factory=dict)
    reason: str = ""
