# SPDX-License-Identifier: Apache-2.0
"""A profile as a text table, as CSV, and as a trace for Perfetto and Chrome's tracing."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from arm_ext.common.text import columns, wrapped
from arm_ext.common.text import comma_separated as lines_of
from arm_ext.measure.call_costs import Bound
from arm_ext.report.profile.record import ProfiledCall, ProfileReport

_TOP = 10
_ALIGN = "><<<>>>"
_NAME = 40
"""Characters of a layer's name in the table."""


def text(profile: ProfileReport, *, whole: bool = False) -> str:
    """Return the totals, the costliest calls, and the bottlenecks of the model.

    Args:
        profile: The report to show.
        whole: Whether to list all calls, in execution order, instead of the ten costliest.
    """
    found = list(profile.calls) if whole else profile.costliest()[:_TOP]
    counted = profile.kind == "counts"
    head = ("#", "layer", "output", "kernel", "cycles" if counted else "us", "share")
    last = ("of its limit", "bound by") if counted else ("spread",)
    on_threads = (f"on {profile.threads} threads",) * (profile.threads > 1)
    rows = [(*head, *on_threads, *last), *(_row(call, profile.threads) for call in found)]
    title = (
        "all calls, in execution order"
        if whole
        else f"the {len(found)} costliest of {len(profile.calls)} calls"
    )
    covered = sum(call.share for call in found)
    return "\n".join(
        [
            *_totals(profile),
            "",
            f"{title} ({_percent(covered)} of the whole){', cycles with caches' if counted else ''}:",
            *columns(rows, _ALIGN + ">" * len(on_threads)),
            "",
            *([_bounds(profile), ""] if counted else []),
            *_npu(profile),
            *wrapped("", profile.note),
        ]
    )


def _totals(profile: ProfileReport) -> list[str]:
    if profile.kind == "counts":
        cycles = f"{profile.cycles_with_caches:,} cycles with caches"
        whole = f"{cycles} estimated for {profile.core}; {profile.instructions:,} instructions"
    else:
        whole = f"{profile.median_us:,.1f} us, the median of {profile.runs} inferences, on {profile.core}"
    broken = profile.broken_off
    return [
        f"{profile.model} for {profile.target}, on board {profile.board}",
        *(wrapped("broken off     ", broken.text()) if broken else []),
        f"{'this part' if broken else 'one inference':<13}  {whole}",
        *(
            wrapped(f"{f'{profile.threads} threads':<13}  ", _gain(profile))
            if profile.critical_cycles
            else []
        ),
        f"between calls  {_percent(profile.around.share)}: the program around kernels, and the runtime",
        *(line for name, value in profile.conditions.items() for line in wrapped(f"{name:<13}  ", value)),
    ]


def _gain(profile: ProfileReport) -> str:
    """Return what several threads gain, and the share of the cycles that stay on one thread."""
    whole, critical = profile.cycles_with_caches or 0, profile.critical_cycles or 1
    alone = sum(call.share for call in profile.calls if call.counts is not None and call.counts.busiest == 1)
    return (
        f"{critical:,} cycles on the critical path ({whole / critical:.2f} x), without what it takes to wake threads; "
        f"{_percent(alone + profile.around.share)} of the cycles stay on one thread"
    )


def _npu(profile: ProfileReport) -> list[str]:
    """Return Vela's estimates of NPU regions, and where the regions were computed in this run."""
    if not profile.npu_regions:
        return []
    head = ("region", "nodes", "NPU cycles", "us there", "us on the CPU")
    rows = [
        (str(r.index), f"{len(r.sources)}", f"{r.cycles:,}", f"{r.us:,.1f}", f"{r.cpu_us:,.1f}")
        for r in profile.npu_regions
    ]
    found = [] if profile.npu is None else [profile.npu.text()]
    return [
        "regions for the NPU, as Vela and the compiler estimate them:",
        *columns([head, *rows]),
        *found,
        "",
    ]


def _row(call: ProfiledCall, threads: int) -> tuple[str, ...]:
    name = call.anchor if len(call.anchor) <= _NAME else f"…{call.anchor[1 - _NAME :]}"
    cells = (str(call.index), name, call.output, call.kernel)
    if call.counts is not None:
        counts = call.counts
        limit = _percent(counts.limit_cycles / counts.cycles_with_caches if counts.cycles_with_caches else 1)
        on_threads = (f"{counts.critical_cycles:,}",) * (threads > 1)
        cycles = f"{counts.cycles_with_caches:,}"
        return (*cells, cycles, _percent(call.share), *on_threads, limit, _takers(counts.parts))
    assert call.times is not None
    return (*cells, f"{call.times.median_us:,.2f}", _percent(call.share), _percent(call.times.spread))


def _takers(parts: Mapping[Bound, int]) -> str:
    """Return the two largest causes of a call's cycles, with their shares."""
    total = sum(parts.values()) or 1
    return ", ".join(
        f"{name} {100 * cycles / total:.0f} %" for name, cycles in [*parts.items()][:2] if cycles
    )


def _bounds(profile: ProfileReport) -> str:
    """Return the share of each cause in the cycles of all calls."""
    cycles: Counter[Bound] = Counter()
    for call in profile.calls:
        cycles.update(call.counts.parts if call.counts is not None else {})
    total = cycles.total() or 1
    shares = (f"{name} {_percent(part / total)}" for name, part in cycles.most_common() if part)
    return "cycles of all calls: " + ", ".join(shares)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def comma_separated(profile: ProfileReport) -> str:
    """Return one line per call, in execution order, after a line with the names of columns."""
    return lines_of([_flat(call) for call in profile.calls])


def _flat(call: ProfiledCall) -> dict[str, Any]:
    row: dict[str, Any] = call.model_dump(
        exclude={"sources", "operators", "reads", "counts", "times", "why", "alternatives"}
    )
    row |= {"sources": " ".join(call.sources), "operators": " ".join(call.operators)}
    if call.counts is not None:
        row |= call.counts.model_dump(exclude={"classes", "hot"})
    if call.times is not None:
        row |= call.times.model_dump(exclude={"counters"}) | call.times.counters
    return row


def trace(profile: ProfileReport) -> str:
    """Return the calls in sequence in the Trace Event Format; estimated cycles are written as microseconds."""
    events: list[dict[str, Any]] = [_named(0, "CPU"), *([_named(1, "NPU")] if profile.npu_regions else [])]
    between = (profile.around.cycles_with_caches or profile.around.us or 0) / max(1, len(profile.calls))
    at, begins = 0.0, {}
    for call in profile.calls:
        counts, times = call.counts, call.times
        length = counts.cycles_with_caches if counts else times.median_us if times else 0.0
        begins.update(dict.fromkeys(call.sources, at))
        details = {"kernel": call.kernel, "output": call.output, "macs": call.macs}
        events.append(
            _event(0, call.anchor, at, length, details | ({"bound": counts.bound} if counts else {}))
        )
        at += length + between
    for region in profile.npu_regions:
        begin = min((begins[name] for name in region.sources if name in begins), default=0.0)
        length = region.cpu_clock_cycles if profile.kind == "counts" else region.us
        events.append(_event(1, f"region {region.index}", begin, length, {"cycles": region.cycles}))
    return json.dumps({"traceEvents": events, "otherData": {"note": profile.note}}) + "\n"


def _named(thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 1, "tid": thread, "name": "thread_name", "args": {"name": name}}


def _event(thread: int, name: str, begin: float, length: float, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "pid": 1, "tid": thread, "name": name, "ts": begin, "dur": length, "args": args}
