# SPDX-License-Identifier: Apache-2.0
"""Records of the runs of rules: counts for statistics, explanations for users.

    record = Record()
    canonicalize(mod, record=record)
    record.hits()                            →  Counter({"fold_batch_norm": 2})
    record.explanation("fold_batch_norm")    →  Explanation(...)

A rule runs many times, on modules that other rules change. Two of these modules explain why a rule did not apply: that
of its first run, with the operators of the model, and that of its last run. A finding of the first run is dropped if
the rule applied to the same nodes later, or if the last run has a finding for the same nodes. A near miss inside of a
rejected match is dropped as well, because the rejection is more specific. A pass that is no rule, such as `fuse`, runs
once and records its own findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tvm import IRModule

from relay_passes.rewriter.near_misses import near_misses
from schedules.diagnostic import Diagnostic

if TYPE_CHECKING:
    from relay_passes.ir.sources import Names
    from relay_passes.rewriter.rule import Explanation, Rule


@dataclass
class _Runs:
    """The first and the last run of one rule, each with its module and explanation."""

    rule: Rule
    first: tuple[IRModule, Explanation]
    last: tuple[IRModule, Explanation]
    applied: tuple[Names, ...] = ()

    def explanation(self) -> Explanation:
        """Return an explanation that combines the first and the last run."""
        (before, earlier), (after, later) = self.first, self.last
        pattern, parts = self.rule.pattern, self.rule.parts
        rejected, refused = later.rejected, [r.nodes for r in later.rejected]
        near = _elsewhere(near_misses(after, pattern, parts), refused)
        if not before.same_as(after):
            known = [*self.applied, *refused, *(miss.nodes for miss in near)]
            rejected = (*_elsewhere(earlier.rejected, known), *rejected)
            known += (r.nodes for r in rejected)
            near = (*_elsewhere(near_misses(before, pattern, parts), known), *near)
        return replace(later, applied=self.applied, rejected=rejected, near_misses=near)


def _elsewhere(findings: Iterable[Diagnostic], known: Iterable[Names]) -> tuple[Diagnostic, ...]:
    """Return the findings whose nodes are not all in one of the known sets of nodes."""
    places = [set(nodes) for nodes in known]
    return tuple(f for f in findings if not any(place.issuperset(f.nodes) for place in places))


@dataclass
class RewriteRecord:
    """The runs of rules and passes, by name, with their explanations.

    Attributes:
        passes: Pass that is no rule → its explanation.
        off: Names of rules, and of `combine_matmuls`, that are not to be applied, to see what they do.
    """

    off: frozenset[str] = frozenset()
    _runs: dict[str, _Runs] = field(default_factory=dict)
    passes: dict[str, Explanation] = field(default_factory=dict)

    def note(self, rule: Rule, mod: IRModule, explanation: Explanation) -> None:
        """Add a run of `rule` whose result is `mod`."""
        runs = self._runs.setdefault(rule.name, _Runs(rule, (mod, explanation), (mod, explanation)))
        runs.last = mod, explanation
        runs.applied += explanation.applied

    def hits(self) -> Counter[str]:
        """Return how often each rule and pass applied; 0 for rules that ran without applying."""
        rules = {name: len(runs.applied) for name, runs in self._runs.items()}
        return Counter(rules | {name: len(done.applied) for name, done in self.passes.items()})

    def explanation(self, name: str) -> Explanation | None:
        """Return where a rule or pass applied, was rejected or nearly matched; None if it never ran."""
        return self._runs[name].explanation() if name in self._runs else self.passes.get(name)
