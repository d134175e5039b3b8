# SPDX-License-Identifier: Apache-2.0
"""An accuracy report as text and as CSV."""

import textwrap
from collections.abc import Iterator, Sequence

from arm_ext.common.text import clipped, columns, counted, told_apart
from arm_ext.common.text import comma_separated as lines_of
from arm_ext.report.accuracy.record import (
    GOOD_DB,
    GREATEST_DB,
    SATURATED,
    AccuracyReport,
    Errors,
    LayerAccuracy,
    MixedPrecision,
    NpuDifference,
    NpuLink,
    PrecisionChoice,
    Remedy,
)

_TOP = 10
_MANY = 4
"""Number of saturating layers above which the samples are more likely at fault than the layers."""
_NAME, _WIDTH = 40, 110
_LARGEST = 3
"""Number of layers that are shown, by the largest own error, where none is to blame."""
_SAME_DB = 1.0
"""Difference in SQNR below which the outputs of two links of the chain have the same error."""

_NOTES = {
    "QDQ": "QDQ: the quantised model in float, with what the layers before it lost.",
    "LiteRT": "LiteRT: in its own integers, with what the layers before it lost.",
}
MIDDLES = {"QDQ": "QDQ in float", "LiteRT": "LiteRT"}
"""What computes the link between the float model and our integers, in words."""


def decibels(sqnr_db: float, unit: str = " dB") -> str:
    """Return an SQNR as text; "exact" if there is no error."""
    return "exact" if sqnr_db >= GREATEST_DB else f"{sqnr_db:.1f}{unit}"


def text(report: AccuracyReport, *, whole: bool = False) -> str:
    """Return the outputs, the layers to blame with their causes, and the measures of the worst layers.

    Args:
        report: The report to show.
        whole: Whether to list all layers, in execution order, instead of the ten worst.
    """
    if not report.samples:
        mixed = [] if report.mixed is None else mixed_precision(report.mixed)
        return "\n".join([f"{report.model}: not compared with {report.reference}: interrupted", "", *mixed])
    layers = list(report.layers) if whole else report.worst()[:_TOP]
    title = (
        "All layers, in execution order:"
        if whole
        else f"The {counted(len(layers), 'layer')} with the largest own error, of {len(report.layers)}:"
    )
    return "\n".join(
        [
            described(report),
            *_outputs(report),
            *unmeasured(report),
            *where_lost(report),
            "",
            *_paragraph(pruned(report)),
            *blame(report, most=None if whole else _TOP),
            "",
            *_paragraph([] if report.remedy is None else remedy(report.remedy)),
            *_paragraph([] if report.mixed is None else mixed_precision(report.mixed)),
            *_paragraph([] if report.npu is None else npu_link(report.npu)),
            title,
            *columns(list(_rows(report, layers)), "<<>>>>>>"),
            "",
            *_paragraph(not_compared(report, most=None if whole else _TOP)),
            *textwrap.wrap(note(report), _WIDTH),
        ]
    )


def remedy(found: Remedy) -> list[str]:
    """Return the option that helps, with what it gives and costs."""
    metric = "" if found.metric is None else f", {found.metric} {found.before:.4g} → {found.after:.4g}"
    gain = f"{found.before_db:.1f} → {found.after_db:.1f} dB{metric}"
    said = (
        f"With {counted(found.layers, 'more layer')} in float the worst output has {gain}, "
        f"for {100 * (found.cycles - 1):+.1f} % of cycles, estimated for {found.target}:"
    )
    return [*textwrap.wrap(said, _WIDTH), f"  --keep-float {','.join(found.nodes)}"]


def _paragraph(lines: list[str]) -> list[str]:
    return [*lines, ""] if lines else []


def note(report: AccuracyReport) -> str:
    """Return an explanation of the table's columns."""
    read = "Read: what is left of it in the worst product that reads it. " if report.has_readers else ""
    return (
        f"SQNR in dB against the float model; {GOOD_DB:g} and more is good. Own: the layer alone, fed with the float "
        f"model's values. {read}{_NOTES[report.middle]} Integers: what the package computes."
    )


def pruned(report: AccuracyReport) -> list[str]:
    """Return a note that names the pruned layers, since pruning is part of their errors."""
    if not report.pruned:
        return []
    said = (
        f"Half of the weights of {counted(len(report.pruned), 'layer')} are 0, the two smallest of each four (2:4): "
        f"{', '.join(report.pruned)}. The errors have that in them."
    )
    return textwrap.wrap(said, _WIDTH)


def blame(report: AccuracyReport, most: int | None = _TOP) -> list[str]:
    """Return the layers to blame with their causes, largest own error first; or a sentence that no layer is."""
    found = report.to_blame()
    if not found:
        worst = [f"{layer.title} ({decibels(layer.kept_db)})" for layer in report.worst()[:_LARGEST]]
        largest = f"; own errors are largest at {', '.join(worst)}" if worst else ""
        return textwrap.wrap(f"No layer is to blame{largest}.", _WIDTH, break_long_words=False)
    title = f"{counted(len(found), 'layer')} of less than {GOOD_DB:g} dB to blame:"
    lines = [*beyond_calibration(report), title]
    for layer in found[:most]:
        said = f"  {layer.title}: {layer.because()}"
        lines += textwrap.wrap(said, _WIDTH, subsequent_indent="    ", break_long_words=False)
    left = len(found) - len(found[:most])
    return lines + ([f"  and {left} more; --all lists them"] if left else [])


def beyond_calibration(report: AccuracyReport) -> list[str]:
    """Return a note that the samples are the cause, not single layers, if at least half of the layers saturate."""
    quantized = [layer for layer in report.layers if layer.scale is not None]
    beyond = sum(layer.saturated > SATURATED for layer in quantized)
    if beyond < _MANY or 2 * beyond < len(quantized):
        return []
    said = (
        f"{beyond} of {counted(len(quantized), 'layer')} saturate, each fed with the float model's values: the samples "
        "may not be what the model was calibrated on, such as of another scale or another preprocessing."
    )
    return textwrap.wrap(said, _WIDTH)


def mixed_precision(mixed: MixedPrecision) -> list[str]:
    """Return a table of the choices of layers in int16 and float, and a description of the chosen one."""
    head, *rows = precision_rows(mixed)
    short = [(*row[:-1], clipped(row[-1], _WIDTH // 2)) for row in rows]
    return [
        *textwrap.wrap(f"{precision_title(mixed)}:", _WIDTH),
        *columns([head, *short], "<" + ">" * len(head[1:])),
        *(line for said in precision_notes(mixed) for line in textwrap.wrap(said, _WIDTH)),
        *precision_options(mixed),
    ]


def precision_title(mixed: MixedPrecision) -> str:
    """Return a title with the chosen precisions, the bound, and the target for which cycles are estimated."""
    chosen, (source, *_) = _chosen(mixed), _metrics(mixed)
    stopped = "" if mixed.complete else " (stopped before the search came to its end)"
    return (
        f"For {mixed.bound} ({source}), of {counted(len(mixed.layers), 'layer')} {len(chosen.int16)} in int16, "
        f"{len(chosen.float16)} in float16 and {len(chosen.layers)} in float{stopped}; cycles are estimated for "
        f"{mixed.target}{_with_npu(mixed)}"
    )


def precision_rows(mixed: MixedPrecision) -> list[tuple[str, ...]]:
    """Return the names of columns, then one row per choice; the last cell lists the layers above int8."""
    on_npu = () if mixed.npu is None else ("NPU MACs",)
    head = ("", "int16", "float16", "float", mixed.metric, *on_npu, "cycles", "bytes", "layers")
    rows = [
        (
            "*" if each.chosen else "",
            *(str(len(names)) for names in (each.int16, each.float16, each.layers)),
            metric,
            *(() if each.npu is None else (f"{100 * each.npu.mac_share:.1f} %",)),
            f"{each.cycles:,}",
            f"{each.bytes:,}",
            _raised(mixed, each),
        )
        for each, metric in zip(mixed.choices, _metrics(mixed)[1:], strict=True)
    ]
    return [head, *rows]


def precision_notes(mixed: MixedPrecision) -> list[str]:
    """Return notes: unavailable precisions, how to make the choice with PT2E, and whether integers miss the bound."""
    refused = {"int16": mixed.without_int16, "float16": mixed.without_float16}
    return [
        *(f"{precision} is no choice: {why}" for precision, why in refused.items() if why),
        *_left_out(mixed, _chosen(mixed)),
        *([] if mixed.in_integers is not False else [_MISSED]),
    ]


def precision_options(mixed: MixedPrecision) -> list[str]:
    """Return the options of `quantize` that reproduce the chosen model."""
    named = {"int16": mixed.int16_nodes, "float16": mixed.float16_nodes, "keep-float": mixed.nodes}
    if mixed.modules is not None:
        return []
    return [f"--{option} {','.join(nodes)}" for option, nodes in named.items() if nodes]


def _chosen(mixed: MixedPrecision) -> PrecisionChoice:
    return next(each for each in mixed.choices if each.chosen)


def _metrics(mixed: MixedPrecision) -> list[str]:
    """Return the metrics of the float model and of each choice, with enough digits to distinguish them."""
    return told_apart((mixed.source, *(each.metric for each in mixed.choices)))


_MISSED = (
    "Our integers of this model miss the bound, which it holds with QDQ in float: ties that round the other way decide "
    "at so small a distance. Ask for a smaller drop, or measure on more samples."
)


def _left_out(mixed: MixedPrecision, chosen: PrecisionChoice) -> list[str]:
    """Return a note with the modules that PT2E's quantiser must leave out, so that the chosen layers stay in float."""
    if mixed.modules is None or not chosen.layers:
        return []
    named = f"modules: {', '.join(mixed.modules)}" if mixed.modules else f"nodes: {', '.join(mixed.nodes)}"
    return [f"To have it, let PT2E's quantiser leave out these {named}"]


def _with_npu(mixed: MixedPrecision) -> str:
    npu = mixed.npu
    if npu is None:
        return ""
    return (
        f" at {npu.cpu_mhz:g} MHz with {npu.accelerator} at {npu.npu_mhz:g} MHz, which takes turns with it, and "
        f"{npu.handover_us:g} us for each hand-over"
    )


def _raised(mixed: MixedPrecision, choice: PrecisionChoice) -> str:
    """Return the layers above int8 with their precisions, in execution order, as text."""
    kinds = {
        **dict.fromkeys(choice.int16, "int16"),
        **dict.fromkeys(choice.float16, "float16"),
        **dict.fromkeys(choice.layers, "float"),
    }
    return ", ".join(f"{layer.name} {kinds[layer.name]}" for layer in mixed.layers if layer.name in kinds)


def npu_link(link: NpuLink) -> list[str]:
    """Return whether each region of the NPU computes our integers, and the first operator that differs."""
    title, *regions = npu_sentences(link)
    return [
        *textwrap.wrap(title, _WIDTH, break_on_hyphens=False),
        *(
            line
            for said in regions
            for line in textwrap.wrap(said, _WIDTH, initial_indent="  ", subsequent_indent="    ")
        ),
    ]


def npu_sentences(link: NpuLink) -> list[str]:
    """Return a sentence about the machine that computed the NPU's link, and one for each region."""
    said = f"{link.accelerator}, by a functional model of it, on {counted(link.samples, 'sample')}"
    if not link.regions:
        return [
            f"{said}: no region gains, so that all runs on the CPU; --npu-ops sends operators there whatever it costs"
        ]
    lines = [f"{said}:"]
    for number, region in enumerate(link.regions):
        ends = " to ".join(dict.fromkeys((region.sources[0], region.sources[-1])))
        where = f"region {number} ({counted(len(region.sources), 'node')}, {clipped(ends, _WIDTH // 2)})"
        of = f"{region.differing:,} of {region.elements:,} values differ from our integers"
        differing = f"{of}, by {region.largest} at most; {_begins(region.begins)}" if region.differing else of
        lines.append(f"{where}: {differing}")
    return lines


def _begins(found: NpuDifference | None) -> str:
    if found is None:
        return "they differ in the whole region alone: its beginnings, compiled by themselves, do not"
    return (
        f"they begin to differ at {', '.join(found.nodes)} ({found.operator}), where the {found.wrong} is not what "
        "TOSA's reference model computes"
    )


def described(report: AccuracyReport) -> str:
    """Return the compared models, the number of samples, and the machines that ran them."""
    where = "this machine" if report.board == "host" else f"board {report.board}"
    stopped = f" (stopped, of {report.given})" if report.samples < report.given else ""
    return (
        f"{report.model} against {report.reference}, {counted(report.samples, 'sample')}{stopped}; "
        f"our integers on {where}, the rest by {report.runtime}"
    )


def unmeasured(report: AccuracyReport) -> list[str]:
    """Return the reason why a requested metric was not measured."""
    if report.unmeasured is None:
        return []
    return textwrap.wrap(f"The metric was not measured: {report.unmeasured}", _WIDTH)


def where_lost(report: AccuracyReport) -> list[str]:
    """Return a sentence about the link of the chain at which the worst output loses most accuracy, if it loses much."""
    worst = min(report.outputs, key=lambda output: output.integers.sqnr_db, default=None)
    if worst is None or worst.integers.sqnr_db >= GOOD_DB or report.reference == report.middle:
        return []
    more = worst.fake.sqnr_db - worst.integers.sqnr_db
    if abs(more) < _SAME_DB:
        said = f"The quantised model has this error by itself: {MIDDLES[report.middle]} loses as much as our integers."
    elif more < 0:
        said = (
            f"Our integers lose less than {MIDDLES[report.middle]}, by {-more:.1f} dB at output {worst.name}."
        )
    else:
        said = (
            f"Our integers lose {more:.1f} dB more than {MIDDLES[report.middle]} at output {worst.name}: look for the "
            f"first layer whose integers are worse than its {report.middle}."
        )
    return textwrap.wrap(said, _WIDTH)


def _outputs(report: AccuracyReport) -> Iterator[str]:
    rows = [
        (
            f"output {each.name}",
            f"{MIDDLES[report.middle]} {decibels(each.fake.sqnr_db)}",
            f"our integers {decibels(each.integers.sqnr_db)}, cosine {each.integers.cosine:.5f}, "
            f"max error {each.integers.max_error:.4g}",
        )
        for each in report.outputs
    ]
    if (value := report.metric) is not None:
        source, fake, ours = told_apart((value.source, value.fake, value.integers))
        rows.append((f"{value.name} {source}", f"{MIDDLES[report.middle]} {fake}", f"our integers {ours}"))
    yield from columns(rows)


def _rows(report: AccuracyReport, layers: Sequence[LayerAccuracy]) -> Iterator[tuple[str, ...]]:
    """Yield the names of columns, then a row per layer; the column "read" is left out if no layer has its value."""
    read = report.has_readers
    head = ("layer", "operator", "own", *(("read",) if read else ()), report.middle)
    yield (*head, "integers", "saturated", "zeros", "max error")
    for layer in layers:
        yield (
            clipped(layer.title, _NAME),
            layer.operator,
            decibels(layer.own.sqnr_db, ""),
            *(("" if layer.read_db is None else decibels(layer.read_db, ""),) if read else ()),
            decibels(layer.fake.sqnr_db, ""),
            decibels(layer.integers.sqnr_db, ""),
            f"{100 * layer.saturated:.2f} %",
            f"{100 * layer.zeros:.1f} %",
            f"{layer.integers.max_error:.3g}",
        )


def not_compared(report: AccuracyReport, most: int | None) -> list[str]:
    """Return a note with the source nodes that belong to no layer."""
    if not report.uncovered:
        return []
    names = report.uncovered[:most]
    more = "" if len(names) == len(report.uncovered) else f" and {len(report.uncovered) - len(names)} more"
    said = f"Not compared, for nothing in the quantised model stands for it: {', '.join(names)}{more}"
    return textwrap.wrap(said, _WIDTH, break_long_words=False)


def comma_separated(report: AccuracyReport) -> str:
    """Return one line per layer, in execution order, after a line with the names of columns."""
    return lines_of([_flat(layer) for layer in report.layers])


def _flat(layer: LayerAccuracy) -> dict[str, object]:
    links = {"own": layer.own, "fake": layer.fake, "integers": layer.integers, "rounding": layer.rounding}
    row = layer.model_dump(exclude=set(links) | {"nodes", "causes", "values", "differences"})
    row["nodes"] = " ".join(layer.nodes)
    for link, errors in links.items():
        row |= {f"{link}_{field}": getattr(errors, field) for field in Errors.model_fields}
    return row | {"causes": "; ".join(layer.causes)}
