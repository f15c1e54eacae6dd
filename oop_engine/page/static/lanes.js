// Lanes of time: how far each source and operator has promised, and the windows that are open, on one axis.

import { clock, count, drawn, holders, lagText, markText, span } from "./dom.js";

const LANE = 36, BAR = 12, TOP = 24, WINDOWS = 12;
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

export class Lanes {
  constructor(place) {
    this.place = place;
    this.late = new Map();
    this.view = null;
    new ResizeObserver(() => this.view && this.draw()).observe(place);
  }

  show(view) {
    this.remember(view);
    this.view = view;
    this.draw();
  }

  // Where each source stood when tuples of it came late.
  remember(view) {
    if (this.view && view.at < this.view.at) this.late.clear();
    for (const node of view.nodes) {
      const number = node.late.late ?? node.late.behind ?? 0;
      const known = this.late.get(node.place) ?? { number: 0, dots: [] };
      if (number > known.number && node.low_watermark) {
        known.dots.push({ at: node.low_watermark.number, many: number - known.number });
        known.dots = known.dots.slice(-60);
      }
      known.number = number;
      this.late.set(node.place, known);
    }
  }

  draw() {
    const view = this.view;
    const rows = this.rows(view), windows = openWindows(view);
    const points = [];
    for (const row of rows) for (const mark of [row.promised, row.highest]) if (mark) points.push(mark.number);
    for (const window of windows) points.push(window.start.number, window.end.number);
    if (!points.length) {
      this.place.textContent = "No promise yet, and no open window.";
      return;
    }
    const timed = [...rows.flatMap((row) => [row.promised, row.highest]), ...windows.map((window) => window.end)].some((mark) => mark?.time);
    let low = Math.min(...points), high = Math.max(...points);
    const room = (high - low || 1) * 0.06;
    [low, high] = [low - room, high + room];
    const width = Math.max(280, this.place.clientWidth), height = TOP + LANE * (rows.length + windows.length) + 8;
    const x = (number) => ((Math.min(Math.max(number, low), high) - low) / (high - low)) * width;
    const svg = drawn("svg", { width, height, role: "img", "aria-label": summary(rows, windows) });
    axis(svg, low, high, x, width, height, timed);
    rows.forEach((row, n) => this.lane(svg, row, TOP + LANE * n, x, width));
    windows.forEach((window, n) => bar(svg, window, TOP + LANE * (rows.length + n), x, width));
    const ends = windows.filter((window) => window.first);
    if (ends.length) {
      const at = x(Math.min(...ends.map((window) => window.end.number)));
      svg.append(drawn("line", { class: "bound", x1: at, x2: at, y1: TOP - 4, y2: height }));
    }
    this.place.replaceChildren(svg);
  }

  rows(view) {
    const holding = holders(view);
    const sources = view.sources.map((source) => ({
      ...source,
      holding: holding.has(source.label),
      said: sourceText(source),
    }));
    const operators = view.nodes.filter((node) => node.kind === "operator" && node.low_watermark).map((node) => ({
      place: node.place,
      label: node.label,
      promised: node.low_watermark,
      highest: null,
      holding: false,
      said: `to ${markText(node.low_watermark)}` + (node.lag ? `, ${lagText(node.low_watermark, node.lag)} behind` : ""),
    }));
    return [...sources, ...operators];
  }

  lane(svg, row, y, x, width) {
    const group = drawn("g", row.holding ? { class: "holding" } : {});
    const reached = row.promised ? x(row.promised.number) : 0;
    label(group, row.label, row.said, y, width, row.holding);
    group.append(drawn("rect", { class: "lane", x: 0, y: y + 18, width, height: BAR, rx: 3 }));
    if (row.highest && x(row.highest.number) > reached) {
      group.append(drawn("rect", { class: "ahead", x: reached, y: y + 18, width: x(row.highest.number) - reached, height: BAR }));
    }
    group.append(drawn("rect", { class: "settled", x: 0, y: y + 18, width: reached, height: BAR, rx: 3 }));
    for (const dot of this.late.get(row.place)?.dots ?? []) {
      const mark = drawn("circle", { class: "late-dot", cx: x(dot.at), cy: y + 18 + BAR / 2, r: Math.min(8, 3 + Math.log10(dot.many)) });
      mark.append(titled(`${count(dot.many)} tuples behind the promise of then`));
      group.append(mark);
    }
    svg.append(group);
  }
}

function openWindows(view) {
  const found = [];
  for (const node of view.nodes) {
    node.windows.forEach((window, n) => found.push({ ...window, first: n === 0, node: node.label }));
  }
  return found.sort((one, other) => one.end.number - other.end.number).slice(0, WINDOWS);
}

function bar(svg, window, y, x, width) {
  const group = drawn("g");
  const from = x(window.start.number), to = x(window.end.number);
  const name = Object.values(window.group).join(", ");
  const waits = window.waits_for.length ? `waits for ${window.waits_for.join(", ")}` : "complete with the next promise";
  label(group, `${markText(window.start)} to ${markText(window.end)}${name ? " of " + name : ""}`, waits, y, width, false);
  const rect = drawn("rect", { class: "window-bar", x: from, y: y + 18, width: Math.max(3, to - from), height: BAR, rx: 3 });
  rect.append(titled(`${window.node}\nneeds ${window.needs ?? "more promises"}\n${waits}`));
  group.append(rect);
  svg.append(group);
}

function label(group, name, said, y, width, holding) {
  const left = drawn("text", { class: holding ? "holding" : "", x: 2, y: y + 12 });
  left.textContent = cut(name, width * 0.5);
  left.append(titled(name));
  const right = drawn("text", { class: holding ? "holding" : "quiet", x: width - 2, y: y + 12, "text-anchor": "end" });
  right.textContent = cut(said, width * 0.5);
  right.append(titled(said));
  group.append(left, right);
}

function cut(text, width) {
  const most = Math.max(8, Math.floor(width / 6.6));
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

function titled(text) {
  const node = drawn("title");
  node.textContent = text;
  return node;
}

function sourceText(source) {
  if (source.ended) return "ended";
  const parts = [source.promised ? `to ${markText(source.promised)}` : "promised nothing yet"];
  if (source.live && source.silent !== null && source.silent >= 1) parts.push(`silent for ${span(source.silent)}`);
  else if (source.highest) parts.push(`seen ${markText(source.highest)}`);
  return parts.join(", ");
}

function summary(rows, windows) {
  const lanes = rows.map((row) => `${row.label} ${row.said}${row.holding ? ", holds the next window" : ""}`);
  const open = windows.map((window) => `window ${window.start.text} to ${window.end.text} waits for ${window.waits_for.join(", ")}`);
  return [...lanes, ...open].join("; ");
}

function axis(svg, low, high, x, width, height, timed) {
  const least = ((high - low) * 80) / width;
  let step = timed ? STEPS.find((one) => one >= least) ?? 86400 * Math.ceil(least / 86400) : 10 ** Math.ceil(Math.log10(least));
  if (!timed) for (const part of [0.2, 0.5]) if (step * part >= least) { step *= part; break; }
  const days = timed && high - low > 86400;
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) {
    svg.append(drawn("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP - 8, y2: height }));
    const text = drawn("text", { class: "quiet", x: x(at), y: 11, "text-anchor": "middle" });
    text.textContent = timed ? clock(at, days, step < 1 ? 3 : 0) : String(Math.round(at * 1e6) / 1e6);
    if (x(at) > 30 && x(at) < width - 30) svg.append(text);
  }
}
