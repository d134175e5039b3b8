# SPDX-License-Identifier: Apache-2.0
"""The report of `explain`: one record per rule."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION: Literal[1] = 1


class Rejected(BaseModel):
    """A match that a rule does not rewrite.

    Attributes:
        nodes: Source nodes of the match.
        reason: Why not.
        limit: What the rule's check allows; empty if it is no comparison.
        actual: What it found instead.
        cost: What the rewrite would cost there, if that is why.
    """

    model_config = ConfigDict(frozen=True)

    nodes: tuple[str, ...]
    reason: str
    limit: str = ""
    actual: str = ""
    cost: str = ""


class Miss(BaseModel):
    """A part of a pattern that does not fit: any of `expected` would."""

    model_config = ConfigDict(frozen=True)

    expected: tuple[str, ...]
    found: str
    at: tuple[str, ...]


class NearMiss(BaseModel):
    """A place where a rule matches but for one part or two; `nodes` are those that match."""

    model_config = ConfigDict(frozen=True)

    nodes: tuple[str, ...]
    misses: tuple[Miss, ...]


class RuleReport(BaseModel):
    """One rule on one model.

    Attributes:
        rule: Its name, one of NAMES.
        effect: What it does, in a sentence.
        definition: Its algebra, before → after, and what it does to quantised models.
        not_tried: Why the rule was not tried at all; empty if it was.
        applied: Source nodes of each match that was rewritten.
        rejected: Matches that were not.
        near_misses: Where it does not match, but nearly.
    """

    model_config = ConfigDict(frozen=True)

    rule: str
    effect: str
    definition: str
    not_tried: str = ""
    applied: tuple[tuple[str, ...], ...] = ()
    rejected: tuple[Rejected, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()


class ExplainReport(BaseModel):
    """What became of the rules on a model, in the order in which they are tried."""

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[1] = SCHEMA_VERSION
    model: str
    rules: tuple[RuleReport, ...]
