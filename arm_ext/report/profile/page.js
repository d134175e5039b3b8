// SPDX-License-Identifier: Apache-2.0
"use strict";

const profile = data("profile");
const before = data("before");
const calls = profile.calls;
const counted = profile.kind === "counts";
const ROW = 26, LANE = 12, NAMED = 56; // pixels: a row, a lane of the graph, a box of the timeline that has room for a name
const LABELLED = 3; // costliest circles of the roofline

const costOf = (call) => (call.counts ? call.counts.cycles_with_caches : call.times.median_us);
const cost = (value) => (counted ? number(value) : micro(value));
const criticalOf = (call) => Math.round(call.counts.cycles_with_caches * (call.counts.busiest ?? 1));
const unit = counted ? "cycles with caches" : "µs";

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// ---- The head: what matters most, first.

function head() {
  document.title = `Profile of ${profile.model}`;
  byId("title").textContent = `${profile.model} for ${profile.target}, on ${profile.board} (${profile.core})`;
  const shown = counted
    ? { "cycles with caches": number(profile.cycles_with_caches), instructions: number(profile.instructions) }
    : { "median of an inference": `${micro(profile.median_us)} µs`, runs: number(profile.runs) };
  if (profile.critical_cycles)
    shown[`on ${profile.threads} threads`] =
      `${number(profile.critical_cycles)} (${(profile.cycles_with_caches / profile.critical_cycles).toFixed(2)} x)`;
  Object.assign(shown, {
    "kernel calls": number(calls.length),
    "between calls": percent(profile.around.share),
    MAC: number(profile.macs),
    "activations at most": size(profile.peak_bytes),
    weights: size(profile.weight_bytes),
  });
  for (const region of profile.npu_regions)
    shown[`NPU region ${region.index}, estimated`] = `${micro(region.us)} µs (${micro(region.cpu_us)} µs on the CPU)`;
  const broken = profile.broken_off;
  if (broken) shown["broken off"] = `${broken.measured} of ${broken.planned} ${broken.unit} measured: ${broken.why}`;
  figures({ ...shown, ...profile.conditions });
  byId("note").textContent = profile.note;
}

// ---- Layers: the calls in order, the graph beside them, and one call in detail.

// For each call the lane of its result: held from its row to that of its last reader.
function lanesOf() {
  const last = calls.map((call) => call.index);
  for (const call of calls) for (const from of call.reads) last[from] = Math.max(last[from], call.index);
  const until = [], lane = [];
  for (const call of calls) {
    let free = until.findIndex((end) => end <= call.index);
    if (free < 0) free = until.length;
    until[free] = last[call.index];
    lane.push(free);
  }
  return { lane, last, count: Math.max(1, until.length) };
}

function graphCell(call, { lane, last, count }) {
  const x = (index) => LANE / 2 + LANE * lane[index];
  const picture = svg("svg", { width: LANE * count, height: ROW, "aria-hidden": "true" });
  const path = (d) => picture.append(svg("path", { d, fill: "none", stroke: style("--faint"), "stroke-width": 1.3 }));
  // Results that are read at this row or later go on through it.
  for (const from of alive[call.index]) {
    if (last[from] > call.index) path(`M${x(from)} 0V${ROW}`);
    if (call.reads.includes(from)) path(`M${x(from)} 0Q${x(from)} ${ROW / 2} ${x(call.index)} ${ROW / 2}`);
  }
  if (last[call.index] > call.index) path(`M${x(call.index)} ${ROW / 2}V${ROW}`);
  picture.append(svg("circle", { cx: x(call.index), cy: ROW / 2, r: 4, fill: `rgb(${hue(call)})` }));
  return picture;
}

// For each row the calls before it whose results are still to be read.
function aliveAt(last) {
  const found = [];
  let open = [];
  for (const call of calls) {
    open = open.filter((from) => last[from] >= call.index);
    found.push(open);
    open = [...open, call.index];
  }
  return found;
}

const lanes = lanesOf();
const alive = aliveAt(lanes.last);
let order = "index";
let chosen = calls.length ? [...calls].sort((a, b) => b.share - a.share)[0].index : 0;

// Those that matter most first, which a narrow window shows without scrolling.
const COLUMNS = [
  ["", "graph", null],
  ["layer", "name", (call) => [call.anchor, ...call.operators].join(" + ")],
  ["share", "number", (call) => percent(call.share)],
  [unit, "number", (call) => cost(costOf(call))],
  ...(counted
    ? [
        ...(profile.threads > 1
          ? [[`on ${profile.threads} threads`, "number", (call) => cost(criticalOf(call)), "Cycles of the busiest thread"]]
          : []),
        ["bound by", "bound", (call) => call.counts.bound],
        ["of its limit", "number rest", (call) => percent(call.counts.limit_cycles / call.counts.cycles_with_caches),
          "The cycles that the busiest of vector pipes, dispatch, L2 and memory needs at least, as a share of the cycles"],
      ]
    : [["spread", "number", (call) => percent(call.times.spread), "How far the times of several runs are apart"]]),
  ["kernel", "", (call) => call.kernel],
  ["output", "rest", (call) => call.output],
];

// The colour of what bounds a call; of times, for which nothing does, that of all calls.
const BOUNDS = ["vector pipes", "dispatch", "latency", "L2", "memory", "overhead"];
const hue = (call) => (call && call.counts ? style(`--${call.counts.bound.replace(" ", "-")}`) : style("--heat"));

// A chip and a name for each bound that occurs.
function legend() {
  return BOUNDS.filter((each) => calls.some((call) => call.counts && call.counts.bound === each)).map((name) => {
    const share = calls.filter((call) => call.counts.bound === name).reduce((sum, call) => sum + call.share, 0);
    const chip = element("span", `${name}, ${percent(share)} of the cycles`, { class: "bound" });
    chip.style.setProperty("--bound", `var(--${name.replace(" ", "-")})`);
    return chip;
  });
}

function drawCalls() {
  const table = byId("calls");
  const most = Math.max(...calls.map((call) => call.share), 1e-9);
  const line = element("tr");
  for (const [name, kind, , about] of COLUMNS) {
    const cell = element("th", undefined, { class: kind, scope: "col", ...(about ? { title: about } : {}) });
    const sorts = { layer: "index", share: "share" }[name];
    if (sorts) {
      const button = element("button", `${name}${order === sorts ? " ▾" : ""}`, { title: `Sort by ${sorts}` });
      button.addEventListener("click", () => {
        order = sorts;
        drawCalls();
        byId("calls").querySelector(`button[title="${button.title}"]`).focus(); // it was drawn anew
      });
      cell.append(button);
    } else cell.textContent = name;
    line.append(cell);
  }
  const body = element("tbody");
  const sorted = order === "index" ? calls : [...calls].sort((a, b) => b.share - a.share);
  for (const call of sorted) {
    const row = element("tr", undefined, { tabindex: -1, "data-index": call.index });
    for (const [, kind, text] of COLUMNS) {
      const cell = element("td", text ? text(call) : undefined, { class: kind });
      if (!text && order === "index") cell.append(graphCell(call, lanes));
      if (kind === "bound") cell.style.setProperty("--bound", hue(call));
      if (text) cell.title = cell.textContent;
      row.append(cell);
    }
    row.style.background = `rgba(var(--heat), ${0.45 * (call.share / most)})`;
    row.addEventListener("click", () => choose(call.index));
    row.addEventListener("focus", () => choose(call.index));
    body.append(row);
  }
  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr");
    const next = {
      ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling,
      Home: body.firstElementChild, End: body.lastElementChild,
    }[event.key];
    if (next) { event.preventDefault(); next.focus(); }
  });
  const top = element("thead");
  top.append(line);
  table.replaceChildren(top, body);
  if (calls.length) choose(chosen);
}

function facts(rows) {
  const table = element("table");
  for (const [name, value] of rows) {
    const row = element("tr");
    row.append(element("td", name), element("td", value));
    table.append(row);
  }
  return table;
}

// What would make the largest part of a call's cycles smaller.
const WHY = {
  "vector pipes": "the vector pipes are busy: fewer vector instructions, or narrower elements, would help",
  dispatch: "the core hands out as many instructions as it can: fewer instructions would help",
  latency: "instructions wait for the results of others: more independent work at a time would help",
  L2: "cache lines come from L2: a smaller or reused working set would help",
  memory: "cache lines come from memory: fewer bytes would help (int8, fp16, fusion)",
  overhead: "instructions that run once set the call up: fusing it would help",
};

function verdict(parts) {
  const total = Object.values(parts).reduce((sum, cycles) => sum + cycles, 0) || 1;
  const [first, second] = Object.entries(parts).map(([name, cycles]) => ({ name, share: cycles / total }));
  const next = second && second.share ? ` Next: ${second.name}, ${percent(second.share)}.` : "";
  return `In ${percent(first.share)} of its cycles ${WHY[first.name]}.${next}`;
}

function choose(index) {
  const call = calls[index], panel = byId("detail");
  chosen = index;
  for (const row of byId("calls").querySelectorAll("tbody tr")) {
    const own = Number(row.dataset.index) === index;
    row.setAttribute("aria-selected", String(own));
    row.tabIndex = own ? 0 : -1; // Tab goes past the table; arrow keys, Home and End move inside.
  }
  const rows = [
    ["kernel", call.kernel], ["output", call.output], ["share", percent(call.share)],
    [unit, cost(costOf(call))], ["MAC", number(call.macs)], ["function", call.symbol],
  ];
  panel.replaceChildren(element("h2", call.anchor), facts(rows));
  if (call.counts) panel.append(...countDetails(call));
  if (call.times) {
    const counters = Object.entries(call.times.counters).map(([name, value]) => [name, number(value)]);
    panel.append(element("h3", "On the board"), facts([["spread", percent(call.times.spread)], ...counters]));
  }
  if (call.alternatives.length) {
    const other = ({ kernel, params, selection_cost: cost, ratio }) =>
      [params ? `${kernel} with ${params}` : kernel, `selection cost ${number(cost)} cycles, ${ratio.toFixed(2)} times the chosen kernel's`];
    panel.append(element("h3", "Next best, by the kernels' formulas"), facts(call.alternatives.map(other)));
  }
  if (call.why.length) panel.append(element("h3", "Why this kernel"), facts(call.why));
  panel.append(element("h3", `Source nodes (${call.sources.length})`), element("p", call.sources.join(", ")));
}

function countDetails(call) {
  const counts = call.counts;
  const intensity = counts.l2_bytes ? (call.macs / counts.l2_bytes).toFixed(2) : "all in L1";
  const rows = [
    ["instructions", number(counts.instructions)], ["estimated cycles", number(counts.estimated_cycles)],
    ["least cycles for these instructions", number(counts.limit_cycles)], ["read and written", size(counts.moved_bytes)],
    ["from L2", size(counts.l2_bytes)], ["from memory", size(counts.memory_bytes)],
    ["MAC per byte from L2", intensity],
  ];
  const kinds = Object.entries(counts.classes).slice(0, 6)
    .map(([name, count]) => [name, `${number(count)} (${percent(count / counts.instructions)})`]);
  const made = [element("h3", `Bound by ${counts.bound}`), element("p", verdict(counts.parts)), facts(rows),
    element("h3", "Instructions"), facts(kinds)];
  if (counts.hot) {
    made.push(element("h3", `Hot loop: ${number(counts.hot.executions)} times, ${number(counts.hot.estimated_cycles)} estimated cycles`));
    made.push(element("pre", counts.hot.instructions.join("\n")));
  }
  return made;
}

// ---- Charts.

function chart(id, option) {
  const made = draw(byId(id).querySelector(".chart"), option);
  made.on("click", (event) => { if (event.data && event.data.call !== undefined) { show("layers"); focusCall(event.data.call); } });
  return made;
}

function focusCall(index) {
  const row = byId("calls").querySelector(`tr[data-index="${index}"]`);
  if (row) row.focus();
}

function timeline() {
  const boxes = [];
  let at = 0;
  const gap = (counted ? profile.around.cycles_with_caches : profile.around.us) / Math.max(1, calls.length);
  for (const call of calls) {
    boxes.push({ name: call.anchor, label: call.anchor, call: call.index, value: [0, at, at + costOf(call)], share: call.share });
    at += costOf(call) + gap;
  }
  // A region stands where its first node's fallback does.
  for (const region of profile.npu_regions) {
    const first = calls.find((call) => call.sources.some((source) => region.sources.includes(source)));
    const begin = first ? boxes[first.index].value[1] : 0;
    const length = counted ? region.cpu_clock_cycles : region.us;
    const label = `NPU region ${region.index}`;
    boxes.push({ name: `${label} with its hand-over, estimated by Vela`, label, value: [1, begin, begin + length], share: 1 });
  }
  const lanesShown = profile.npu_regions.length ? ["CPU", counted ? "NPU, in cycles\nof the CPU's clock" : "NPU"] : ["CPU"];
  const box = (params, api) => {
    const [left, right] = [api.coord([api.value(1), api.value(0)]), api.coord([api.value(2), api.value(0)])];
    const height = Math.min(90, api.size([0, 1])[1] * 0.6), width = Math.max(0.5, right[0] - left[0]);
    const rect = { type: "rect", style: api.style(), shape: { x: left[0], y: left[1] - height / 2, width, height } };
    if (width < NAMED) return rect;
    const text = { text: boxes[params.dataIndex].label, fill: style("--text"), width: width - 8, overflow: "truncate" };
    return { ...rect, textContent: { type: "text", style: text }, textConfig: { position: "inside" } };
  };
  // Text on the darkest one can still be read.
  const most = Math.max(...calls.map((call) => call.share), 1e-9);
  const colour = (entry) => `rgba(${hue(calls[entry.call])}, ${0.15 + 0.45 * Math.min(1, entry.share / most)})`;
  chart("timeline", {
    grid: { left: 150, right: 30, top: 20, bottom: 100 },
    xAxis: axis(unit, {
      type: "value", max: Math.ceil(Math.max(...boxes.map((entry) => entry.value[2]))),
      axisLabel: { color: style("--faint"), showMaxLabel: false, hideOverlap: true },
    }),
    yAxis: { type: "category", data: lanesShown, inverse: true, axisLabel: { color: style("--text"), lineHeight: 16 } },
    dataZoom: [{ type: "slider", bottom: 10, filterMode: "weakFilter" }, { type: "inside", filterMode: "weakFilter" }],
    tooltip: { formatter: ({ data }) => `${echarts.format.encodeHTML(data.name)}<br>${cost(data.value[2] - data.value[1])} ${unit}` },
    series: [{ type: "custom", renderItem: box, encode: { x: [1, 2], y: 0 },
      data: boxes.map((entry) => ({ ...entry, itemStyle: { color: colour(entry), borderColor: style("--back"), borderWidth: 0.5 } })) }],
  });
  const regions = profile.npu_regions.length
    ? " The CPU's lane has every call that ran here. A region in the NPU's lane is Vela's estimate with the hand-over: where the " +
      "NPU computes it, the calls above it do not run."
    : "";
  byId("timeline").querySelector(".legend").replaceChildren(...legend());
  byId("timeline").querySelector(".hint").textContent =
    "Each box is one kernel call, in the colour of what bounds it, darker the larger its share. Point at a box for its name and cost, choose it for its details; " +
    `drag the ends of the bar below, or use the wheel, to see a part.${regions}`;
}

function roofline() {
  if (!profile.limits) {
    byId("roofline").querySelector(".hint").textContent = "A roofline needs the traffic between caches, which a virtual board counts.";
    return;
  }
  const multiplying = calls.filter((call) => call.macs && call.counts.l2_bytes).sort((a, b) => b.share - a.share);
  const points = multiplying.map((call, rank) => ({
    name: call.anchor, call: call.index, symbolSize: 6 + 26 * Math.sqrt(call.share),
    value: [call.macs / call.counts.l2_bytes, call.macs / call.counts.cycles_with_caches],
    label: { show: rank < LABELLED }, itemStyle: { color: `rgb(${hue(call)})` },
  }));
  const xs = points.map((point) => point.value[0]);
  const power = (round, value) => 10 ** round(Math.log10(value));
  const left = power(Math.floor, Math.min(0.1, ...xs)), right = power(Math.ceil, Math.max(100, ...xs));
  const limits = profile.limits, roofs = limits.roofs;
  const top = Math.max(1, ...roofs.map((roof) => roof.macs_per_cycle));
  const bandwidth = (name, rate) => ({
    type: "line", name, showSymbol: false, lineStyle: { color: style("--faint"), type: "dashed" },
    // It ends at the left, where its name has room below the line.
    data: [[Math.min(right, top / rate), Math.min(right * rate, top)], [left, left * rate]],
    endLabel: { show: true, formatter: "{a}", color: style("--faint"), offset: [10, 6] },
  });
  const roof = ({ name, macs_per_cycle }) => ({
    type: "line", name, showSymbol: false, lineStyle: { color: style("--accent") },
    data: [[left, macs_per_cycle], [right, macs_per_cycle]],
    endLabel: { show: true, formatter: "{a}", color: style("--text") },
  });
  chart("roofline", {
    grid: { left: 70, right: 110, top: 30, bottom: 60 },
    xAxis: axis("MAC per byte that L1 fetched", { type: "log", min: left, max: right }),
    yAxis: axis("MAC per cycle", { type: "log", nameGap: 45 }),
    tooltip: { formatter: (item) => item.seriesType === "scatter"
      ? `${echarts.format.encodeHTML(item.name)}<br>${item.value[1].toFixed(2)} MAC/cycle at ${item.value[0].toFixed(2)} MAC/byte`
      : echarts.format.encodeHTML(item.seriesName) },
    series: [
      ...roofs.map(roof), bandwidth("L2 bandwidth", limits.l2_bytes_per_cycle),
      bandwidth("memory bandwidth", limits.memory_bytes_per_cycle),
      { type: "scatter", name: "kernel calls", data: points,
        label: { formatter: "{b}", position: "bottom", color: style("--text"), width: 150, overflow: "truncate" },
        labelLayout: { hideOverlap: true } },
    ],
  });
  byId("roofline").querySelector(".legend").replaceChildren(...legend());
  byId("roofline").querySelector(".hint").textContent =
    `${number(points.length)} calls that multiply and fetch cache lines; the larger a circle, the larger its share, and the ` +
    `${Math.min(LABELLED, points.length)} largest are named. A solid line is the most that an instruction can multiply, a dashed one ` +
    "what L2 or memory can carry. What lies under a roof's flat part is bound by computing, under its slope by L2 or memory.";
}

function memory() {
  const live = calls.map((call, index) => {
    const held = [...alive[index], index].filter((from) => from === index || lanes.last[from] >= index);
    return { held, bytes: held.reduce((sum, from) => sum + calls[from].written, 0) };
  });
  const peak = live.reduce((best, entry, index) => (entry.bytes > live[best].bytes ? index : best), 0);
  const most = live.length ? live[peak].bytes : 0;
  const step = 2 ** Math.ceil(Math.log2(Math.max(most, 8) / 6)); // whole KiB
  chart("memory", {
    grid: { left: 90, right: 30, top: 20, bottom: 90 },
    xAxis: axis("kernel call", { type: "category", data: calls.map((call) => call.anchor) }),
    yAxis: axis("results that are held", { type: "value", interval: step, max: step * Math.ceil(most / step), nameGap: 65, axisLabel: { formatter: size, color: style("--faint") } }),
    dataZoom: [{ type: "slider", bottom: 10 }, { type: "inside" }],
    tooltip: { trigger: "axis", formatter: ([item]) => `${echarts.format.encodeHTML(item.name)}<br>${size(item.value)}` },
    series: [{ type: "line", step: "middle", areaStyle: {}, showSymbol: false,
      data: live.map((entry, index) => ({ value: entry.bytes, call: index })), itemStyle: { color: style("--accent") } }],
  });
  const rows = live[peak].held.map((from) => [calls[from].anchor, `${calls[from].output}, ${size(calls[from].written)}`]);
  byId("peak").replaceChildren(
    element("h3", `At the peak, while ${calls[peak].anchor} runs: ${size(live[peak].bytes)} of results`), facts(rows),
    element("p", `The inference reserves ${size(profile.peak_bytes)} of activations: these results, what kernels need for ` +
      "themselves while they run, and gaps between tensors.", { class: "hint" }));
}

// ---- Comparison: calls of one layer side by side.

function compare() {
  const key = (call) => `${call.anchor}\n${call.function}`;
  const sum = (report) => {
    const found = new Map();
    for (const call of report.calls) {
      const { cost = 0, kernels = [] } = found.get(key(call)) || {};
      found.set(key(call), { cost: cost + costOf(call), kernels: [...kernels, call.kernel] });
    }
    return found;
  };
  const kernelsOf = (layer) => (layer ? [...new Set(layer.kernels)].join(", ") : "–");
  const [old, now] = [sum(before), sum(profile)];
  const names = [...new Set([...now.keys(), ...old.keys()])];
  const rows = names.map((name) => {
    const [from, to] = [kernelsOf(old.get(name)), kernelsOf(now.get(name))];
    const [earlier, later] = [old.get(name)?.cost, now.get(name)?.cost];
    const kernel = from === to ? to : `${from} → ${to}`;
    return { name: name.split("\n")[0], kernel, old: earlier, now: later, change: (later || 0) - (earlier || 0) };
  })
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  const total = (report) => (report.kind === "counts" ? report.cycles_with_caches : report.median_us);
  rows.unshift({ name: "whole inference", kernel: "", old: total(before), now: total(profile), change: total(profile) - total(before) });
  byId("sizes").replaceChildren(sizes());
  const about = (report) => `${report.model} for ${report.target}, on ${report.board} (${report.core})`;
  byId("compare").querySelector(".hint").textContent =
    `In ${unit}, the greatest change first. Before: ${about(before)}. Now: ${about(profile)}.`;
  const top = element("tr");
  for (const [name, kind] of [["layer", "name"], ["before", "number"], ["now", "number"], ["change", "number"], ["now / before", "number"], ["kernel", ""]])
    top.append(element("th", name, { class: kind, scope: "col" }));
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    const cell = (text, kind) => line.append(element("td", text, { class: kind }));
    cell(row.name, "name");
    cell(row.old === undefined ? "–" : cost(row.old), "number");
    cell(row.now === undefined ? "–" : cost(row.now), "number");
    cell((row.change > 0 ? "+" : "") + cost(row.change), `number ${row.change > 0 ? "worse" : row.change < 0 ? "better" : ""}`);
    cell(row.old && row.now !== undefined ? (row.now / row.old).toFixed(2) : "–", "number");
    cell(row.kernel, "");
    body.append(line);
  }
  const head = element("thead");
  head.append(top);
  byId("difference").replaceChildren(head, body);
}

// What two builds need beside time.
function sizes() {
  const found = [["weights", "weight_bytes", size], ["activations at most", "peak_bytes", size], ["MAC", "macs", number]];
  if (counted) found.push(["instructions", "instructions", number]);
  const ratio = (field) => (before[field] ? (profile[field] / before[field]).toFixed(2) : "–");
  return facts(found.map(([name, field, text]) => [name, `${text(before[field])} → ${text(profile[field])}, ${ratio(field)} times`]));
}

// ---- Tabs; a chart is drawn when it is first seen, since it needs a size.

const VIEWS = { layers: "Layers", timeline: "Timeline", roofline: "Roofline", memory: "Memory", ...(before ? { compare: "Compare" } : {}) };
const DRAW = { timeline, roofline, memory, compare };
const drawn = new Set();
let shown = "layers";

function show(view) {
  shown = view;
  for (const name of ["layers", "timeline", "roofline", "memory", "compare"]) byId(name).hidden = name !== view;
  for (const tab of byId("tabs").children) tab.setAttribute("aria-selected", String(tab.dataset.view === view));
  drawOnce(view);
}

function drawOnce(view) {
  if (DRAW[view] && !drawn.has(view)) { drawn.add(view); DRAW[view](); }
}

onPrint((printed) => {
  drawn.clear();
  if (!printed) { show(shown); return; }
  for (const view of Object.keys(VIEWS)) { byId(view).hidden = false; drawOnce(view); }
});

head();
drawCalls();
for (const [view, name] of Object.entries(VIEWS)) {
  const tab = element("button", name, { role: "tab", "data-view": view, "aria-controls": view });
  tab.addEventListener("click", () => show(view));
  tab.addEventListener("keydown", (event) => {
    const next = { ArrowRight: tab.nextElementSibling, ArrowLeft: tab.previousElementSibling }[event.key];
    if (next) { next.focus(); next.click(); }
  });
  byId("tabs").append(tab);
}
show("layers");
