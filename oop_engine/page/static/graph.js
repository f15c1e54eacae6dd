// The plan as boxes and lines; numbers in the boxes change, the boxes stay where they are.

import { bytes, count, drawn, element, holders, lagText, markText, put, short, tell } from "./dom.js";

const MARGIN = 14, LINE = 17, PAD = 12;

export class Graph {
  constructor(place, told, plan) {
    this.told = told;
    this.boxes = plan.boxes.map((box, at) => this.box(box, at));
    this.edges = plan.routes.map((route) => ({ reader: route.reader, line: drawn("path", { class: "edge", d: path(route.points) }) }));
    const tips = plan.routes.map((route) => tip(route.points[route.points.length - 1]));
    const width = plan.width + 2 * MARGIN, height = plan.height + 2 * MARGIN;
    const svg = drawn("svg", { viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, role: "group", "aria-label": "Plan: sources above, results below" });
    svg.append(...this.edges.map((edge) => edge.line), ...tips, ...this.boxes.map((box) => box.group));
    // As wide as it is drawn, and narrower where there is no room, as long as it can be read.
    svg.style.maxWidth = `${width}px`;
    svg.style.minWidth = `${Math.min(width, 520)}px`;
    place.replaceChildren(svg);
    place.scrollLeft = (place.scrollWidth - place.clientWidth) / 2;
  }

  box(box, at) {
    const group = drawn("g", { class: `box ${box.kind}`, tabindex: 0, role: "button", "aria-label": box.label });
    group.append(drawn("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: box.kind === "output" ? 15 : 6 }));
    const middle = box.x + box.width / 2;
    let y = box.y + PAD + (box.kind === "output" ? 8 : LINE - 4);
    for (const line of box.title) {
      group.append(text("title", middle, y, line));
      y += LINE;
    }
    const lines = [];
    for (let n = 0; box.kind !== "output" && n < 4; n += 1) {
      lines.push(text(n ? "quiet" : "", middle, y, ""));
      y += LINE;
    }
    group.append(...lines);
    const show = () => this.told.replaceChildren(...box.told.map((line) => paragraph(line)));
    group.addEventListener("focus", show);
    group.addEventListener("click", show);
    return { group, lines, kind: box.kind, label: box.label, at };
  }

  show(view) {
    const holding = holders(view);
    const known = view.nodes.length;
    view.nodes.forEach((node, at) => {
      const box = this.boxes[at];
      const said = [
        `${short(node.tuples_in)} in` + (node.rate === null ? "" : `, ${short(node.rate)}/s`) + (node.kind === "source" ? "" : `, ${short(node.tuples_out)} out`),
        node.low_watermark ? `promised to ${markText(node.low_watermark)}` + (node.lag ? `, ${lagText(node.low_watermark, node.lag)} behind` : "") : node.ended ? "ended" : node.promises_out ? "" : "has promised nothing",
        held(node),
        troubles(node),
      ];
      box.lines.forEach((line, n) => tell(line, said[n]));
      put(box.group, "class", ["box", box.kind, holding.has(node.label) ? "holding" : "", node.ended ? "ended" : ""].join(" ").trim());
      put(box.group, "aria-label", `${node.label}: ${said.filter(Boolean).join("; ")}` + (holding.has(node.label) ? "; holds the next window" : ""));
    });
    for (const edge of this.edges) {
      const pages = edge.reader < known ? view.nodes[edge.reader].waiting_pages : view.outputs[edge.reader - known]?.waiting_pages;
      put(edge.line, "class", (pages ?? 0) >= 6 ? "edge pressed" : "edge");
    }
  }
}

function held(node) {
  const parts = [];
  if (node.open_windows !== null) parts.push(`${count(node.open_windows)} ${node.open_windows === 1 ? "window" : "windows"} open`);
  if (node.state_bytes || node.state_tuples) parts.push(node.state_bytes ? `holds ${bytes(node.state_bytes)}` : `holds ${short(node.state_tuples)}`);
  return parts.join(", ");
}

function troubles(node) {
  const parts = Object.entries(node.late).map(([name, number]) => `${count(number)} ${name.replaceAll("_", " ")}`);
  if (node.waiting) parts.push(`${short(node.waiting)} wait for it`);
  return parts.join(", ");
}

function text(kind, x, y, line) {
  const node = drawn("text", { class: kind, x, y, "text-anchor": "middle" });
  node.textContent = line;
  return node;
}

function paragraph(line) {
  const node = element("p");
  node.textContent = line;
  return node;
}

function path(points) {
  let [x, y] = points[0];
  let line = `M${x} ${y}`;
  points.slice(1).forEach(([toX, toY], n) => {
    const end = n === points.length - 2 ? toY - 6 : toY, middle = (y + end) / 2;
    line += ` C${x} ${middle} ${toX} ${middle} ${toX} ${end}`;
    [x, y] = [toX, end];
  });
  return line;
}

function tip([x, y]) {
  return drawn("path", { class: "tip", d: `M${x - 4} ${y - 7} h8 l-4 7 z` });
}
