# SPDX-License-Identifier: Apache-2.0
"""Prices of NPUs as a table of text, as CSV, and as one HTML file."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from arm_ext.common.text import columns, comma_separated, wrapped
from arm_ext.report.advice.npu.record import NpuAdvice, NpuPrice, Price
from arm_ext.report.html.embed import embedded

_HEAD = (
    *("system", "memory mode", "MHz", "regions", "MAC %", "NPU cycles", "CPU cycles"),
    *("hand-over", "SRAM", "us", "saves", ""),
)
_ALIGN = "<<>>>>>>>>>"
_KIB = 1024


def text(advice: NpuAdvice) -> str:
    """Return the table: the CPU only, a row for each configuration, and the fastest of each family.

    Memory modes with equal figures share a row, as do all configurations of an accelerator with which nothing gains.
    """
    groups = list(_merged(advice.prices))
    (head, *lines) = columns([_HEAD, *(_cells(found) for _, found in groups)], _ALIGN)
    table = []
    for (accelerator, _), line in zip(groups, lines, strict=True):
        if accelerator not in table:
            table.append(accelerator)
        table.append(f"  {line}")
    parts = [
        "\n".join([f"{advice.model} for {_target(advice)}, {advice.macs:,} MAC", *_cpu(advice)]),
        "\n".join([f"  {head}", *table]),
        "\n".join(_summary(advice, groups)),
        "\n".join(wrapped("", advice.note)),
    ]
    return "\n\n".join(parts)


def _target(advice: NpuAdvice) -> str:
    return advice.target if advice.core == advice.target else f"{advice.target} ({advice.core})"


def _cpu(advice: NpuAdvice) -> list[str]:
    clocks = dict.fromkeys((each.family, each.cpu_mhz) for each in advice.prices)
    rows = [
        (f"{advice.cpu_cycles / mhz:,.1f} us", f"at {mhz:g} MHz, beside an {family}")
        for family, mhz in clocks
    ]
    return [
        f"CPU alone: {advice.cpu_cycles:,} estimated cycles",
        *(f"  {line}" for line in columns(rows, ">")),
    ]


def _merged(prices: Sequence[NpuPrice]) -> Iterator[tuple[str, list[NpuPrice]]]:
    """Yield each row: an accelerator, and those of its configurations that have equal figures."""
    for _, own in groupby(prices, key=lambda each: each.accelerator):
        groups: dict[tuple[str, ...], list[NpuPrice]] = {}
        for each in own:
            gains = each.price is None or each.price.regions
            key = (each.system_config if gains else "", *_figures(each))
            groups.setdefault(key, []).append(each)
        for found in groups.values():
            yield f"{found[0].accelerator} ({found[0].macs_per_cycle} MAC a cycle)", found


def _cells(same: Sequence[NpuPrice]) -> tuple[str, ...]:
    first, more = same[0], len(same) - 1
    if first.price is not None and not first.price.regions:
        return (f"no gain in any of {len(same)}", "", "", *_figures(first))
    return (
        first.system_config.partition("_")[2].partition("_")[2] or first.system_config,
        first.memory_mode + (f" +{more}" if more else ""),
        f"{first.npu_mhz:g}",
        *_figures(first),
    )


def _figures(each: NpuPrice) -> tuple[str, ...]:
    price = each.price
    if price is None:
        return (*["-"] * 8, each.note)
    return (
        str(price.regions),
        f"{100 * price.mac_share:.1f}",
        f"{price.npu_cycles:,}",
        f"{price.cpu_cycles:,}",
        f"{price.handover_us:,.1f}",
        f"{price.sram_bytes / _KIB:,.1f}",
        f"{price.us:,.1f}",
        f"{100 * price.gain:.1f} %",
        "",
    )


def _summary(advice: NpuAdvice, groups: Sequence[tuple[str, list[NpuPrice]]]) -> Iterator[str]:
    yield "Systems are Vela's, without the Ethos_U55_ and the like before them; hand-overs in us, SRAM in KiB."
    if any(len(found) > 1 and found[0].price and found[0].price.regions for _, found in groups):
        yield "+N: N further memory modes have the same figures."
    left = sum(each.price is None for each in advice.prices)
    if left:
        yield f"{left} of {len(advice.prices)} configurations have no price; their rows say why."
    fastest = advice.fastest()
    if not fastest:
        yield "No region runs faster on any of these: the hand-over costs too much, or constraints forbid it."
    for each in fastest:
        yield from _fastest(each, f"fastest {each.family}{' of these with a price' if left else ''}")


def _fastest(each: NpuPrice, begin: str) -> list[str]:
    assert each.price is not None
    kept = f"Stays on the CPU: {each.price.kept}." if each.price.kept else "Nothing stays on the CPU."
    return [
        f"{begin}: {each.price.us:,.1f} us, {100 * each.price.gain:.1f} % less than the CPU alone",
        f"  --npu {each.accelerator} --system-config {each.system_config} --memory-mode {each.memory_mode}",
        *wrapped("  ", kept),
    ]


def csv(advice: NpuAdvice) -> str:
    """Return one line per configuration after a line with the names of columns."""
    return comma_separated([_flat(each) for each in advice.prices])


def _flat(each: NpuPrice) -> dict[str, Any]:
    row: dict[str, Any] = each.model_dump(exclude={"price"})
    price = dict.fromkeys(Price.model_fields) if each.price is None else each.price.model_dump()
    memories = " ".join(f"{name}={size}" for name, size in (price.pop("memories") or {}).items())
    return row | price | {"memories": memories}


def html(advice: NpuAdvice) -> str:
    """Return the page: time against SRAM, and the table."""
    return embedded(__package__, {"ADVICE": advice})
