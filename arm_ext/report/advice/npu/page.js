// SPDX-License-Identifier: Apache-2.0
"use strict";

const advice = data("advice");
const rows = advice.prices.map((entry, index) => ({ ...entry, ...(entry.price || {}), index }));
const priced = rows.filter((row) => row.price);
const sram = (row) => (row.memories.Sram || 0) / 1024;

const COLUMNS = [
  ["accelerator", "", (row) => row.accelerator, (row) => row.index],
  ["system configuration", "", (row) => row.system_config],
  ["memory mode", "", (row) => row.memory_mode],
  ["MHz", "number", (row) => number(row.npu_mhz), (row) => row.npu_mhz],
  ["regions", "number", (row) => number(row.regions), (row) => row.regions],
  ["MAC there", "number", (row) => percent(row.mac_share), (row) => row.mac_share],
  ["NPU cycles", "number", (row) => number(row.npu_cycles), (row) => row.npu_cycles],
  ["CPU cycles", "number", (row) => number(row.cpu_cycles), (row) => row.cpu_cycles],
  ["hand-over µs", "number", (row) => micro(row.handover_us), (row) => row.handover_us],
  ["SRAM KiB", "number", (row) => sram(row).toFixed(1), sram],
  ["est. µs", "number", (row) => micro(row.us), (row) => row.us],
  ["saves", "number", (row) => percent(row.gain), (row) => -row.gain],
  ["stays on the CPU", "name", (row) => row.kept],
];
const OF_ALL = 4; // the first columns stand without a price, too
let order = "accelerator";

function head() {
  document.title = `NPUs for ${advice.model}`;
  const core = advice.core === advice.target ? "" : ` (${advice.core})`;
  byId("title").textContent = `${advice.model} on each Ethos-U, beside ${advice.target}${core}`;
  const left = rows.length - priced.length;
  figures({
    "estimated cycles on the CPU alone": number(advice.cpu_cycles), MAC: number(advice.macs),
    "assumed for one hand-over": `${micro(advice.handover_us)} µs`, configurations: number(rows.length), Vela: advice.vela,
    ...(left ? { "without a price": number(left) } : {}),
  });
  byId("note").textContent = advice.note;
}

function drawTable() {
  const line = element("tr");
  for (const [name, kind, , key] of COLUMNS) {
    const cell = element("th", key ? undefined : name, { class: kind, scope: "col" });
    if (key) {
      const button = element("button", `${name}${order === name ? " ▾" : ""}`, { title: `Sort by ${name}` });
      button.addEventListener("click", () => { order = name; drawTable(); });
      cell.append(button);
    }
    line.append(cell);
  }
  const key = COLUMNS.find(([name]) => name === order)[3];
  const place = (row) => (order === "accelerator" || row.price ? key(row) : Infinity);
  const body = element("tbody");
  for (const row of [...rows].sort((a, b) => place(a) - place(b) || a.index - b.index)) {
    const made = element("tr", undefined, { tabindex: 0, "data-index": row.index });
    COLUMNS.forEach(([, kind, text], at) => {
      const said = row.price || at < OF_ALL ? text(row) : at === COLUMNS.length - 1 ? row.note : "–";
      made.append(element("td", said, { class: kind, title: said }));
    });
    body.append(made);
  }
  const top = element("thead");
  top.append(line);
  byId("prices").replaceChildren(top, body);
}

function choose(index) {
  for (const row of byId("prices").querySelectorAll("tbody tr")) {
    const chosen = Number(row.dataset.index) === index;
    row.setAttribute("aria-selected", String(chosen));
    if (chosen) row.focus();
  }
}

// Families differ by shape, too, not by colour alone.
const FAMILIES = { u55: ["triangle", "--worse"], u65: ["rect", "--better"], u85: ["circle", "--accent"] };
const family = (row) => row.accelerator.split("-")[1];

function plot() {
  if (!priced.length) return;
  const clocks = [...new Set(priced.map((row) => row.cpu_mhz))];
  const alone = clocks.map((mhz) => ({
    yAxis: advice.cpu_cycles / mhz, name: `CPU alone, ${mhz} MHz`, label: { formatter: "{b}", position: "insideEndTop", color: style("--faint") },
    lineStyle: { color: style("--faint") },
  }));
  const points = (name) => priced.filter((row) => family(row) === name && row.regions).map((row) => ({
    row: row.index, value: [Math.max(sram(row), 0.1), row.us], symbolSize: 5 + 2 * Math.log2(row.macs_per_cycle / 16),
  }));
  const all = [...priced.map((row) => row.us), ...alone.map((line) => line.yAxis)];
  const power = (round, value) => 10 ** round(Math.log10(value));
  const made = draw(byId("plot"), {
    grid: { left: 80, right: 40, top: 50, bottom: 60 },
    legend: { textStyle: { color: style("--text") } },
    xAxis: axis("KiB of SRAM", { type: "log" }),
    yAxis: axis("estimated µs of one inference", { type: "log", nameGap: 55, min: power(Math.floor, Math.min(...all)), max: power(Math.ceil, Math.max(...all)) }),
    tooltip: { formatter: ({ data: point }) => point.row === undefined ? "" : [rows[point.row].accelerator, rows[point.row].system_config,
      rows[point.row].memory_mode, `${micro(rows[point.row].us)} µs`, `${sram(rows[point.row]).toFixed(1)} KiB`].map(echarts.format.encodeHTML).join("<br>") },
    series: Object.entries(FAMILIES).map(([name, [symbol, colour]], at) => ({
      type: "scatter", name: `Ethos-${name.toUpperCase()}`, symbol, data: points(name), itemStyle: { color: style(colour), opacity: 0.8 },
      ...(at ? {} : { markLine: { symbol: "none", silent: true, data: alone } }),
    })),
  });
  made.on("click", ({ data: point }) => { if (point && point.row !== undefined) choose(point.row); });
}

head();
drawTable();
plot();
onPrint(plot);
