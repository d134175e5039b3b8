# SPDX-License-Identifier: Apache-2.0
"""How far a pattern fits where it does not match: what `near_miss` carries from subpattern to subpattern."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tvm.ir import Expr
from tvm.relax.dpl import DFPattern

from relay_passes.describe import either
from relay_passes.sources import Names

_FEWEST_MATCHED = 2
_MOST_MISSES = 2  # more are another computation
# Where a walk is given up. Above the other, or operands in the wrong order would seem to fit better.
_MISSES_TRIED = 4


@dataclass(frozen=True)
class Miss:
    """A subpattern that does not fit.

    Attributes:
        expected: What it wants, one text an alternative.
        found: What stands there.
        at: Source nodes of that value, or of its consumer if it is a constant or an input.
    """

    expected: tuple[str, ...]
    found: str
    at: Names

    @property
    def reason(self) -> str:
        """Such as "expected relax.nn.relu, found relax.tanh"."""
        return f"expected {either(self.expected)}, found {self.found}"

    def __str__(self) -> str:
        return f"{self.reason} at {', '.join(self.at)}" if self.at else self.reason


@dataclass(frozen=True)
class Fit:
    """How far a pattern fits: what each subpattern stands for, operators that match, how many do not, and why."""

    bound: Mapping[DFPattern, Expr]
    matched: tuple[Expr, ...] = ()
    missing: int = 0
    misses: tuple[Miss, ...] = ()

    @property
    def is_near(self) -> bool:
        """Whether it is worth telling."""
        enough = len(self.matched) >= max(_FEWEST_MATCHED, self.missing + 1)
        return enough and 0 < len(self.misses) <= _MOST_MISSES

    @property
    def rank(self) -> tuple[int, int]:
        """The higher, the better it fits."""
        return len(self.matched) - self.missing, -len(self.misses)

    def with_match(self, value: Expr) -> "Fit":
        """Itself, with one more operator that matches."""
        return replace(self, matched=(*self.matched, value))

    def missed(self, miss: Miss, missing: int = 0) -> "Fit | None":
        """Itself, with one more miss that leaves out `missing` operators; None if that is too many."""
        if len(self.misses) == _MISSES_TRIED:
            return None
        return replace(self, misses=(*self.misses, miss), missing=self.missing + missing)

    def or_missed(self, other: Miss) -> "Fit":
        """Itself, with what an alternative expected of the value that was missed last."""
        *before, last = self.misses
        if (last.found, last.at) != (other.found, other.at):
            return self
        both = replace(last, expected=tuple(dict.fromkeys(last.expected + other.expected)))
        return replace(self, misses=(*before, both))


def best_of(fits: Iterable[Fit | None]) -> Fit | None:
    """The fit with the most operators, then with the fewest misses; of equals the first, and it names all wishes."""
    best: Fit | None = None
    for fit in fits:
        if fit is None:
            continue
        if best is None or fit.rank > best.rank:
            best = fit
        elif fit.rank == best.rank and fit.misses:
            best = best.or_missed(fit.misses[-1])
    return best
