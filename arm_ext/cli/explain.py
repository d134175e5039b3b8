# SPDX-License-Identifier: Apache-2.0
"""`arm-ext explain`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import columns, command, progress
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import given_options, model_options
from arm_ext.cli.options import json_option, target_options
from arm_ext.common.text import counted, millions, wrapped
from arm_ext.report.explanation import ExplainReport, NodeReport, OperatorFate, RuleReport, Unapplied
from arm_ext.report.npu import NpuReport
from schedules.diagnostic import Diagnostic

# Limits: one page for a model, one screen for a rule. Omitted rows are counted, and --json has all.
_PLACES = 3  # number of places where a rule applied, and of different reasons why it did not
_MISSES = 10  # number of near misses of a model, by gain
_LEAST_SAVED = 0.001  # minimum share of all cycles that a rewrite saves, to be shown
_LEAST_GAIN = 0.005  # minimum share of all cycles that a near miss may gain, to be shown
_NODES = 4  # source nodes of a place
_NEAR_MISSES = 20  # of one rule
_REASONS = 5  # number of reasons that keep operators on the CPU instead of the NPU

_VIEWS = ("rule", "node", "everything", "as_json")  # options that select what is shown of the report


@click.command()
@model_argument()
@click.option(
    "--rule",
    metavar="NAME",
    help="Show every place of one rewrite: a rule's name, or layout, integerize, combine_matmuls, fuse:COMPOSITE.",
)
@click.option("--node", metavar="NAME", help="Tell all about one source node, phase by phase.")
@click.option(
    "--rules",
    "--all",
    "everything",
    is_flag=True,
    help="Show every rule, with what it rejected and nearly matched.",
)
@target_options("estimate", several=False)
@model_options
@click.option(
    "--npu",
    metavar="NAME",
    help="Divide a quantised model for this Ethos-U as compile would; --node then tells where it runs, and why.",
)
@json_option("one JSON document, with every place")
def explain(
    model: Path,
    rule: str | None,
    node: str | None,
    everything: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Tell what became of the layers of MODEL (ONNX, TFLite, StableHLO or a .pt2 file), and what would help.

    First what became of the layers, by operator, and what rewrites save: the cycles that would be added without one
    alone. Then near misses, those that may gain most first, by an upper bound. --rules shows each rule, --node NAME one
    node.

    "rejected": the pattern is there, but the rule's check refused it. "nearly": all of the pattern is there but for
    a part or two; two operators match at least, and more than do not.

    Besides the rules there are "layout" (rejected: what keeps the model's), "integerize" (rejected: what a quantised
    model still computes in float), "combine_matmuls", and "fuse:linear" and others, one a composite (rejected: why it
    takes in no more, or why there is none).
    """
    load_tvm()
    # Not imported above: it loads TVM and the front ends, which --help does not need.
    from arm_ext.api.explain import STEPS
    from arm_ext.api.explain import explain as explain_model

    with progress("explaining", STEPS) as step:
        report = explain_model(model, rule, node, progress=step, **given_options(given))
    if as_json:
        click.echo(report.model_dump_json(indent=2))
    else:
        again = f"{command('explain')} {model}{_typed_options()}"
        click.echo("\n".join(_text(report, again, rule, everything=everything)))


def _typed_options() -> str:
    """Return the options that decide what is explained, as text for a command line."""
    context = click.get_current_context()
    said = ""
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if not given or option.name in ("model", *_VIEWS):
            continue
        value = context.params[option.name or ""]
        if value is True:
            said += f" {option.opts[0]}"
        else:
            said += f" {option.opts[0]} {value if isinstance(value, str | Path) else '…'}"
    return said


def _text(report: ExplainReport, again: str, rule: str | None, *, everything: bool) -> Iterator[str]:
    """Yield the lines to print; `again` is the command without the options in _VIEWS."""
    if report.node is not None:
        return _node(report.node, report)
    if rule is not None:
        return _detail(report.rules[0])
    return _every_rule(report, again) if everything else _overview(report, again)


def _overview(report: ExplainReport, again: str) -> Iterator[str]:
    """Yield what became of the layers, what rewrites save, and the near misses with the largest possible gain."""
    cost = f"{millions(report.cycles_with_caches)} cycles with caches, estimated"
    where = "" if report.npu is None else " where the CPU computes all of it"
    layers = sum(fate.layers for fate in report.fates)
    yield f"{report.model}: {counted(layers, 'layer')} in {counted(report.kernel_calls, 'kernel call')}, {cost}{where}"
    if report.npu is not None:
        yield from ("", *_division(report.npu))
    yield from ("", "What became of the layers, by operator:", *_fates(report.fates))
    yield from ("", *_saved(report.rules))
    yield from ("", *_near_misses(report))
    yield from ("", "Every rule, one rule, all about one node:")
    yield from (f"  {again} {option}" for option in ("--rules", "--rule NAME", "--node NAME"))


def _division(npu: NpuReport) -> Iterator[str]:
    """Yield the division of the model between NPU and CPU, and the CPU's operators by their share of MACs."""
    yield from wrapped("npu        ", npu.summary())
    for region in npu.regions:
        on_npu, on_cpu = f"{region.npu_us:,.0f} us with its hand-over", f"{region.cpu_us:,.0f} us on the CPU"
        yield f"           region {region.index}: {len(region.sources)} source nodes, {on_npu}, {on_cpu}, estimated"
    for kept in npu.reasons[:_REASONS]:
        said = f"{100 * kept.mac_share:.1f} % of MACs, {', '.join(kept.operators)}: {kept.reason}"
        yield from wrapped("on the CPU ", said)
    if rest := npu.reasons[_REASONS:]:
        yield f"           and {len(rest)} more reasons"


def _fates(fates: Sequence[OperatorFate]) -> Iterator[str]:
    rows = [("operator", "layers", "cycles", "computed by")]
    for fate in fates:
        parts = [f"{kernel} {count}" for kernel, count in fate.kernels.items()]
        parts += [f"in the call of another layer {fate.merged}"] if fate.merged else []
        parts += [f"nothing left to compute {fate.gone}"] if fate.gone else []
        share = f"{100 * fate.share:.1f} %" if fate.kernels else ""
        rows.append((fate.operator, str(fate.layers), share, ", ".join(parts)))
    return (f"  {line}" for line in columns(rows, "<>><").splitlines())


def _saved(rules: Sequence[RuleReport]) -> Iterator[str]:
    worth = sorted(
        (rule for rule in rules if (rule.saved or 0) >= _LEAST_SAVED), key=lambda rule: -(rule.saved or 0)
    )
    if worth:
        yield "What rewrites save: the cycles that would be added without one alone."
    for rule in worth[:_MISSES]:
        where = _places(len(rule.applied))
        yield from wrapped(f"  {100 * (rule.saved or 0):5.1f} %  {rule.rule}, at {where}  ", rule.effect)
    others = [f"{rule.rule} {len(rule.applied)}" for rule in rules if rule.applied and rule not in worth]
    if others:
        yield from wrapped("Applied too: ", ", ".join(others))
    for reason in dict.fromkeys(rule.not_tried for rule in rules if rule.not_tried):
        count = sum(rule.not_tried == reason for rule in rules)
        yield from wrapped("Not tried: ", f"{counted(count, 'rule')}, which --rules names: each {reason}")


@dataclass(frozen=True)
class _MissedRewrite:
    """Nodes that a rule did not rewrite: the maximum gain, the operator that identifies them, and the reason."""

    rule: str
    gain: float
    anchor: str
    why: str


def _near_misses(report: ExplainReport) -> Iterator[str]:
    groups: dict[tuple[str, str, str], list[_MissedRewrite]] = {}
    for rule in report.rules:
        for rejected in rule.rejected:
            why = _without_others(rejected.diagnostic)
            place = _MissedRewrite(rule.rule, rejected.gain, rejected.anchor, why.why())
            groups.setdefault((rule.rule, "rejected", re.sub(r"\d+", "", why.reason)), []).append(place)
        for near in rule.near_misses:
            place = _MissedRewrite(rule.rule, near.gain, near.anchor, _mismatch(near.diagnostic))
            groups.setdefault((rule.rule, "nearly", near.diagnostic.limit), []).append(place)
    worth = [(sum(place.gain for place in places), places) for places in groups.values()]
    worth = [(gain, places) for gain, places in worth if gain >= _LEAST_GAIN]
    worth.sort(key=lambda each: -each[0])
    if not worth:
        yield "No change of the model that would let a rewrite apply may save 0.5 % of the cycles or more."
        return
    where = "" if report.npu is None else " on the CPU"
    yield f"Worth a change of the model, if it lets a rewrite apply, with what it may save{where} at most:"
    for gain, places in worth[:_MISSES]:
        first = max(places, key=lambda place: place.gain)
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield from wrapped(f"  {100 * gain:5.1f} %  ", f"{first.anchor}{more}: {first.why} [{first.rule}]")
    if len(worth) > _MISSES:
        yield f"  and {len(worth) - _MISSES} more reasons"


def _node(node: NodeReport, report: ExplainReport) -> Iterator[str]:
    yield f"{node.node}: {node.operator}"
    yield from ("", "What it is part of, where a phase changed that:")
    for phase in node.phases:
        yield from wrapped(
            f"  {phase.phase:<13}", ", ".join(phase.operators) or "nothing: it needs no computing"
        )
    if node.npu:
        yield from ("", *wrapped("Where it runs: ", node.npu))
    yield from ("", "What rules did there:")
    told = False
    for rule in report.rules:
        for what, said in _at_node(rule, node.node):
            told = True
            yield from wrapped(f"  {what:<9} {rule.rule}  ", said)
    if not told:
        yield "  nothing"
    kernels = {kernel.symbol: kernel for kernel in node.kernels}
    for call in node.calls:
        share = 100 * call.cycles_with_caches / (report.cycles_with_caches or 1)
        kernel = kernels[call.symbol]
        yield from ("", f"Computed by {call.kernel} ({call.symbol}), {call.output}:")
        yield from wrapped("  holds     ", ", ".join(call.sources))
        yield from wrapped(
            "  costs     ",
            f"{call.cycles_with_caches:,} cycles with caches, estimated, {share:.1f} % of the model; "
            f"{call.macs:,} MACs, {call.bytes:,} bytes",
        )
        yield from wrapped("  as        ", f"{kernel.reason}; computes in {kernel.numerics}")
        if kernel.params:
            yield from wrapped(
                "  with      ", ", ".join(f"{name} {value}" for name, value in kernel.params.items())
            )
        for other in kernel.others:
            same = other.kernel == kernel.kernel
            name = f"with {other.describe_params()}" if same else other.kernel
            yield from wrapped(
                "  not taken ", f"{name}: selection cost {other.selection_cost:,} cycles, {other.lost}"
            )
        for why in kernel.rejected:
            yield from wrapped("  declined  ", f"{why.asked}: {why.why()}")
        for said in dict.fromkeys(kernel.indices.values()):
            yield from wrapped("  indices   ", said)


def _at_node(rule: RuleReport, node: str) -> Iterator[tuple[str, str]]:
    for nodes in rule.applied:
        if node in nodes:
            yield "applied", f"to {', '.join(nodes)}"
    for rejected in rule.rejected:
        if node in (*rejected.diagnostic.nodes, *rejected.diagnostic.others):
            yield "rejected", rejected.diagnostic.why()
    for near in rule.near_misses:
        if node in near.diagnostic.nodes:
            yield "nearly", _mismatch(near.diagnostic)


def _without_others(diagnostic: Diagnostic) -> Diagnostic:
    """Return the diagnostic without the node names at the beginning of its reason."""
    return replace(diagnostic, reason=diagnostic.reason.removeprefix(f"{', '.join(diagnostic.others)}: "))


def _every_rule(report: ExplainReport, again: str) -> Iterator[str]:
    applied = [rule for rule in report.rules if rule.applied]
    places = _places(sum(len(rule.applied) for rule in applied))
    yield f"{report.model}: {len(applied)} of {len(report.rules)} rules applied, at {places}"
    idle: list[str] = []
    not_tried: dict[str, list[str]] = {}
    for rule in report.rules:
        if rule.not_tried:
            not_tried.setdefault(rule.not_tried, []).append(rule.rule)
        elif rule.applied or rule.rejected or rule.near_misses:
            yield from ("", *wrapped("", f"{rule.rule}: {rule.effect}"), *_summary(rule))
        else:
            idle.append(rule.rule)
    for title, names in (
        ("nothing to do for", idle),
        *((f"not tried, {k}", v) for k, v in not_tried.items()),
    ):
        if names:
            yield from ("", *wrapped("", f"{title}: {', '.join(names)}"))
    yield from (
        "",
        f"Of each rule the first {_PLACES} places and different reasons are shown. Place by place:",
        f"  {again} --rule NAME",
    )


def _summary(rule: RuleReport) -> Iterator[str]:
    if rule.applied:
        shown = "; ".join(_short(nodes) for nodes in rule.applied[:_PLACES])
        yield from wrapped("  applied   ", f"{shown}{_more(len(rule.applied) - _PLACES)}")
    reasons: dict[tuple[str, str], list[str]] = {}
    for why in (rejected.diagnostic for rejected in rule.rejected):
        # A reason may begin with the name of its node.
        kind = ("rejected", why.reason.rpartition(": ")[2])
        reasons.setdefault(kind, []).append(f"{why.why()} at {_short(why.nodes)}")
    for near in _best_first(rule.near_misses):
        reasons.setdefault(("nearly  ", near.limit), []).append(f"{_mismatch(near)} ({_short(near.nodes)})")
    for title in ("rejected", "nearly  "):
        groups = [group for (kind, _), group in reasons.items() if kind == title]
        for group in groups[:_PLACES]:
            yield from wrapped(f"  {title}  ", f"{group[0]}{_more(len(group) - 1)}")
        if len(groups) > _PLACES:
            yield f"  {title}  {len(groups) - _PLACES} more reasons"


def _detail(rule: RuleReport) -> Iterator[str]:
    yield from (rule.rule, "", rule.definition, "")
    if rule.not_tried:
        yield f"Not tried: it {rule.not_tried}."
        return
    yield from _section("Applied", [", ".join(nodes) for nodes in rule.applied])
    rejected = [place.diagnostic for place in rule.rejected]
    yield from _section("Rejected", [f"{', '.join(r.nodes)}: {r.why()}" for r in rejected])
    near = [f"{', '.join(n.nodes)}: {_mismatch(n)}" for n in _best_first(rule.near_misses)]
    yield from _section("Nearly matches", near[:_NEAR_MISSES], len(near))


def _section(title: str, lines: Sequence[str], count: int | None = None) -> Iterator[str]:
    count = len(lines) if count is None else count
    yield f"{title} at {_places(count)}{':' if count else ''}"
    yield from (f"  {line}" for line in lines)
    if count > len(lines):
        yield f"  … and {count - len(lines)} that gain less; --json has all"


def _best_first(near_misses: Sequence[Unapplied]) -> list[Diagnostic]:
    """Return near misses sorted by possible gain, then by the share of the pattern that matches."""
    best = sorted(near_misses, key=lambda near: (-near.gain, -len(near.diagnostic.nodes)))
    return [near.diagnostic for near in best]


def _mismatch(near: Diagnostic) -> str:
    """Return the part of the pattern that does not match, and the actual value there."""
    return f"expected {near.limit}, found {near.actual}"


def _short(nodes: Sequence[str]) -> str:
    """Return the names of the first of some source nodes, and how many they are if not all are named."""
    return ", ".join(nodes[:_NODES]) + (f" … ({len(nodes)} nodes)" if len(nodes) > _NODES else "")


def _places(count: int, more: str = "") -> str:
    return f"{count}{more} place{'' if count == 1 else 's'}"


def _more(count: int) -> str:
    return f"; {_places(count, ' more')}" if count > 0 else ""
