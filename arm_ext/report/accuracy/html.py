# SPDX-License-Identifier: Apache-2.0
"""An accuracy report as one HTML file that needs no network and no server."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from arm_ext.common.text import told_apart
from arm_ext.report.accuracy.record import (
    GOOD_DB,
    LOW_DB,
    AccuracyReport,
    ErrorHistogram,
    LayerAccuracy,
    MixedPrecision,
    NpuLink,
    ValueHistogram,
)
from arm_ext.report.accuracy.views import (
    MIDDLES,
    beyond_calibration,
    blame,
    decibels,
    described,
    not_compared,
    note,
    npu_sentences,
    precision_notes,
    precision_options,
    precision_rows,
    precision_title,
    pruned,
    unmeasured,
    where_lost,
)
from arm_ext.report.html.embed import page_style

_BAR_DB = 60.0
"""Decibels of a bar that is as wide as its cell."""

_CHARTS_NOTE = (
    "Histograms count the elements of all samples; heights are logarithmic. Values: filled, the float model's; the "
    "line, our integers'. Errors: filled, the layer's own; the line, our integers'."
)
_CHART_WIDTH, _CHART_HEIGHT = 104, 28

_STYLE = """
main h2 { margin-top: 20px; }
tbody tr { cursor: auto; }
tr.blamed { background: color-mix(in srgb, var(--worse) 14%, transparent); }
td.db { min-width: 5em; }
.layers td, .layers th { padding-left: 4px; padding-right: 4px; }
.layers td.name { min-width: 10em; white-space: normal; overflow-wrap: anywhere; }
td.db div, .chip { background: rgba(var(--heat), 0.35); }
td.db.good div, .chip.good { background: color-mix(in srgb, var(--better) 30%, transparent); }
td.db.low div, .chip.low { background: color-mix(in srgb, var(--worse) 40%, transparent); }
.chip { display: inline-block; padding: 0 8px; margin-right: 8px; }
li { margin: 4px 0; overflow-wrap: anywhere; }
svg .filled { fill: color-mix(in srgb, var(--faint) 45%, transparent); }
svg .line { fill: none; stroke: var(--accent); }
.outputs { width: auto; }
@media (max-width: 1000px) { .wide { overflow-x: auto; } }
.choices td:last-child { white-space: normal; overflow-wrap: anywhere; min-width: 10em; padding-block: 3px; }
tr.chosen { background: rgba(var(--heat), 0.16); font-weight: 600; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


_SORT = """
for (const head of document.querySelectorAll(".layers th")) {
  const button = document.createElement("button");
  button.textContent = head.textContent;
  button.title = "Sort by " + head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0], rows = [...body.rows];
    const descends = head.getAttribute("aria-sort") === "ascending";
    const key = (row) => row.cells[head.cellIndex].dataset.key ?? row.cells[head.cellIndex].textContent;
    const order = (one, other) => (isNaN(one) || isNaN(other) ? one.localeCompare(other) : one - other);
    rows.sort((one, other) => (descends ? -1 : 1) * order(key(one), key(other)));
    body.append(...rows);
    for (const each of head.parentElement.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descends ? "descending" : "ascending");
  });
}
"""
"""Script of the page: a click on a column's head sorts the layers by it, a second one the other way round."""


def html(report: AccuracyReport) -> str:
    """Return the page: the outputs, the layers to blame, and for every layer one bar per link of the chain."""
    title = escape(f"{report.model} against {report.reference}")
    found = report.to_blame()
    causes = "".join(f"<li><b>{escape(layer.title)}</b>: {escape(layer.because())}</li>" for layer in found)
    told = (
        f"<ul>{causes}</ul>{_paragraphs(beyond_calibration(report))}" if found else _paragraphs(blame(report))
    )
    mixed, npu = report.mixed, report.npu
    body = [
        _outputs(report),
        _paragraphs(unmeasured(report)),
        _paragraphs(where_lost(report)),
        f"<h2>To blame</h2>{told}",
        _paragraphs(pruned(report)),
        "" if mixed is None else _mixed(mixed),
        "" if npu is None else _npu(npu),
        _layers(report),
        *(f'<p class="hint">{escape(said)}</p>' for said in (note(report), _CHARTS_NOTE)),
        _paragraphs(not_compared(report, most=None)),
    ]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{page_style()}{_STYLE}</style><header><h1>{title}</h1><p>{escape(described(report))}</p></header>"
        f"<main>{''.join(body)}</main><script>{_SORT}</script></html>\n"
    )


def _outputs(report: AccuracyReport) -> str:
    """Return a table of the outputs, with the metric below them."""
    middle = MIDDLES[report.middle]
    rows: list[tuple[str, ...]] = [
        (
            f"output {each.name}",
            "",
            decibels(each.fake.sqnr_db),
            decibels(each.integers.sqnr_db),
            f"{each.integers.cosine:.5f}",
            f"{each.integers.max_error:.4g}",
        )
        for each in report.outputs
    ]
    if (value := report.metric) is not None:
        rows.append((f"metric {value.name}", *told_apart((value.source, value.fake, value.integers)), "", ""))
    head = ("", "float model", middle, "our integers", "cosine", "max error")
    return _table(head, (f"<tr>{_cells(row)}</tr>" for row in rows), "outputs")


def _layers(report: AccuracyReport) -> str:
    read = report.has_readers
    links = ("own", *(("read",) if read else ()), report.middle, "integers")
    figures = ("cosine", "mean error", "max error", "saturated", "zeros", "values", "errors")
    rows = (_layer(each, read=read) for each in report.layers)
    legend = (
        f'<p><span class="chip good">{GOOD_DB:g} dB and more: good</span>'
        f'<span class="chip">{LOW_DB:g} to {GOOD_DB:g} dB</span>'
        f'<span class="chip low">under {LOW_DB:g} dB: to blame, if it is the layer\'s own error</span></p>'
    )
    table = _table(("layer", "operator", *links, *figures), rows, "layers")
    return f"<h2>Layers, in execution order; a click on a column sorts by it</h2>{legend}{table}"


def _layer(layer: LayerAccuracy, *, read: bool) -> str:
    blamed = ' class="blamed"' if layer.is_to_blame else ""
    values, differences, errors = layer.values, layer.differences, layer.integers
    figures = (
        (f"{errors.cosine:.5f}", errors.cosine),
        (f"{errors.mean_error:.3g}", errors.mean_error),
        (f"{errors.max_error:.3g}", errors.max_error),
        (f"{100 * layer.saturated:.2f} %", layer.saturated),
        (f"{100 * layer.zeros:.1f} %", layer.zeros),
    )
    cells = [
        f'<td class="name">{escape(layer.title)}</td><td>{escape(layer.operator)}</td>',
        *map(_bar, (layer.own.sqnr_db, *([layer.read_db] if read else []))),
        *map(_bar, (layer.fake.sqnr_db, layer.integers.sqnr_db)),
        *(f'<td data-key="{key!r}">{escape(text)}</td>' for text, key in figures),
        "<td></td>" if values is None else _chart(values, values.source, values.integers),
        "<td></td>" if differences is None else _chart(differences, differences.own, differences.integers),
    ]
    nodes = escape(", ".join(layer.nodes) or layer.title)
    return f'<tr{blamed} title="{nodes}">{"".join(cells)}</tr>'


def _table(head: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cells(values: Iterable[str]) -> str:
    return "".join(f"<td>{escape(value)}</td>" for value in values)


def _paragraphs(lines: Sequence[str]) -> str:
    said = " ".join(line.strip() for line in lines if line)
    return f"<p>{escape(said)}</p>" if said else ""


def _mixed(mixed: MixedPrecision) -> str:
    """Return an HTML table of the tried choices of layers in int16 and float, and options for the chosen one."""
    head, *rows = precision_rows(mixed)
    places = []
    for choice, row in zip(mixed.choices, rows, strict=True):
        marked = ' class="chosen"' if choice.chosen else ""
        places.append(f"<tr{marked}>{_cells(row[1:])}</tr>")
    options = "\n".join(map(escape, precision_options(mixed)))
    return (
        f"<h2>Layers in int16 and float</h2><p>{escape(precision_title(mixed))}.</p>"
        f"{_table(head[1:], places, 'choices')}"
        f"{''.join(f'<p>{escape(said)}</p>' for said in precision_notes(mixed))}"
        f"{f'<p>By hand, with <code>quantize</code>:</p><pre>{options}</pre>' if options else ''}"
    )


def _npu(link: NpuLink) -> str:
    title, *regions = npu_sentences(link)
    rows = "".join(f"<li>{escape(said)}</li>" for said in regions)
    return f"<h2>NPU</h2><p>{escape(title)}</p>{f'<ul>{rows}</ul>' if rows else ''}"


def _bar(sqnr_db: float | None) -> str:
    if sqnr_db is None:
        return '<td class="db" data-key="-1000"></td>'
    kind = " good" if sqnr_db >= GOOD_DB else " low" if sqnr_db < LOW_DB else ""
    width = max(0.0, min(sqnr_db / _BAR_DB, 1.0))
    bar = f'<div style="width:{100 * width:.0f}%">{decibels(sqnr_db)}</div>'
    return f'<td class="db{kind}" data-key="{sqnr_db:.3f}">{bar}</td>'


def _chart(bins: ValueHistogram | ErrorHistogram, filled: Sequence[int], line: Sequence[int]) -> str:
    """Return a table cell with two histograms over the same bins, as inline SVG."""
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
