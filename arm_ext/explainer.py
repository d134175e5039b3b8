# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.explain`: what each rewrite rule did to a model, and where and why it did not apply."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import onnx
from pydantic import BaseModel, ConfigDict

import relay_passes
from arm_ext.errors import UsageError
from arm_ext.frontends.load import import_model
from arm_ext.names import near
from relay_passes import Explanation, Rule
from relay_passes.canonicalize import RULES
from relay_passes.record import recording

SCHEMA_VERSION: Literal[1] = 1

# Steps, for a progress display.
STEPS = ("import", "canonicalize", "explain")

_NOT_TRIED = "changes last bits of float results, which could move an integer, and the model quantises"


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
        rule: Its name.
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


def explain(
    model: str | Path | onnx.ModelProto,
    rule: str | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> ExplainReport:
    """Run the rewrite rules on a model as `compile` does, and tell what they did and what they left.

    Rejections and near misses are those of a rule's first run, when other rules have changed little, and of its last.

    Args:
        model: An ONNX or TFLite file, or a loaded ONNX model.
        rule: Name of the only rule to tell about; all rules run in any case, for they make way for each other.
        shapes: Input name → static shape, for inputs with dynamic dimensions.
        progress: Called with each of STEPS as it begins.

    Raises:
        UsageError: There is no such rule (near names are listed), or the model file is wrong.
        ModelError: The model holds what cannot be compiled.
    """
    wanted = [known for known in RULES if rule in (None, known.name)]
    if not wanted:
        raise UsageError(f"unknown rule {rule!r}; {near(str(rule), [known.name for known in RULES])}")
    progress("import")
    imported = import_model(model, {name: tuple(shape) for name, shape in (shapes or {}).items()})
    progress("canonicalize")
    with recording() as record:
        relay_passes.canonicalize(imported.mod)
    progress("explain")
    reports = tuple(_report(known, record.explanation(known.name)) for known in wanted)
    return ExplainReport(model=imported.name, rules=reports)


def _report(rule: Rule, explanation: Explanation | None) -> RuleReport:
    definition = inspect.cleandoc(sys.modules[rule.rewrite.__module__].__doc__ or "")
    effect = " ".join(definition.partition("\n\n")[0].split())
    if explanation is None:
        return RuleReport(rule=rule.name, effect=effect, definition=definition, not_tried=_NOT_TRIED)
    return RuleReport(
        rule=rule.name,
        effect=effect,
        definition=definition,
        applied=explanation.applied,
        rejected=tuple(map(_rejected, explanation.rejected)),
        near_misses=tuple(
            NearMiss(
                nodes=near_miss.nodes,
                misses=tuple(Miss(expected=m.expected, found=m.found, at=m.at) for m in near_miss.misses),
            )
            for near_miss in explanation.near_misses
        ),
    )


def _rejected(rejection: relay_passes.Rejection) -> Rejected:
    compared = rejection.limit is not None
    return Rejected(
        nodes=rejection.nodes,
        reason=rejection.reason,
        limit=str(rejection.limit) if compared else "",
        actual=str(rejection.actual) if compared else "",
        cost=rejection.cost,
    )
