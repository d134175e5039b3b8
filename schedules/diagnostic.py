# SPDX-License-Identifier: Apache-2.0
"""The record of why something was not done: a rewrite, a choice of kernel, an integer form, an offload to an NPU.

It imports nothing, and is all of this package that `relay_passes` knows: rewrites of graphs and kernels both answer
"why not", and what shows the answers should not have to tell them apart.
"""

from dataclasses import dataclass

Names = tuple[str, ...]


@dataclass(frozen=True)
class Diagnostic:
    """Why something was not done.

    Attributes:
        reason: A sentence without full stop and without its numbers, such as "weight is not a constant".
        limit: The expected value, or the bound in words, such as "at most 8"; empty if nothing was compared.
        actual: The value found instead.
        nodes: Source nodes that it is about.
        asked: Kernel, rule or phase that was asked.
        operator: Operator that it is about.
        hint: Change that would avoid the rejection, or the alternative it was compared with.
        others: Source nodes that a composite would also contain; the reason then begins with them.
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
        """Return the record of a comparison of any values; None is no value."""
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
