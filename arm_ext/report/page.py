# SPDX-License-Identifier: Apache-2.0
"""Pages about a compiled model, at most 120 columns wide.

the package       target, size, memory, numerics, MACs by kernel
the calls         a row per kernel call; a layer of the NPU is a row, too
what would help   changes whose saving is bounded by the report's figures alone
worth knowing     what is left in float, what only moves data, what runs in scalar loops or on the CPU instead of
                  the NPU, each with its reason, the costliest first

`render` writes report.txt, of 60 lines at most, with the costliest calls; `render_all` what `arm-ext report --all`
prints, with all calls in execution order and all sections.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from arm_ext.common.text import PAGE, clipped, counted, millions, wrapped
from arm_ext.package.manifest import Calibration
from arm_ext.report.calls import CHECK, CallRow, KernelCall, SourceNodes
from arm_ext.report.npu import DRIVEN, UNDRIVEN, NpuRegion, NpuReport, NpuSparsity
from arm_ext.report.report import CompileReport
from schedules.cores import MICROCONTROLLERS
from schedules.diagnostic import Diagnostic
from schedules.generic.families import GENERIC

MOST_LINES = 60
"""Maximum length of report.txt."""

MOST = 10
"""Maximum number of calls in report.txt, and of rows in a section of the whole page; further ones are counted."""
_WORTH = 0.005
"""Share of the time from which a finding is worth a line of report.txt."""
_FEWER = (3, 2, 1)
"""Rows per section of report.txt: as many as fit."""

_SLOWEST = 3
_NAME = 44  # maximum columns of a source node's name before a reason
_CLASSES = 12
"""Most labels of classes that are listed; the manifest has all."""

_VECTOR_FEATURES = ("neon", "dotprod", "i8mm", "fullfp16", "bf16", "sve", "sve2")

_ESTIMATES = (
    "kcyc is thousands of cycles with caches on one core, estimated without running the code; `arm-ext profile` has "
    "the same of the code as it runs."
)
_ESTIMATED_INSTRUCTIONS = (
    "kcyc is thousands of instructions, estimated without running the code: a Cortex-M takes a cycle or more for each. "
    "`arm-ext bench` counts them."
)
_COLUMNS = ("layer", "output", "kernel", "kMAC", "kcyc", "time", "KB")
_ATEN = re.compile(r"aten\.(\w+)\.\w+")
"""An operator of PyTorch: namespace, name, overload."""


_FLOAT = "Left in float although the model is quantised"
_GENERIC = "In scalar loops, without vector code"
_MOVED = "Only copied or rearranged"
_NOTHING = {
    _FLOAT: "is left in float but conversions at inputs and outputs",
    _GENERIC: "runs in scalar loops",
    _MOVED: "is only copied or rearranged",
}

_ALL = "Every layer in execution order, and more findings: `arm-ext report PACKAGE --all`. "
_FURTHER = (
    "One layer: `arm-ext explain MODEL --node LAYER`. What helps, built and measured: `arm-ext advise MODEL --target "
    "TARGET`. What each layer executes, with caches: `arm-ext profile PACKAGE`. Everything: report.json."
)

_FURTHER_BARE = (
    "Instructions by kernel, on an emulated board: `arm-ext bench LIBRARY`. Everything: report.json."
)

_HELPS = "What would help, by these estimates at most"
_INT8_SAVES, _FP16_SAVES = 3 / 4, 1 / 2
"""Share of a float product's cycles that narrower elements can save: four, and two, times as many in a vector."""


_BLOCK_PRODUCT = "MatMulNBits"
"""onnxruntime's product by weights in blocks, which says itself how its data is computed with."""


def render(report: CompileReport) -> str:
    """Return report.txt."""
    page = _Page(report)
    head = [*page.head(), "", *page.costliest()]
    rest = next(
        (rest for most in _FEWER if len(head) + len(rest := [*page.worth_knowing(most)]) <= MOST_LINES),
        [*page.worth_knowing(1)],
    )
    return _text([*head, *rest])


def render_all(report: CompileReport) -> str:
    """Return the page with every call and every section."""
    page = _Page(report)
    return _text([*page.head(whole=True), "", *page.calls(), *page.worth_knowing()])


def _text(lines: Iterable[str]) -> str:
    return "\n".join(line.rstrip() for line in lines) + "\n"


@dataclass(frozen=True)
class _Finding:
    """A row of a section: its share of the estimated time, its layer, and a text."""

    share: float
    layer: str
    said: str
    count: int = 1


@dataclass
class _Page:
    """The sections of report.txt for one report.

    Attributes:
        report: The report that is shown.
        kernels: Symbol → kernel of the report.
        nodes: Name → source node of the report.
        on_cpu: Calls that the CPU makes even on a machine with the NPU.
        total: Cost of all calls: cycles, or microseconds if an NPU computes a part.
    """

    report: CompileReport
    kernels: dict[str, KernelCall] = field(init=False)
    nodes: SourceNodes = field(init=False)
    on_cpu: list[CallRow] = field(init=False)
    total: float = field(init=False)

    def __post_init__(self) -> None:
        self.kernels = {kernel.symbol: kernel for kernel in self.report.kernels}
        self.nodes = self.report.source_nodes()
        self.on_cpu = [call for call in self.report.calls if self.report.region_of(call) is None]
        on_npu = sum(region.npu_us for region in self._regions())
        self.total = sum(map(self._cost, self.on_cpu)) + on_npu or 1.0

    # The package.

    def head(self, *, whole: bool = False) -> Iterator[str]:
        """Yield the name, warnings, and a summary of the package; with `whole`, also the slowest layers."""
        report = self.report
        yield f"{report.model} for {report.target}"
        for warning in report.warnings:
            yield from wrapped("WARNING: ", warning)
        facts = report.package
        if facts is not None:
            have = " ".join(name for name in _VECTOR_FEATURES if name in facts.features)
            yield from wrapped("  target    ", f"{report.target}{f': {have}' if have else ''}")
            if facts.level is not None:
                yield from wrapped("  level     ", self._levels(facts.level, facts.levels))
            memory = facts.memory
            yield f"  size      {facts.program} {facts.program_bytes:,} bytes, weights {memory.weight_bytes:,}"
            widest = memory.widest[0].sources if memory.widest else ()
            at = f", the peak at {clipped(self._anchor(widest), _NAME)}" if widest else ""
            yield f"  memory    {memory.peak_activation_bytes:,} bytes of activations{at}"
            if facts.state_bytes:
                yield f"  state     {facts.state_bytes:,} bytes that stay from step to step"
            if peaks := self._npu_memories():
                said = ", ".join(f"{size:,} bytes of {name}" for name, size in peaks.items())
                yield f"  npu       {said} at most, by Vela"
            for output, labels in facts.classes.items():
                named = ", ".join(labels[:_CLASSES]) + (", …" if len(labels) > _CLASSES else "")
                yield from wrapped(
                    "  classes   ", f"output '{output}' has {len(labels)} classes in this order: {named}"
                )
        yield from wrapped("  numerics  ", self._numerics())
        yield from wrapped("  MACs      ", self._macs())
        yield from wrapped("  kernels   ", self._kernels())
        if not self._is_bare():
            yield from wrapped("  threads   ", self._threads())
        yield from wrapped("  time      ", self._time() + (self._slowest() if whole else ""))
        if tuned := sum(bool(kernel.tuned) for kernel in report.kernels):
            ours = sum(bool(kernel.params) for kernel in report.kernels)
            yield f"  tuned     {tuned} of {ours} kernels by records of the database"
        if report.calibration is not None:
            yield from ("", *_distances(report.calibration))

    def _levels(self, level: str, levels: Sequence[str]) -> str:
        """Return the text that names this page's level of a family, and the files with the other levels' pages."""
        others = [each for each in levels if each != level]
        pages = ", ".join(
            "report.txt" if each == levels[-1] else f"levels/{each}/report.txt" for each in others
        )
        return f"{level}, which a CPU with its features runs; of others: {pages}"

    def _numerics(self) -> str:
        """Return the shares of time per numerics."""
        shares: dict[str, float] = defaultdict(float)
        for call in self.on_cpu:
            if call.kernel != CHECK:
                numerics = self.kernels[call.symbol].numerics
                name = _BOTH if "+" in numerics else _NUMERICS.get(numerics, numerics)
                shares[name] += self._share(call)
        facts = self.report.package
        if facts is not None and facts.precision != "fp32":
            shares = {name.replace("float", facts.precision): share for name, share in shares.items()}
        for region in self._regions():
            on_npu = "integers on the NPU"
            shares[on_npu] = shares.get(on_npu, 0.0) + region.npu_us / self.total
        said = ", ".join(f"{name} {_percent(share)}" for name, share in _greatest(shares))
        rounding = (
            f"; integers {_ROUNDING[facts.numerics]}" if facts is not None and "integers" in said else ""
        )
        return f"by time: {said or 'no arithmetic'}{rounding}"

    def _macs(self) -> str:
        """Return the share of MACs by kernel, as text."""
        macs: Counter[str] = Counter()
        for call in self.on_cpu:
            macs[call.kernel] += call.macs
        for region in self._regions():
            macs["NPU"] += region.macs
        whole = sum(macs.values()) or 1
        shares = ", ".join(f"{kernel} {_percent(n / whole)}" for kernel, n in macs.most_common() if n)
        return f"{self.report.macs / 1e6:.2f} M" + (f": {shares}" if shares else "")

    def _kernels(self) -> str:
        """Return the share of the time by kernel, as text."""
        times: dict[str, float] = defaultdict(float)
        for call in self.on_cpu:
            times[call.kernel] += self._share(call)
        for region in self._regions():
            times["NPU"] += region.npu_us / self.total
        return "by time: " + ", ".join(f"{kernel} {_percent(share)}" for kernel, share in _greatest(times))

    def _threads(self) -> str:
        """Return the share of the time that threads divide, and what takes the rest."""
        alone: dict[str, float] = defaultdict(float)
        for call in self.on_cpu:
            if not self.kernels[call.symbol].divided:
                alone[call.kernel] += self._share(call)
        rest = sum(alone.values())
        cpu = sum(map(self._share, self.on_cpu))
        said = ", ".join(
            f"{kernel} {_percent(share)}" for kernel, share in _greatest(alone) if share >= _WORTH
        )
        if rest >= cpu:
            return "every call is too short to be divided among threads"
        return f"{_percent(cpu - rest)} of the time is divided among threads" + (
            f"; alone: {said}" if said else ""
        )

    def _is_bare(self) -> bool:
        """Whether the target is a microcontroller, whose kernels are estimated in instructions."""
        return self.report.target in MICROCONTROLLERS

    def _estimates(self) -> str:
        return _ESTIMATED_INSTRUCTIONS if self._is_bare() else _ESTIMATES

    def _time(self) -> str:
        """Return the estimated cost of the complete model, as text."""
        npu, cycles = self.report.npu, sum(call.cycles_with_caches for call in self.on_cpu)
        unit = "instructions" if self._is_bare() else "cycles with caches on one core"
        said = f"{millions(cycles)} {unit}, estimated"
        if self.report.has_control_flow():
            said += ", each branch and one iteration of each loop"
        if self.report.time is not None:
            said = f"{self.report.time.text()}; {said}"
        if npu is not None and npu.regions:
            on_npu = sum(region.npu_us for region in npu.regions)
            said = (
                f"{on_npu:,.0f} us on the NPU at {npu.npu_mhz:g} MHz, {self.total - on_npu:,.0f} us on the CPU at "
                f"{npu.cpu_mhz:g} MHz: estimated by Vela and by the compiler, never measured here"
            )
        return said

    def _slowest(self) -> str:
        """Return the slowest layers, as text to append to the estimate."""
        npu = self.report.npu
        parts: dict[str, float] = defaultdict(float)
        for call in self.on_cpu:
            parts[call.anchor] += self._share(call)
        for region in self._regions():
            for layer in region.layers:
                parts[self._anchor(layer.sources)] += layer.cycles / npu.npu_mhz / self.total if npu else 0
        slowest = [f"{clipped(name, _NAME)} {_percent(n)}" for name, n in _greatest(parts)[:_SLOWEST]]
        return f"; slowest layers: {', '.join(slowest)}" if slowest else ""

    # The calls.

    def calls(self) -> Iterator[str]:
        """Yield the table of calls, in execution order."""
        yield from wrapped("", f"Layers in execution order. {self._estimates()}")
        rows: list[tuple[str, ...] | str] = [_COLUMNS]
        function = ""
        for region, group in groupby(self.report.calls, self.report.region_of):
            if region is not None:
                rows += self._region(region)
                continue
            for call in group:
                if call.function != function:
                    function = call.function
                    rows.append(f"in {function}, once:" if function else "then:")
                rows.append(self._call(call))
        yield from _table(rows, "<<<>>>>", flexible=0)
        yield from self._samples()

    def costliest(self) -> Iterator[str]:
        """Yield the table of the costliest calls, the costliest first, including layers on the NPU."""
        npu = self.report.npu
        mhz = npu.npu_mhz if npu else 1.0
        rows = [(self._share(call), self._call(call)) for call in self.on_cpu]
        for region in self._regions():
            layers = [layer for layer in region.layers if layer.cycles]
            cells = [row for row in self._region(region) if not isinstance(row, str)]
            rows += [(layer.cycles / mhz / self.total, row) for layer, row in zip(layers, cells, strict=True)]
        rows.sort(key=lambda row: -row[0])
        first, others = rows[:MOST], rows[MOST:]
        yield from wrapped(
            "", f"{'Costliest layers' if others else 'Layers, the costliest first'}. {self._estimates()}"
        )
        yield from _table([_COLUMNS, *(row for _, row in first)], "<<<>>>>", flexible=0)
        if others:
            yield f"and {len(others)} more rows, {_percent(sum(share for share, _ in others))} of the time"
        yield from self._samples()

    def _samples(self) -> Iterator[str]:
        facts = self.report.package
        if facts is not None and facts.samples > 1:
            yield "The rows are of one sample; the package repeats them for each."

    def _call(self, call: CallRow) -> tuple[str, ...]:
        also = "".join(f" +{name}" for name in (_ATEN.sub(r"\1", each) for each in call.operators))
        figures = (call.macs / 1e3, call.cycles_with_caches / 1e3, 100 * self._share(call), call.bytes / 1e3)
        macs, cycles, share, size = (f"{figure:,.1f}" for figure in figures)
        return (
            call.anchor + also,
            _short(call.output),
            call.kernel,
            macs if call.macs else "",
            cycles,
            share,
            size,
        )

    def _region(self, region: NpuRegion) -> Iterator[tuple[str, ...] | str]:
        npu = self.report.npu
        mhz = npu.npu_mhz if npu else 1.0
        yield (
            f"NPU region {region.index}, {region.npu_us:,.0f} us with its hand-over ({region.cpu_us:,.0f} us on the "
            "CPU); Vela's layers, kcyc in thousands of cycles of the NPU by its estimate:"
        )
        for layer in region.layers:
            if not layer.cycles:  # counted in the previous layer
                continue
            share = 100 * layer.cycles / mhz / self.total
            # Vela also counts table look-ups and pools as multiply-accumulates.
            products = any(self.nodes.macs.get(source) for source in layer.sources)
            macs = f"{layer.macs / 1e3:,.1f}" if layer.macs and products else ""
            name = self._anchor(layer.sources) if layer.sources else "(a copy of Vela's)"
            yield name, "", f"NPU {layer.operator}", macs, f"{layer.cycles / 1e3:,.1f}", f"{share:,.1f}", ""

    # Worth knowing.

    def worth_knowing(self, most: int | None = None) -> Iterator[str]:
        """Yield the sections that are not empty or that this model makes relevant.

        Args:
            most: Rows of each section of report.txt; None for all sections.
        """
        sections: dict[str, Callable[[], Iterable[_Finding]]] = {
            _HELPS: self._helps,
            _FLOAT: self._left_float,
            "Integer weights that became float": lambda: self._reasons(self.report.unpacked),
            "On the CPU instead of the NPU": self._not_on_npu,
            _GENERIC: self._generic,
            _MOVED: self._moved,
        }
        more: dict[str, Callable[[], Iterable[_Finding]]] = {
            "Where the NPU's regions end": self._borders,
            "Share of MACs saved by channels that are constant or that nothing reads": self._removed,
            "Constant channels that stay": lambda: self._reasons(self.report.kept_channels),
            "Kernels that declined layers, and why": self._nearly,
            "Next best kernels of the slowest layers": self._runners_up,
            "With tuned parameters": self._tuned,
        }
        sections |= {} if most else more
        npu = self.report.npu
        if npu is not None:
            yield from ("", *wrapped("", _configuration(npu)))
            for region in npu.regions:
                if refused := region.refused_by_linux:
                    said = f"Linux's driver does not take {refused}: there the CPU computes region {region.index}."
                    yield from wrapped("", said)
                if region.sparsity is not None:
                    yield from wrapped("", self._sparse(region, region.sparsity))
        found = {
            title: sorted(find(), key=lambda finding: -finding.share) for title, find in sections.items()
        }
        if nothing := [_NOTHING[title] for title in _NOTHING if not found.get(title) and self._may(title)]:
            yield from ("", *wrapped("", f"Nothing {', nothing '.join(nothing)}."))
        for title, findings in found.items():
            findings = findings if most is None else [each for each in findings if each.share >= _WORTH]
            if findings:
                count = sum(finding.count for finding in findings)
                yield from ("", f"{title} ({count}):", *_findings(findings, most or MOST))
        yield from (
            "",
            *wrapped("", f"{_ALL if most else ''}{_FURTHER_BARE if self._is_bare() else _FURTHER}"),
        )

    def _helps(self) -> Iterator[_Finding]:
        """Yield changes of the model or of options, with the maximum share of the time that each can save."""
        quantized = any(kernel.numerics in _NUMERICS for kernel in self.report.kernels)
        facts = self.report.package
        floats = [c for c in self.on_cpu if c.macs and self.kernels[c.symbol].numerics == "float"]
        widened = [c for c in floats if _BLOCK_PRODUCT in map(self.nodes.kinds.get, c.sources)]
        if widened:
            layer = _with_more(max(widened, key=self._share).anchor, len(widened) - 1)
            said = (
                f"accuracy_level 4 of {_BLOCK_PRODUCT}: data is int8 in blocks, and weights are not widened"
            )
            yield _Finding(_INT8_SAVES * sum(map(self._share, widened)), layer, said)
        products = [call for call in floats if call not in widened]
        if products and not quantized and facts is not None and facts.precision == "fp32":
            share, first = sum(map(self._share, products)), max(products, key=self._share)
            layer = _with_more(first.anchor, len(products) - 1)
            said = "int8, by `arm-ext quantize`: four times as many elements in a vector"
            yield _Finding(_INT8_SAVES * share, layer, said)
            if "fullfp16" in facts.features:
                said = "`--precision fp16`, without samples: twice as many elements in a vector"
                yield _Finding(_FP16_SAVES * share, layer, said)
        for left in self.report.left_float:
            calls = [c for c in self._calls_of(left.nodes) if "float" in self.kernels[c.symbol].numerics]
            if share := sum(map(self._share, calls)):
                said = f"quantise {left.operator}, too: {left.why()}"
                yield _Finding(_INT8_SAVES * share, self._anchor(left.nodes), said)
        ends = [c for c in self.on_cpu if c.kernel == "transpose" and not self._transposes(c)]
        if ends:
            said = "take or give channels last where the application can: no transposition is left"
            layer = _with_more(ends[0].anchor, len(ends) - 1)
            yield _Finding(sum(map(self._share, ends)), layer, said)

    def _sparse(self, region: NpuRegion, own: NpuSparsity) -> str:
        layers = ", ".join(source for source in own.sources if self.nodes.macs.get(source))
        taken = f"{own.commands} of {counted(own.convolutions, 'convolution')}"
        return (
            f"2:4 sparse weights in region {region.index}: {layers}. {taken} of the NPU run them in the sparse format: "
            f"{region.cycles / 1e3:,.1f} K cycles instead of {own.dense_cycles / 1e3:,.1f} K with dense weights, "
            "by Vela."
        )

    def _may(self, title: str) -> bool:
        """Whether an empty section with this title is shown for this model."""
        return title != _FLOAT or any(kernel.numerics in ("qdq", "tosa") for kernel in self.report.kernels)

    def _left_float(self) -> Iterator[_Finding]:
        for left in self.report.left_float:
            calls = [c for c in self._calls_of(left.nodes) if "float" in self.kernels[c.symbol].numerics]
            yield _Finding(
                sum(map(self._share, calls)), self._anchor(left.nodes), f"{left.operator}: {left.why()}"
            )

    def _reasons(self, diagnostics: Iterable[Diagnostic]) -> Iterator[_Finding]:
        """Yield one finding per diagnostic: the share of all calls of its nodes, and the reason."""
        for each in diagnostics:
            share = sum(map(self._share, self._calls_of(each.nodes)))
            yield _Finding(share, self._anchor(each.nodes), f"{each.operator}: {each.why()}")

    def _not_on_npu(self) -> Iterator[_Finding]:
        """Yield one finding per reason that keeps operators on the CPU; the text is that of the costliest operator."""
        reasons: dict[str, list[tuple[float, Diagnostic]]] = {}
        shares: dict[str, dict[int, float]] = {}
        for left in self.report.npu.rejections if self.report.npu else ():
            if not left.unfit:
                calls = {id(c): self._share(c) for c in self._calls_of(left.nodes)}
                reasons.setdefault(left.reason, []).append((sum(calls.values()), left))
                shares.setdefault(left.reason, {}).update(calls)
        for reason, kept in reasons.items():
            _, first = max(kept, key=lambda each: each[0])
            said = f"{first.operator}: {first.why()}"
            layer = _with_more(self._anchor(first.nodes), len(kept) - 1)
            yield _Finding(sum(shares[reason].values()), layer, said, len(kept))

    def _removed(self) -> Iterator[_Finding]:
        whole = self.report.macs + sum(each.macs for each in self.report.removed_channels) or 1
        for each in self.report.removed_channels:
            lost = f"{len(each.channels)} of {each.of}"
            if each.inputs:
                lost += f", and {len(each.inputs)} of {each.of_inputs} that it reads"
            said = f"{lost}: {each.macs / 1e3:,.1f} K MACs and {each.weight_bytes:,} bytes of weights less"
            yield _Finding(each.macs / whole, self._anchor(each.nodes), said)

    def _generic(self) -> Iterator[_Finding]:
        for call in self.on_cpu:
            kernel = self.kernels[call.symbol]
            if kernel.kernel == GENERIC:
                why = (
                    "; ".join(dict.fromkeys(f"not {a.asked}: {a.why()}" for a in kernel.rejected))
                    or kernel.reason
                )
                yield _Finding(self._share(call), call.anchor, why)

    def _moved(self) -> Iterator[_Finding]:
        kept = {name: left.reason for left in self.report.kept_layout for name in left.nodes}
        for call in self.on_cpu:
            if call.moves or call.kernel == "transpose":
                reasons = dict.fromkeys(kept[name] for name in call.sources if name in kept)
                what = _moved_by(call.symbol)
                said = f"{what}, {call.bytes / 1e3:,.1f} KB"
                if reasons:
                    said += f"; the model's layout is kept: {'; '.join(reasons)}"
                elif "transpose" in what and not self._transposes(call):
                    said += "; between the model's layout and channels last"
                yield _Finding(self._share(call), call.anchor, said)
        for left in self.report.kept_layout:
            calls = self._calls_of(left.nodes)
            if not any(call.moves for call in calls):
                said = f"{left.operator} keeps the model's layout: {left.reason}"
                yield _Finding(sum(map(self._share, calls)), self._anchor(left.nodes), said)

    def _tuned(self) -> Iterator[_Finding]:
        for call in self.on_cpu:
            if tuned := self.kernels[call.symbol].tuned:
                yield _Finding(self._share(call), call.anchor, f"{call.kernel} by {tuned}")

    def _borders(self) -> Iterator[_Finding]:
        """Yield the reasons why NPU regions end, except at operators that the CPU keeps."""
        kept = {left.why() for left in self.report.npu.rejections} if self.report.npu else set()
        for region in self._regions():
            for border in region.borders:
                if border.sources and border.reason not in kept:
                    way = "begins after" if border.way == "in" else "ends before"
                    said = f"region {region.index} {way} it: {border.reason}"
                    yield _Finding(0.0, self._anchor(border.sources), said)

    def _transposes(self, call: CallRow) -> bool:
        """Whether the model itself has a transpose at a call."""
        operators = {self.nodes.kinds.get(name, "").lower() for name in call.sources}
        return any(word in operator for operator in operators for word in ("transpose", "permute"))

    def _nearly(self) -> Iterator[_Finding]:
        """Yield one finding per kernel and reason for which the kernel declined calls of a workload that it is for."""
        found: dict[tuple[str, str], list[CallRow]] = {}
        for call in self.on_cpu:
            kernel = self.kernels[call.symbol]
            names: dict[str, list[str]] = {}
            for other in kernel.rejected if kernel.kernel != GENERIC else ():
                names.setdefault(other.why(), []).append(other.asked)
            for reason, declined in names.items():
                found.setdefault((", ".join(declined), reason), []).append(call)
        for (name, reason), calls in found.items():
            first = max(calls, key=lambda call: call.cycles_with_caches)
            more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
            share = sum(map(self._share, calls))
            yield _Finding(
                share, clipped(first.anchor, _NAME - len(more)) + more, f"{name}: {reason}", len(calls)
            )

    def _runners_up(self) -> Iterator[_Finding]:
        slowest = sorted(self.on_cpu, key=self._cost, reverse=True)[:MOST]
        for call in slowest:
            kernel = self.kernels[call.symbol]
            if other := next(iter(kernel.other_kernels), None):
                price = other.selection_cost / (kernel.selection_cost or 1)
                said = f"{other.kernel} at {price:.2f} times the selection cost of {kernel.kernel}"
                yield _Finding(self._share(call), call.anchor, said)

    # Figures.

    def _npu_memories(self) -> dict[str, int]:
        """Return the most bytes of each memory of the NPU's system that a region uses."""
        peaks: dict[str, int] = {}
        for use in (use for region in self._regions() for use in region.memories):
            peaks[use.name] = max(use.peak_bytes, peaks.get(use.name, 0))
        return peaks

    def _regions(self) -> Sequence[NpuRegion]:
        return self.report.npu.regions if self.report.npu else ()

    def _anchor(self, sources: Sequence[str]) -> str:
        return self.nodes.anchor(sources)

    def _cost(self, call: CallRow) -> float:
        """Return the cost of a call: cycles, or with an NPU region microseconds."""
        npu = self.report.npu
        cycles = call.cycles_with_caches
        return cycles / npu.cpu_mhz if npu is not None and npu.regions else cycles

    def _share(self, call: CallRow) -> float:
        return self._cost(call) / self.total

    def _calls_of(self, sources: Sequence[str]) -> list[CallRow]:
        nodes = set(sources)
        return [call for call in self.on_cpu if nodes & set(call.sources)]


_NUMERICS = {"qdq": "integers", "tosa": "integers", "integer": "integers"}
_BOTH = "integers and float"
_ROUNDING = {"qdq": "round as QDQ form defines", "tosa": "round as TOSA defines"}

_SHORT_TYPES = {"float": "f", "uint": "u", "int": "i"}


def _short(output: str) -> str:
    """Shorten the element type: "1x32x32x16 int8" becomes "1x32x32x16 i8"."""
    shape, _, dtype = output.partition(" ")
    for name, letter in _SHORT_TYPES.items():
        if dtype.startswith(name):
            return f"{shape} {letter}{dtype.removeprefix(name)}"
    return output


def _moved_by(symbol: str) -> str:
    """Return the operators in the name of fused loops: "fused_transpose_reshape2" → "transpose, reshape"."""
    words = symbol.removeprefix("fused_").rstrip("0123456789")
    names = ("strided_slice", "expand_dims", "broadcast_to", "scatter_nd", "gather_nd", "depth_to_space")
    for name in names:
        words = words.replace(name, name.replace("_", "-"))
    return ", ".join(word.rstrip("0123456789").replace("-", "_") for word in words.split("_"))


def _configuration(npu: NpuReport) -> str:
    regions = (DRIVEN if npu.linux_driver else UNDRIVEN) if npu.regions else ""
    return (
        f"{npu.accelerator}, Vela {npu.vela}, {npu.system_config}, {npu.memory_mode}; {npu.handover_us:g} us a "
        f"hand-over. All figures are estimates. {regions}"
    )


def _with_more(layer: str, more: int) -> str:
    said = f" and {more} more" if more else ""
    return clipped(layer, _NAME - len(said)) + said


def _findings(found: Sequence[_Finding], most: int) -> Iterator[str]:
    rows = [(f"{100 * f.share:.1f} %", clipped(f.layer, _NAME), f.said) for f in found[:most]]
    widths = [max(len(row[at]) for row in rows) for at in range(2)]
    for share, layer, said in rows:
        yield from wrapped(f"  {share:>{widths[0]}}  {layer:<{widths[1]}}  ", said)
    if rest := found[most:]:
        yield f"  and {sum(f.count for f in rest)} more, {_percent(sum(f.share for f in rest))} of the time"


def _table(rows: Sequence[tuple[str, ...] | str], align: str, flexible: int) -> Iterator[str]:
    """Yield rows as aligned columns; the flexible column gets the remaining width, and a text spans all columns."""
    cells = [row for row in rows if not isinstance(row, str)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rest = sum(widths) - widths[flexible] + 2 * (len(widths) - 1)
    widths[flexible] = min(widths[flexible], PAGE - rest)
    for row in rows:
        if isinstance(row, str):
            yield from wrapped("", row)
        else:
            parts = zip(row, align, widths, strict=True)
            yield "  ".join(f"{clipped(cell, width):{side}{width}}" for cell, side, width in parts)


def _greatest(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(shares.items(), key=lambda item: -item[1])


def _percent(share: float) -> str:
    return "below 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def _distances(calibration: Calibration) -> Iterator[str]:
    """Yield the distances of a quantised model's outputs from the float model's."""
    found = (
        (f"{calibration.compared} calibration samples", calibration.distance),
        ("self-test", calibration.selftest),
    )
    rows: list[tuple[str, ...] | str] = [
        (each.output, where, f"{each.sqnr_db:.1f} dB", f"{each.relative:.2e}")
        for where, distances in found
        for each in distances
    ]
    title = f"Quantised by {calibration.method} of {calibration.samples} samples"
    if not rows:
        yield f"{title}, not compared with the float model"
        return
    yield f"{title}; distance to the float model:"
    head = ("output", "on", "SQNR", "max |difference| / max |reference|")
    yield from _table([head, *rows], "<<<<", flexible=0)
