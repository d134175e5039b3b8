// SPDX-License-Identifier: Apache-2.0
// What pages share: elements, numbers as text, and charts.
"use strict";

const byId = (id) => document.getElementById(id);
const data = (id) => JSON.parse(byId(id).textContent);
const number = (value) => Math.round(value).toLocaleString("en");
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const micro = (us) => (us < 10 ? us.toFixed(2) : number(us));
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

function figures(entries) {
  for (const [name, value] of Object.entries(entries)) {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value));
    byId("figures").append(pair);
  }
}

function draw(place, option) {
  const earlier = echarts.getInstanceByDom(place);
  if (earlier) earlier.dispose();
  const made = echarts.init(place, null, { renderer: "svg" });
  made.setOption({
    textStyle: { color: style("--text") }, aria: { enabled: true }, animation: false, backgroundColor: "transparent",
    ...option,
  });
  return made;
}

// Calls `redraw` before the page is printed and behind it: charts keep the size and the colours of their time.
function onPrint(redraw) {
  for (const [event, printed] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => {
      document.documentElement.classList.toggle("paper", printed);
      redraw(printed);
    });
  }
}

const axis = (name, more = {}) => ({
  name, nameLocation: "middle", nameGap: 32, axisLabel: { color: style("--faint") },
  splitLine: { lineStyle: { color: style("--line") } }, nameTextStyle: { color: style("--text") }, ...more,
});
