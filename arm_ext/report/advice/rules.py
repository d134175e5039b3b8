# SPDX-License-Identifier: Apache-2.0
"""Rules that find possible changes of a model in the profile of its kernel calls, one function each."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from arm_ext.common.text import counted
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.alternatives import is_quantized
from arm_ext.report.advice.changes import (
    Changed,
    channels_last_ends,
    channels_last_reshapes,
    hard_swish,
    without_nodes,
)
from arm_ext.report.advice.padded_channels import padded_channels
from arm_ext.report.advice.smaller_sizes import Size, resized, sizes_above_blocks
from arm_ext.report.profile.record import ProfiledCall, ProfileReport
from arm_ext.report.report import CompileReport

LEAST_GAIN = 0.01
"""Share of the whole cost below which nothing is worth a change of the model."""

_NAMED = 3  # calls in a sentence

_INT8_SAVES = 3 / 4
"""Share of a float operator's cycles that int8 would save: a vector of 128 bits has 16 elements instead of 4."""


@dataclass(frozen=True)
class Subject:
    """The model, its profile and its report, which rules examine.

    Attributes:
        profile: Profile of the model as it is.
        report: Report of the same package.
        model: The imported model, whose constants are folded; None if it is compiled for several shapes.
        inputs: Inputs of the package that are the model's, too; none with preprocessing, which has others.
        quantized: Returns the model with some nodes in integers that are in float; None if it cannot be made.
    """

    profile: ProfileReport
    report: CompileReport
    model: ImportedModel | None
    inputs: Collection[str] = ()
    quantized: Callable[[tuple[str, ...]], Changed | None] = lambda nodes: None


@dataclass(frozen=True)
class AdviceFinding:
    """A possible change of a model that a rule has found, with its evidence.

    Attributes:
        rule: Name of the rule.
        sources: Source nodes that the finding is about.
        evidence: Figures of the profile that the finding is based on.
        share: Share of the whole cost, of the calls in question: the most that there is to gain.
        how: The change to make.
        change: The changed model, to measure; None where nobody can make it but the author.
        estimate: Share of the whole cost that the change would save by estimate; only used without `change`.
        basis: Description of the estimate.
        work: Share of the model's work that the change leaves out; only what it saves beyond that is a gain.
    """

    rule: str
    sources: tuple[str, ...]
    evidence: str
    share: float
    how: str
    change: Changed | None = None
    estimate: float = 0.0
    basis: str = ""
    work: float = 0.0

    @property
    def least(self) -> float:
        """Minimum share of the total cost that the change must save to be advised."""
        return self.work + LEAST_GAIN

    @property
    def is_worth_a_look(self) -> bool:
        """Whether the finding's calls cost enough.

        If no change can be measured, also whether the estimate is high enough.
        """
        found = self.share if self.change is not None else min(self.share, self.estimate)
        return found >= (LEAST_GAIN if self.change is not None else self.least)


def findings(subject: Subject) -> list[AdviceFinding]:
    """Return all rules' findings that cost enough, the costliest first."""
    found = [finding for rule in RULES for finding in rule(subject) if finding.is_worth_a_look]
    return sorted(found, key=lambda finding: -finding.share)


def cheaper_activation(subject: Subject) -> Iterator[AdviceFinding]:
    """Find SiLU in a float model; hard-swish costs less."""
    changed = None if subject.model is None or is_quantized(subject.report) else hard_swish(subject.model)
    if changed is None:
        return
    calls = _of_sources(subject.profile.calls, changed.sources)
    yield AdviceFinding(
        "cheaper-activation",
        changed.sources,
        f"{changed.what}: SiLU is computed in {_cost(calls)}",
        _share(calls),
        "train with hard-swish, x * clip(x + 3, 0, 6) / 6, in the place of SiLU (torch.nn.Hardswish)",
        changed,
    )


def full_tiles(subject: Subject) -> Iterator[AdviceFinding]:
    """Find convolutions whose channels leave a part of the kernel's tile empty."""
    changed = None if subject.model is None else padded_channels(subject.model)
    if changed is None:
        return
    calls = _of_sources(subject.profile.calls, changed.sources)
    yield AdviceFinding(
        "full-tiles",
        changed.sources,
        f"{changed.what}: a part of the kernel's tile is empty in {_cost(calls)}",
        _share(calls),
        "train the model with as many channels in these convolutions; channels of zeros would be removed",
        changed,
    )


def small_calls(subject: Subject) -> Iterator[AdviceFinding]:
    """Find kernel calls that are too small compared with their set-up cost."""
    small = [call for call in subject.profile.calls if call.counts and call.counts.bound == "overhead"]
    for calls, change in _left_out(subject, small):
        yield AdviceFinding(
            "small-calls",
            _sources(calls),
            f"most instructions run once in {_cost(calls)}: {_named(calls)}",
            _share(calls),
            "merge these operators with their neighbours, or fold them into constants; `explain MODEL --node NODE` "
            "says why they stand alone",
            change,
            _above_limits(calls, subject.profile),
            "what these calls take beyond the limit of their instructions",
        )


def moved_data(subject: Subject) -> Iterator[AdviceFinding]:
    """Find calls that only copy or rearrange elements."""
    moving = {row.symbol for row in subject.report.calls if row.moves}
    calls = [call for call in subject.profile.calls if call.symbol in moving]
    read = {index for call in subject.profile.calls for index in call.reads}
    at_border = [
        call for call in calls if call.kernel == "transpose" and not (call.reads and call.index in read)
    ]
    if at_border:
        yield AdviceFinding(
            "border-layout",
            _sources(at_border),
            f"inputs or outputs are transposed to or from channels last in {_cost(at_border)}: {_named(at_border)}",
            _share(at_border),
            "give the model inputs and outputs with channels last, as cameras have them: a Transpose as its first or "
            "last node goes away",
            None if subject.model is None or not subject.inputs else channels_last_ends(subject.model),
            _share(at_border),
            _ALL_OF_IT,
        )
    inside = [call for call in calls if call not in at_border]
    for found, change in _left_out(subject, inside):
        forced = _forced_by_reshape(subject, found) if change is None else None
        if forced is not None:
            yield forced
        rest = [call for call in found if forced is None or not set(call.sources) & set(forced.sources)]
        if rest:
            yield AdviceFinding(
                "moved-data",
                _sources(rest),
                f"elements are only moved in {_cost(rest)}: {_named(rest)}",
                _share(rest),
                "reshape, slice and concatenate along the outer axes of channels-last tensors, or without a "
                "transposition",
                change,
                _share(rest),
                _ALL_OF_IT,
            )


_ALL_OF_IT = "all that these calls cost"


def _forced_by_reshape(subject: Subject, calls: list[ProfiledCall]) -> AdviceFinding | None:
    """Return the cost of transpositions that a channels-first reshape requires; None if there are none."""
    transposed = [call for call in calls if call.kernel == "transpose"]
    if subject.model is None:
        return None
    change = channels_last_reshapes(subject.model, _sources(transposed))
    if change is None:
        return None
    forced = _of_sources(transposed, change.sources)
    then = "" if change.comparable else " and train it again"
    return AdviceFinding(
        "reshape-layout",
        change.sources,
        f"a reshape of channels first forces a transposition in {_cost(forced)}: {_named(forced)}",
        _share(forced),
        f"transpose to channels last before the reshape, permute the weights that read it{then}",
        change,
    )


def size_above_block(subject: Subject) -> Iterator[AdviceFinding]:
    """Find batch and sequence sizes that are just above a multiple of the rows that kernels compute together."""
    model = subject.model
    for size in () if model is None else sizes_above_blocks(model):
        products = [call for call in subject.profile.calls if call.macs]
        more = size.size - size.smaller
        change = resized(model, size) if model is not None and _is_alone(subject, size) else None
        yield AdviceFinding(
            "size-above-block",
            size.inputs,
            f"{size.kind} size {size.size} is {more} above {size.smaller}, a multiple of the {size.block} rows that "
            f"kernels compute together; {more} of {size.size} is {100 * more / size.size:.1f} % of the work",
            _share(subject.profile.calls),
            f"take {size.smaller} in the place of {size.size} where the application can: shorter windows, fewer "
            "special tokens, or another batch",
            change,
            _share(products) * (1 - size.smaller / (size.smaller + size.block)),
            f"products, if the last {more} rows cost as much as {size.block}",
            more / size.size,
        )


def _is_alone(subject: Subject, size: Size) -> bool:
    """Whether the inputs to change are the package's, so that the changed model can be built."""
    return all(name in subject.inputs for name in size.inputs)


def float_operators(subject: Subject) -> Iterator[AdviceFinding]:
    """Find operators of a quantised model that are computed in float."""
    if not is_quantized(subject.report):
        return
    for reason in dict.fromkeys(left.why() for left in subject.report.left_float):
        left = [each for each in subject.report.left_float if each.why() == reason]
        nodes = tuple(name for each in left for name in each.nodes)
        calls = _of_sources(subject.profile.calls, nodes)
        operators = ", ".join(dict.fromkeys(each.operator for each in left))
        yield AdviceFinding(
            "float-operators",
            _sources(calls),
            f"{operators} in float, {_cost(calls)}: {reason}",
            _share(calls),
            "quantise what these operators read and give, or take operators that integers compute",
            subject.quantized(nodes),
            _INT8_SAVES * _share(calls),
            "three quarters of these calls: a vector has four times as many elements in int8",
        )


Rule = Callable[[Subject], Iterable[AdviceFinding]]

RULES: tuple[Rule, ...] = (
    cheaper_activation,
    full_tiles,
    small_calls,
    moved_data,
    size_above_block,
    float_operators,
)


def _left_out(
    subject: Subject, calls: list[ProfiledCall]
) -> Iterator[tuple[list[ProfiledCall], Changed | None]]:
    """Yield the calls whose nodes can be left out, with the model without them; then the other calls, if any."""
    change = without_nodes(subject.model, _sources(calls)) if subject.model is not None and calls else None
    found = [] if change is None else _of_sources(calls, change.sources)
    if found:
        yield found, change
    if rest := [call for call in calls if call not in found]:
        yield rest, None


def _above_limits(calls: Iterable[ProfiledCall], profile: ProfileReport) -> float:
    """Return the calls' cycles above the lower bound of their instructions, as a share of the total cost."""
    above = sum(call.counts.cycles_with_caches - call.counts.limit_cycles for call in calls if call.counts)
    return above / profile.cycles_with_caches if profile.cycles_with_caches else 0.0


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
