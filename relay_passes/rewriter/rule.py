# SPDX-License-Identifier: Apache-2.0
"""Rewrite rules, which consist of a pattern, a check that returns rejections with reasons, and a rewrite."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.ir import Expr, GenericConst
from tvm.relax.dpl import DFPattern

from relay_passes.ir.sources import Names
from schedules.diagnostic import Diagnostic


@dataclass(frozen=True)
class Match:
    """A match of a rule's pattern.

    Attributes:
        nodes: Source nodes of all matched calls, in program order.
        operands: For each part of the pattern, by name, the variable or constant that represents it as an operand.
            Optional parts that did not match are missing.
        values: For each part of the pattern, by name, the expression that it matched, with operands and attributes.
    """

    nodes: Names
    operands: Mapping[str, Expr]
    values: Mapping[str, Expr]

    def is_constant(self, part: str) -> bool:
        """Whether a part matched a constant tensor."""
        return isinstance(self.operands[part], GenericConst)

    def constant(self, part: str) -> np.ndarray[Any, Any]:
        """Return the value of a part that is a constant."""
        value: np.ndarray[Any, Any] = self.operands[part].value.numpy()
        return value

    def reject(self, reason: str, limit: object = None, actual: object = None, hint: str = "") -> Diagnostic:
        """Return a diagnostic that rejects this match."""
        return Diagnostic.of(reason, limit, actual, nodes=self.nodes, hint=hint)


@dataclass(frozen=True)
class Rule:
    """A graph rewrite: pattern, check and rewrite.

    Attributes:
        name: Name of the rule, by its effect, such as "fold_batch_norm".
        pattern: The root pattern.
        parts: Subpatterns by the names by which `check` and `rewrite` access them.
        check: Returns the match, or why the rule does not apply.
        rewrite: Returns the replacement of the root, an expression of the same type; calls may be nested.
    """

    name: str
    pattern: DFPattern
    parts: Mapping[str, DFPattern]
    check: Callable[[Match], Match | Diagnostic]
    rewrite: Callable[[Match], Expr]


@dataclass(frozen=True)
class Explanation:
    """Where one rule applied in a module, and why it did not apply elsewhere.

    Attributes:
        applied: Source nodes of each match that was rewritten, in order.
        rejected: The reason for each rejected match: by the check, or because a value inside the match is also read
            outside of it.
        near_misses: Expressions that match except for one or two subpatterns.
    """

    applied: tuple[Names, ...]
    rejected: tuple[Diagnostic, ...]
    near_misses: tuple[Diagnostic, ...] = ()
