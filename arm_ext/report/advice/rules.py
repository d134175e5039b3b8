# SPDX-License-Identifier: Apache-2.0
"""Rules that find possible changes of a model in the profile of its kernel calls; each is one function."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import onnx

from arm_ext.common.text import counted
from arm_ext.report.advice.alternatives import is_quantized
from arm_ext.report.advice.onnx_changes import convolutions, full_tile, hard_swish, padded_channels
from arm_ext.report.profile.record import ProfiledCall, ProfileReport
from arm_ext.report.report import CompileReport

LEAST_GAIN = 0.01
"""Share of the whole cost below which nothing is worth a change of the model."""

_NAMED = 3  # calls in a sentence


@dataclass(frozen=True)
class Subject:
    """The model and the measurements that rules examine.

    Attributes:
        profile: Profile of the model as it is.
        report: Report of the same package.
        model: The ONNX model, in which each node has a name; None for a model of another format.
    """

    profile: ProfileReport
    report: CompileReport
    model: onnx.ModelProto | None


@dataclass(frozen=True)
class Finding:
    """A finding of a rule.

    Attributes:
        rule: Name of the rule.
        sources: Source nodes that the finding is about.
        evidence: Figures of the profile that the finding is based on.
        share: Share of the whole cost, of the calls in question: the most that there is to gain.
        how: The change to make.
        change: The changed model, to measure; None where nobody can make it but the author.
    """

    rule: str
    sources: tuple[str, ...]
    evidence: str
    share: float
    how: str
    change: onnx.ModelProto | None = None


def findings(subject: Subject) -> list[Finding]:
    """Return what all rules find that costs enough, most first."""
    found = [finding for rule in RULES for finding in rule(subject) if finding.share >= LEAST_GAIN]
    return sorted(found, key=lambda finding: -finding.share)


def cheaper_activation(subject: Subject) -> Iterator[Finding]:
    """Find SiLU in a float model, where hard-swish costs less."""
    changed = None if subject.model is None or is_quantized(subject.report) else hard_swish(subject.model)
    if changed is None:
        return
    calls = _of_sources(subject.profile.calls, changed.sources)
    yield Finding(
        "cheaper-activation",
        changed.sources,
        f"{changed.what}: SiLU is computed in {_cost(calls)}",
        _share(calls),
        "train with hard-swish, x * clip(x + 3, 0, 6) / 6, in the place of SiLU (torch.nn.Hardswish)",
        changed.model,
    )


def full_tiles(subject: Subject) -> Iterator[Finding]:
    """Find convolutions whose channels leave a part of the kernel's tile empty."""
    if subject.model is None:
        return
    partial = {name: count for name, count in convolutions(subject.model) if full_tile(count)}
    changed = padded_channels(subject.model, list(partial))
    if changed is None:
        return
    calls = _of_sources(subject.profile.calls, changed.sources)
    yield Finding(
        "full-tiles",
        changed.sources,
        f"{changed.what}: a part of the kernel's tile is empty in {_cost(calls)}",
        _share(calls),
        "train the model with as many channels in these convolutions; channels of zeros would be removed",
        changed.model,
    )


def small_calls(subject: Subject) -> Iterator[Finding]:
    """Find kernel calls that are too small for what setting them up costs."""
    calls = [call for call in subject.profile.calls if call.counts and call.counts.bound == "overhead"]
    if calls:
        yield Finding(
            "small-calls",
            _sources(calls),
            f"most instructions run once in {_cost(calls)}: {_named(calls)}",
            _share(calls),
            "merge these operators with their neighbours, or fold them into constants; `explain NODE` says why they "
            "stand alone",
        )


def moved_data(subject: Subject) -> Iterator[Finding]:
    """Calls that only copy or rearrange elements."""
    moving = {row.symbol for row in subject.report.calls if row.moves}
    calls = [call for call in subject.profile.calls if call.symbol in moving]
    read = {index for call in subject.profile.calls for index in call.reads}
    at_border = [
        call for call in calls if call.kernel == "transpose" and not (call.reads and call.index in read)
    ]
    inside = [call for call in calls if call not in at_border]
    if at_border:
        yield Finding(
            "border-layout",
            _sources(at_border),
            f"inputs or outputs are transposed to or from channels last in {_cost(at_border)}: {_named(at_border)}",
            _share(at_border),
            "give the model inputs and outputs with channels last, as cameras have them: a Transpose as its first or "
            "last node goes away",
        )
    if inside:
        yield Finding(
            "moved-data",
            _sources(inside),
            f"elements are only moved in {_cost(inside)}: {_named(inside)}",
            _share(inside),
            "reshape, slice and concatenate along the outer axes of channels-last tensors, or without a transposition",
        )


def float_operators(subject: Subject) -> Iterator[Finding]:
    """Find operators of a quantised model that are computed in float."""
    if not is_quantized(subject.report):
        return
    for reason in dict.fromkeys(left.why() for left in subject.report.left_float):
        left = [each for each in subject.report.left_float if each.why() == reason]
        calls = _of_sources(subject.profile.calls, (name for each in left for name in each.nodes))
        operators = ", ".join(dict.fromkeys(each.operator for each in left))
        yield Finding(
            "float-operators",
            _sources(calls),
            f"{operators} in float, {_cost(calls)}: {reason}",
            _share(calls),
            "quantise what these operators read and give, or take operators that integers compute",
        )


Rule = Callable[[Subject], Iterable[Finding]]

RULES: tuple[Rule, ...] = (cheaper_activation, full_tiles, small_calls, moved_data, float_operators)


def _of_sources(calls: Iterable[ProfiledCall], sources: Iterable[str]) -> list[ProfiledCall]:
    wanted = set(sources)
    return [call for call in calls if wanted & set(call.sources)]


def _sources(calls: Iterable[ProfiledCall]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for call in calls for name in call.sources))


def _share(calls: Iterable[ProfiledCall]) -> float:
    return sum(call.share for call in calls)


def _cost(calls: list[ProfiledCall]) -> str:
    return f"{counted(len(calls), 'call')} of {100 * _share(calls):.1f} % of the cost"


def _named(calls: list[ProfiledCall]) -> str:
    first = sorted(calls, key=lambda call: -call.share)[:_NAMED]
    more = len(calls) - len(first)
    return ", ".join(f"{call.anchor} ({call.kernel})" for call in first) + (
        f" and {more} more" if more else ""
    )
