# SPDX-License-Identifier: Apache-2.0
"""`arm-ext explain`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from arm_ext.cli.console import command, given_shapes, progress
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import model_options
from arm_ext.cli.path_type import PATH
from arm_ext.cli.target_options import target_options
from arm_ext.package.manifest import Method
from arm_ext.report.explanation import ExplainReport, NearMiss, Rejected, RuleReport
from arm_ext.shapes.given import Dim

# A page for a model, a screen for a rule: what is left out is counted, and stands in --json.
_PLACES = 3  # places where a rule applied, and different reasons why it did not
_NODES = 4  # source nodes of a place
_NEAR_MISSES = 20  # of one rule, those with the fewest misses and the most nodes first


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--rule",
    metavar="NAME",
    help="Show every place of one rewrite: a rule's name, or layout, integerize, combine_matmuls, fuse:COMPOSITE.",
)
@target_options("estimate", several=False)
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every place.")
def explain(
    model: Path,
    rule: str | None,
    target: str,
    mattr: str | None,
    shapes: tuple[tuple[str, tuple[Dim, ...]], ...],
    preprocess: Path | None,
    quantize: Path | None,
    trust: bool,
    calibration: Method,
    as_json: bool,
) -> None:
    """Tell what each rewrite did to MODEL (ONNX, TFLite, StableHLO or a .pt2 file), and where and why it did not.

    "rejected": the pattern is there, but the rule's check refused it. "nearly": all of the pattern is there but for
    a part or two; two operators match at least, and more than do not.

    Besides the rules there are "layout" (rejected: what keeps the model's), "integerize" (rejected: what a quantised
    model still computes in float), "combine_matmuls", and "fuse:linear" and others, one a composite (rejected: why it
    takes in no more, or why there is none).
    """
    load_tvm()
    # Not above: it loads TVM and what reads models, for which --help need not wait.
    from arm_ext.api.explain import STEPS
    from arm_ext.api.explain import explain as explain_model

    with progress("explaining", STEPS) as step:
        report = explain_model(
            model,
            rule,
            target=target,
            mattr=mattr,
            shapes=given_shapes(shapes),
            preprocess=preprocess,
            quantize=quantize,
            trust=trust,
            calibration=calibration,
            progress=step,
        )
    if as_json:
        click.echo(report.model_dump_json(indent=2))
    else:
        lines = _overview(report, model) if rule is None else _detail(report.rules[0])
        click.echo("\n".join(lines))


def _overview(report: ExplainReport, model: Path) -> Iterator[str]:
    applied = [rule for rule in report.rules if rule.applied]
    places = _places(sum(len(rule.applied) for rule in applied))
    yield f"{report.model}: {len(applied)} of {len(report.rules)} rules applied, at {places}"
    idle: list[str] = []
    not_tried: dict[str, list[str]] = {}
    for rule in report.rules:
        if rule.not_tried:
            not_tried.setdefault(rule.not_tried, []).append(rule.rule)
        elif rule.applied or rule.rejected or rule.near_misses:
            yield from ("", f"{rule.rule}: {rule.effect}", *_summary(rule))
        else:
            idle.append(rule.rule)
    for title, names in (
        ("nothing to do for", idle),
        *((f"not tried, {k}", v) for k, v in not_tried.items()),
    ):
        if names:
            yield from ("", f"{title}: {', '.join(names)}")
    yield from (
        "",
        f"Of each rule the first {_PLACES} places and different reasons are shown. Place by place:",
        f"  {command('explain')} {model} --rule NAME",
    )


def _summary(rule: RuleReport) -> Iterator[str]:
    if rule.applied:
        shown = "; ".join(_short(nodes) for nodes in rule.applied[:_PLACES])
        yield f"  applied   {shown}{_more(len(rule.applied) - _PLACES)}"
    reasons: dict[tuple[str, object], list[str]] = {}
    for rejected in rule.rejected:
        text = f"{_why(rejected)} at {_short(rejected.nodes)}"
        # A reason may begin with the node that it speaks of.
        reasons.setdefault(("rejected", rejected.reason.rpartition(": ")[2]), []).append(text)
    for near in _best_first(rule.near_misses):
        kind = tuple(miss.expected for miss in near.misses)
        reasons.setdefault(("nearly  ", kind), []).append(f"{_misses(near)} ({_short(near.nodes)})")
    for title in ("rejected", "nearly  "):
        groups = [group for (kind, _), group in reasons.items() if kind == title]
        for group in groups[:_PLACES]:
            yield f"  {title}  {group[0]}{_more(len(group) - 1)}"
        if len(groups) > _PLACES:
            yield f"  {title}  {len(groups) - _PLACES} more reasons"


def _detail(rule: RuleReport) -> Iterator[str]:
    yield from (rule.rule, "", rule.definition, "")
    if rule.not_tried:
        yield f"Not tried: it {rule.not_tried}."
        return
    yield from _section("Applied", [", ".join(nodes) for nodes in rule.applied])
    yield from _section("Rejected", [f"{', '.join(r.nodes)}: {_why(r)}" for r in rule.rejected])
    near = [f"{', '.join(n.nodes)}: {_misses(n)}" for n in _best_first(rule.near_misses)]
    yield from _section("Nearly matches", near[:_NEAR_MISSES], len(near))


def _section(title: str, lines: Sequence[str], count: int | None = None) -> Iterator[str]:
    count = len(lines) if count is None else count
    yield f"{title} at {_places(count)}{':' if count else ''}"
    yield from (f"  {line}" for line in lines)
    if count > len(lines):
        yield f"  … and {count - len(lines)} that fit less; --json has all"


def _best_first(near_misses: Sequence[NearMiss]) -> list[NearMiss]:
    return sorted(near_misses, key=lambda near: (len(near.misses), -len(near.nodes)))


def _why(rejected: Rejected) -> str:
    compared = f" (limit {rejected.limit}, actual {rejected.actual})" if rejected.limit else ""
    cost = f" (cost: {rejected.cost})" if rejected.cost else ""
    return rejected.reason + compared + cost


def _misses(near: NearMiss) -> str:
    return "; ".join(
        f"expected {_either(miss.expected)}, found {miss.found}"
        + (f" at {_short(miss.at)}" if miss.at else "")
        for miss in near.misses
    )


def _either(wishes: Sequence[str]) -> str:
    return f"{', '.join(wishes[:-1])} or {wishes[-1]}" if len(wishes) > 1 else wishes[0]


def _short(nodes: Sequence[str]) -> str:
    """The first source nodes of a place."""
    return ", ".join(nodes[:_NODES]) + (f" … ({len(nodes)} nodes)" if len(nodes) > _NODES else "")


def _places(count: int, more: str = "") -> str:
    return f"{count}{more} place{'' if count == 1 else 's'}"


def _more(count: int) -> str:
    return f"; {_places(count, ' more')}" if count > 0 else ""
