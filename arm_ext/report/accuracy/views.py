# SPDX-License-Identifier: Apache-2.0
"""An accuracy report as text, as CSV, and as one page in HTML."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from arm_ext.common.text import clipped, columns, counted
from arm_ext.common.text import comma_separated as lines_of
from arm_ext.report.accuracy.record import (
    AccuracyReport,
    ErrorHistogram,
    Errors,
    LayerAccuracy,
    MixedPrecision,
    NpuDifference,
    NpuLink,
    PrecisionChoice,
    ValueHistogram,
)

_TOP = 10
_NAME, _WIDTH = 40, 110
_BAR_DB = 60.0
"""Decibels of a bar that is as wide as its cell."""

_NOTES = {
    "QDQ": "QDQ: the quantised model in float, with what the layers before it lost.",
    "LiteRT": "LiteRT: in its own integers, with what the layers before it lost.",
}
_MIDDLES = {"QDQ": "QDQ in float", "LiteRT": "LiteRT"}


def text(report: AccuracyReport, *, whole: bool = False) -> str:
    """Return the outputs, the layers to blame with their causes, and the figures of the worst.

    Args:
        report: The report to show.
        whole: Whether to list all layers, in execution order, instead of the ten worst.
    """
    layers = list(report.layers) if whole else report.worst()[:_TOP]
    title = (
        "All layers, in execution order:"
        if whole
        else f"The {counted(len(layers), 'layer')} with the largest own error, of {len(report.layers)}:"
    )
    return "\n".join(
        [
            *_head(report),
            "",
            *_pruned(report),
            *([] if report.mixed is None else [*mixed_precision(report.mixed), ""]),
            *([] if report.npu is None else [*npu_link(report.npu), ""]),
            *blame(report, most=None if whole else _TOP),
            "",
            title,
            *columns([_columns(report), *map(_row, layers)], "<<>>>>>"),
            *_uncovered(report, whole=whole),
            "",
            *textwrap.wrap(_note(report), _WIDTH),
        ]
    )


def _note(report: AccuracyReport) -> str:
    return (
        "SQNR in dB against the float model; 40 and more is good. Own: the layer alone, fed with the float model's "
        f"values. {_NOTES[report.middle]} Integers: what the package computes."
    )


def _pruned(report: AccuracyReport) -> list[str]:
    """Return the lines on pruning, whose effect is part of the errors below."""
    if not report.pruned:
        return []
    said = (
        f"Half of the weights of {counted(len(report.pruned), 'layer')} are 0, the two smallest of each four (2:4): "
        f"{', '.join(report.pruned)}. Errors below have that in them."
    )
    return [*textwrap.wrap(said, _WIDTH), ""]


def blame(report: AccuracyReport, most: int | None = _TOP) -> list[str]:
    """Return the layers to blame and why, largest own error first, or that none is."""
    found = report.to_blame()
    if not found:
        worst = report.worst()[:1]
        least = (
            f"; the largest own error is {worst[0].title}'s, {worst[0].own.sqnr_db:.1f} dB" if worst else ""
        )
        return [f"No layer is to blame{least}."]
    lines = [f"{counted(len(found), 'layer')} to blame:"]
    for layer in found[:most]:
        said = f"  {layer.title}: {layer.because()}"
        lines += textwrap.wrap(said, _WIDTH, subsequent_indent="    ", break_long_words=False)
    left = len(found) - len(found[:most])
    return lines + ([f"  and {left} more; --all lists them"] if left else [])


def mixed_precision(mixed: MixedPrecision) -> list[str]:
    """Return the choices of layers in int16 and float as a table, and what was chosen."""
    on_npu = () if mixed.npu is None else ("NPU MACs",)
    head = ("", "int16", "float16", "float", mixed.metric, *on_npu, "cycles", "bytes", "layers")
    chosen = next(each for each in mixed.choices if each.chosen)
    rows = [
        (
            "*" if each is chosen else "",
            *(str(len(names)) for names in (each.int16, each.float16, each.layers)),
            f"{each.metric:.5g}",
            *(() if each.npu is None else (f"{100 * each.npu.mac_share:.1f} %",)),
            f"{each.cycles:,}",
            f"{each.bytes:,}",
            clipped(_raised(mixed, each), _WIDTH // 2),
        )
        for each in mixed.choices
    ]
    stopped = "" if mixed.complete else " (stopped before the search came to its end)"
    said = (
        f"For {mixed.bound} ({mixed.source:.4g}), of {counted(len(mixed.layers), 'layer')} {len(chosen.int16)} in "
        f"int16, {len(chosen.float16)} in float16 and {len(chosen.layers)} in float{stopped}; cycles are estimated "
        f"for {mixed.target}{_with_npu(mixed)}:"
    )
    refused = {"int16": mixed.without_int16, "float16": mixed.without_float16}
    named = {"int16": mixed.int16_nodes, "float16": mixed.float16_nodes, "keep-float": mixed.nodes}
    return [
        *textwrap.wrap(said, _WIDTH),
        *columns([head, *rows], "<" + ">" * len(head[1:])),
        *(
            line
            for rung, why in refused.items()
            if why
            for line in textwrap.wrap(f"{rung} is no choice: {why}", _WIDTH)
        ),
        *(f"--{option} {','.join(nodes)}" for option, nodes in named.items() if nodes),
    ]


def _with_npu(mixed: MixedPrecision) -> str:
    npu = mixed.npu
    if npu is None:
        return ""
    return (
        f" at {npu.cpu_mhz:g} MHz with {npu.accelerator} at {npu.npu_mhz:g} MHz, which takes turns with it, and "
        f"{npu.handover_us:g} us for each hand-over"
    )


def _raised(mixed: MixedPrecision, choice: PrecisionChoice) -> str:
    """The layers above int8, in execution order."""
    kinds = {
        **dict.fromkeys(choice.int16, "int16"),
        **dict.fromkeys(choice.float16, "float16"),
        **dict.fromkeys(choice.layers, "float"),
    }
    return ", ".join(f"{layer.name} {kinds[layer.name]}" for layer in mixed.layers if layer.name in kinds)


def npu_link(link: NpuLink) -> list[str]:
    """Return whether each region of the NPU computes our integers, and the first operator that differs."""
    said = f"{link.accelerator}, by a functional model of it, on {counted(link.samples, 'sample')}"
    if not link.regions:
        return textwrap.wrap(
            f"{said}: no region gains, so that all runs on the CPU; --npu-ops sends operators there whatever it costs",
            _WIDTH,
        )
    lines = [f"{said}:"]
    for number, region in enumerate(link.regions):
        ends = " to ".join(dict.fromkeys((region.sources[0], region.sources[-1])))
        differing = (
            f"{region.differing:,} of {region.elements:,} values differ from our integers, by {region.largest} at most"
            if region.differing
            else f"0 of {region.elements:,} values differ from our integers"
        )
        lines += textwrap.wrap(
            f"  region {number} ({counted(len(region.sources), 'node')}, {clipped(ends, _WIDTH // 2)}): {differing}",
            _WIDTH,
            subsequent_indent="    ",
        )
        if region.differing:
            lines += textwrap.wrap(f"    {_begins(region.begins)}", _WIDTH, subsequent_indent="    ")
    return lines


def _begins(found: NpuDifference | None) -> str:
    if found is None:
        return "they differ in the whole region alone: its beginnings, compiled by themselves, do not"
    return (
        f"they begin to differ at {', '.join(found.nodes)} ({found.operator}), where the {found.wrong} is not what "
        "TOSA's reference model computes"
    )


def _head(report: AccuracyReport) -> Iterator[str]:
    where = "this machine" if report.board == "host" else f"board {report.board}"
    stopped = f" (stopped, of {report.given})" if report.samples < report.given else ""
    yield (
        f"{report.model} against {report.reference}, {counted(report.samples, 'sample')}{stopped}; "
        f"our integers on {where}, the rest by {report.runtime}"
    )
    rows = [
        (
            f"output {each.name}",
            f"{_MIDDLES[report.middle]} {each.fake.sqnr_db:.1f} dB",
            f"our integers {each.integers.sqnr_db:.1f} dB, cosine {each.integers.cosine:.5f}, "
            f"max error {each.integers.max_error:.4g}",
        )
        for each in report.outputs
    ]
    if (value := report.metric) is not None:
        rows.append(
            (
                f"{value.name} {value.source:.4g}",
                f"{_MIDDLES[report.middle]} {value.fake:.4g}",
                f"our integers {value.integers:.4g}",
            )
        )
    yield from columns(rows)


def _columns(report: AccuracyReport) -> tuple[str, ...]:
    return ("layer", "operator", "own", report.middle, "integers", "saturated", "zeros", "max error")


def _row(layer: LayerAccuracy) -> tuple[str, ...]:
    return (
        clipped(layer.title, _NAME),
        layer.operator,
        *(f"{each.sqnr_db:.1f}" for each in (layer.own, layer.fake, layer.integers)),
        f"{100 * layer.saturated:.2f} %",
        f"{100 * layer.zeros:.1f} %",
        f"{layer.integers.max_error:.3g}",
    )


def _uncovered(report: AccuracyReport, *, whole: bool) -> list[str]:
    if not report.uncovered:
        return []
    names = report.uncovered if whole else report.uncovered[:_TOP]
    more = "" if len(names) == len(report.uncovered) else f" and {len(report.uncovered) - len(names)} more"
    said = f"Not compared, for nothing in the quantised model stands for it: {', '.join(names)}{more}"
    return ["", *textwrap.wrap(said, _WIDTH, break_long_words=False)]


def comma_separated(report: AccuracyReport) -> str:
    """Return one line a layer, in execution order, below a line of column names."""
    return lines_of([_flat(layer) for layer in report.layers])


def _flat(layer: LayerAccuracy) -> dict[str, object]:
    links = {"own": layer.own, "fake": layer.fake, "integers": layer.integers, "rounding": layer.rounding}
    row = layer.model_dump(exclude=set(links) | {"nodes", "causes", "values", "differences"})
    row["nodes"] = " ".join(layer.nodes)
    for link, errors in links.items():
        row |= {f"{link}_{field}": getattr(errors, field) for field in Errors.model_fields}
    return row | {"causes": "; ".join(layer.causes)}


def html(report: AccuracyReport) -> str:
    """Return one page, which needs no network: the layers to blame, and a bar a link of the chain for every layer."""
    title = escape(f"{report.model} against {report.reference}")
    head = "".join(f"<p>{escape(line)}</p>" for line in _head(report))
    causes = "".join(
        f"<li><b>{escape(layer.title)}</b>: {escape(layer.because())}</li>" for layer in report.to_blame()
    )
    told = f"<ul>{causes}</ul>" if causes else f"<p>{escape(blame(report)[0])}</p>"
    cells = "".join(f"<th>{name}</th>" for name in (*_columns(report), *_CHARTS))
    rows = "".join(map(_html_row, report.layers))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1>{head}{_html_mixed(report)}{_html_npu(report)}<h2>To blame</h2>{told}"
        f"<h2>Layers, in execution order</h2><table><tr>{cells}</tr>{rows}</table>"
        f"<p>{escape(_note(report))}</p><p>{escape(_CHARTS_NOTE)}</p></html>\n"
    )


def _html_mixed(report: AccuracyReport) -> str:
    return "" if report.mixed is None else _lines("Layers in int16 and float", mixed_precision(report.mixed))


def _html_npu(report: AccuracyReport) -> str:
    return "" if report.npu is None else _lines("NPU", npu_link(report.npu))


def _lines(title: str, lines: Iterable[str]) -> str:
    return "<h2>{}</h2><pre>{}</pre>".format(title, "\n".join(map(escape, lines)))


_CHARTS = ("values", "errors")
_CHARTS_NOTE = (
    "Histograms count the elements of all samples; heights are logarithmic. Values: filled, the float model's; the "
    "line, our integers'. Errors: filled, the layer's own; the line, our integers'."
)
_CHART_WIDTH, _CHART_HEIGHT = 128, 28

_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em;color:#222}table{border-collapse:collapse}"
    "td,th{padding:2px 8px;text-align:left;border-bottom:1px solid #ddd}tr.blamed{background:#fde8e4}"
    "td.db{min-width:9em}td.db div{background:#9ec5e8;white-space:nowrap}"
    "svg{display:block}svg .filled{fill:#c8c8c8}svg .line{fill:none;stroke:#1f6fb2}"
)


def _html_row(layer: LayerAccuracy) -> str:
    name, operator, *figures = _row(layer)
    bars = (layer.own, layer.fake, layer.integers)
    cells = [f"<td>{escape(layer.title)}</td><td>{escape(operator)}</td>"]
    cells += [_bar(each) for each in bars]
    cells += [f"<td>{escape(figure)}</td>" for figure in figures[len(bars) :]]
    values, errors = layer.values, layer.differences
    cells.append("<td></td>" if values is None else _chart(values, values.source, values.integers))
    cells.append("<td></td>" if errors is None else _chart(errors, errors.own, errors.integers))
    return f'<tr{_blamed(layer)} title="{escape(", ".join(layer.nodes) or name)}">{"".join(cells)}</tr>'


def _blamed(layer: LayerAccuracy) -> str:
    return ' class="blamed"' if layer.is_to_blame else ""


def _bar(errors: Errors) -> str:
    width = max(0.0, min(errors.sqnr_db / _BAR_DB, 1.0))
    return f'<td class="db"><div style="width:{100 * width:.0f}%">{errors.sqnr_db:.1f} dB</div></td>'


def _chart(bins: ValueHistogram | ErrorHistogram, filled: Sequence[int], line: Sequence[int]) -> str:
    """Return a cell with two histograms over the same bins, as inline SVG."""
    most = math.log1p(max((*filled, *line), default=0)) or 1.0
    step = _CHART_WIDTH / max(len(filled), 1)

    def outline(counts: Sequence[int]) -> str:
        heights = [_CHART_HEIGHT * (1 - math.log1p(count) / most) for count in counts]
        tops = "".join(f"V{height:.1f}H{(i + 1) * step:.1f}" for i, height in enumerate(heights))
        return f"M0 {_CHART_HEIGHT}{tops}V{_CHART_HEIGHT}"

    said = f"{bins.start:.4g} to {bins.start + len(filled) * bins.width:.4g}, {len(filled)} bins of {bins.width:.4g}"
    return (
        f'<td><svg width="{_CHART_WIDTH}" height="{_CHART_HEIGHT}" role="img"><title>{said}</title>'
        f'<path class="filled" d="{outline(filled)}"/><path class="line" d="{outline(line)}"/></svg></td>'
    )
