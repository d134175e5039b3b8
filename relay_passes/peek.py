# SPDX-License-Identifier: Apache-2.0
"""Rules that look at what computes an operand without taking it in.

A call under the root of a pattern must have no other consumer, or the rewrite would compute it twice. Where the
replacement reads the operands of that call instead of computing it again (a transpose of a transpose), others may
need it as well: the pattern peeks.
"""

from dataclasses import replace

from tvm.relax.dpl import DFPattern, wildcard

from relay_passes.rule import Match
from relay_passes.sources import sources_of, union


def peek(pattern: DFPattern) -> DFPattern:
    """A pattern of what `pattern` matches, that binds none of its parts.

    Upstream's matcher forgets what it bound below a negation that fails, so nothing but the whole is remembered.
    """
    return wildcard() & ~(~pattern)


def including(match: Match, part: str) -> Match:
    """The match with the source nodes of a part that it peeks at, for the replacement does the work of both."""
    return replace(match, nodes=union((sources_of(match.values[part]), match.nodes)))
