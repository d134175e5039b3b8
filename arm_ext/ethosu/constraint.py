# SPDX-License-Identifier: Apache-2.0
"""`Constraint`: a limit of an Ethos-U, with the operators it holds for and the document it comes from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from arm_ext.ethosu.operators import Operator
from arm_ext.target.npu import Family
from schedules.diagnostic import Diagnostic

SUPPORTED_OPS = "Vela 5.2, SUPPORTED_OPS.md"
TOSA = "TOSA 1.0"
MEASURED = "compared with the TOSA reference model"

EVERY: tuple[Family, ...] = ("u55", "u65", "u85")
EARLIER: tuple[Family, ...] = ("u55", "u65")


@dataclass(frozen=True)
class Constraint:
    """One limit of an Ethos-U.

    Attributes:
        kinds: Kinds of operators that it holds for; every one if empty.
        reason: What an operator that violates it is said to have, as a sentence without full stop.
        limit: What is allowed, to read.
        actual: What an operator has.
        met: Whether that is allowed.
        advice: What would make it fit.
        source: Where it comes from.
        families: Accelerators that it holds for.
    """

    kinds: tuple[str, ...]
    reason: str
    limit: str
    actual: Callable[[Operator], Any]
    met: Callable[[Any], bool]
    advice: str
    source: str
    families: tuple[Family, ...] = EVERY

    def violated(self, actual: str) -> Diagnostic:
        """Return why an operator that has `actual` does not meet it."""
        return Diagnostic(self.reason, self.limit, actual, asked=self.source, hint=self.advice)


def at_most(limit: int) -> Callable[[int], bool]:
    """Return a predicate: whether a number is at most `limit`."""
    return lambda actual: actual <= limit
