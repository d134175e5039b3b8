# SPDX-License-Identifier: Apache-2.0
"""`Diagnostic`: why a rewrite, a kernel choice, an integer form or an offload to an NPU was not possible.

This module imports nothing else, and is the only module of `schedules` that `relay_passes` imports: graph rewrites and
kernels share one type of rejection, so that reports show them alike.
"""

from dataclasses import dataclass

Names = tuple[str, ...]


@dataclass(frozen=True)
class Diagnostic:
    """Why a rewrite, a kernel or an offload was not possible.

    Attributes:
        reason: A sentence without full stop and without its numbers, such as "weight is not a constant".
        limit: The expected value, or a bound in words, such as "at most 8"; empty if no values were compared.
        actual: The actual value.
        nodes: Source nodes of the rejected operator.
        asked: The kernel, rule or phase that rejected the operator.
        operator: The rejected operator.
        hint: Change that would avoid the rejection, or the alternative that was preferred.
        others: Other source nodes in the same composite; the reason then starts with them.
        unfit: Whether the kernel or rule is for another kind of operator, so that no other size, core or option helps.
    """

    reason: str
    limit: str = ""
    actual: str = ""
    nodes: Names = ()
    asked: str = ""
    operator: str = ""
    hint: str = ""
    others: Names = ()
    unfit: bool = False

    @classmethod
    def of(
        cls,
        reason: str,
        limit: object = None,
        actual: object = None,
        *,
        nodes: Names = (),
        hint: str = "",
        others: Names = (),
    ) -> "Diagnostic":
        """Return a diagnostic for a comparison of values of any type; None stands for no value."""
        allowed = "" if limit is None else str(limit)
        found = "" if limit is actual is None else str(actual)
        return cls(reason, allowed, found, nodes, hint=hint, others=others)

    def why(self) -> str:
        """Return the reason with the expected and the actual value, and the hint."""
        compared = f" (expected {self.limit}, found {self.actual})" if self.limit else ""
        return self.reason + compared + (f"; {self.hint}" if self.hint else "")

    def __str__(self) -> str:
        about = [", ".join(self.nodes), self.operator] if self.operator else [", ".join(self.nodes)]
        return ": ".join((*about, self.why()))
