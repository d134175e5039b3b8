# SPDX-License-Identifier: Apache-2.0
"""Rewrite rules: a pattern, a check that returns rejections with reasons, and a rewrite."""

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
    """A match of a pattern.

    Attributes:
        nodes: Source nodes of all matched calls, in program order.
        operands: Name of a part of the pattern → the variable or constant that stands for it in a call. An
            optional part that did not match is missing.
        values: Name of a part → the expression that it matched, so that a call's operands and attributes can
            be read.
    """

    nodes: Names
    operands: Mapping[str, Expr]
    values: Mapping[str, Expr]

    def is_constant(self, part: str) -> bool:
        """Whether a part is a constant tensor."""
        return isinstance(self.operands[part], GenericConst)

    def constant(self, part: str) -> np.ndarray[Any, Any]:
        """Return the value of a part that is a constant."""
        value: np.ndarray[Any, Any] = self.operands[part].value.numpy()
        return value

    def reject(self, reason: str, limit: object = None, actual: object = None, hint: str = "") -> Diagnostic:
        """Return a rejection of this match."""
        return Diagnostic.of(reason, limit, actual, nodes=self.nodes, hint=hint)


@dataclass(frozen=True)
class Rule:
    """A graph rewrite: pattern, check and rewrite.

    Attributes:
        name: Name of the rule, by its effect, such as "fold_batch_norm".
        pattern: The root pattern.
        parts: Names for the subpatterns that `check` and `rewrite` read.
        check: Returns the match, or why the rule does not apply there.
        rewrite: The replacement for the root, of the same type. Calls may be nested.
    """

    name: str
    pattern: DFPattern
    parts: Mapping[str, DFPattern]
    check: Callable[[Match], Match | Diagnostic]
    rewrite: Callable[[Match], Expr]


@dataclass(frozen=True)
class Explanation:
    """Record of one rule on one module.

    Attributes:
        applied: Source nodes of each match that was rewritten, in order.
        rejected: The matches that are left, with the reason.
        near_misses: Places where all but one or two subpatterns match.
    """

    applied: tuple[Names, ...]
    rejected: tuple[Diagnostic, ...]
    near_misses: tuple[Diagnostic, ...] = ()
