// The page: it takes views of a run, live or from a record, and shows each.

import { bytes, clock, count, element, holders, lagText, markText, short, span, tell } from "./dom.js";
import { Graph } from "./graph.js";
import { Lanes } from "./lanes.js";
import { Table } from "./tables.js";

const part = (name) => document.getElementById(name);
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const address = (path, more = {}) => `${path}?${new URLSearchParams({ ...(token ? { token } : {}), ...more })}`;

const lanes = new Lanes(part("lanes"));
const nodes = new Table(part("nodes"), "Nodes");
const exporters = new Table(part("exporters"), "Exporters");
const results = new Table(part("results"), "Results");
let graph = null;

function show(view) {
  graph.show(view);
  if (view.nodes.length) lanes.show(view);
  showWhy(view);
  showNodes(view);
  showExporters(view);
  const read = view.sources.reduce((sum, source) => sum + view.nodes[source.place].tuples_in, 0);
  const rate = view.sources.reduce((sum, source) => sum + (view.nodes[source.place].rate ?? 0), 0);
  const saved = view.checkpoint_age === null ? "" : `, last checkpoint ${span(view.checkpoint_age)} ago`;
  const words = { beginning: "The run begins", running: "The run goes on", ended: "The run has ended" };
  part("state").className = "";
  tell(part("state"), `${words[view.state]}: ${count(read)} tuples, ${short(rate)}/s${saved}. Seen at ${clock(view.at / 1e9)} UTC.`);
}

function showWhy(view) {
  const place = part("why");
  const waiting = view.outputs.filter((output) => output.wait);
  const waits = waiting.map((output) => output.wait);
  if (!waits.length && !place.children.length) {
    place.replaceChildren(said("Nothing was asked yet.", true));
    return;
  }
  waits.forEach((wait, n) => {
    const free = wait.cause === "ended" || wait.cause === "no window";
    const line = place.children[n] ?? place.appendChild(said("", free));
    line.className = free ? "nothing" : "";
    tell(line, (view.outputs.length > 1 ? `Output ${waiting[n].number}: ` : "") + sentence(wait));
    if (line.title !== wait.text) line.title = wait.text;
  });
  while (place.children.length > waits.length) place.lastChild.remove();
}

// Times without their day and beyond a millisecond are read faster; the whole text is the tooltip.
function sentence(wait) {
  if (wait.cause === "ended") return "The run has ended: every window was released.";
  return wait.text.replace(/\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)(\.\d{1,3})?\d*Z/g, "$1$2");
}

function said(text, free) {
  const line = element("p", { class: free ? "nothing" : "" });
  line.textContent = text;
  return line;
}

function row(holding, ...cells) {
  return { holding, cells: cells.map(([value]) => value), texts: cells.map(([value, text]) => text ?? (value === null ? "" : String(value))) };
}

function showNodes(view) {
  const holding = holders(view);
  const columns = ["node", "in", "per second", "out", "promised to", "behind", "held", "windows open", "late", "wait for it"];
  nodes.show(columns.map((title, n) => ({ title, number: n > 0 && n !== 4 })), view.nodes.map((node) => {
    const late = Object.values(node.late).reduce((sum, number) => sum + number, 0);
    const mark = node.low_watermark;
    return row(
      holding.has(node.label), [node.label], [node.tuples_in, count(node.tuples_in)],
      [node.rate, node.rate === null ? "" : short(node.rate)], [node.tuples_out, count(node.tuples_out)],
      [mark ? mark.number : null, mark ? markText(mark) : ""], [node.lag, lagText(mark, node.lag)],
      [node.state_bytes, node.state_bytes ? bytes(node.state_bytes) : ""],
      [node.open_windows, node.open_windows === null ? "" : count(node.open_windows)],
      [late, late ? count(late) : ""], [node.waiting, node.waiting ? count(node.waiting) : ""],
    );
  }));
}

function showExporters(view) {
  part("exporters-part").hidden = !view.exporters.length;
  if (!view.exporters.length) return;
  const holding = holders(view);
  const columns = ["exporter", "protocol", "state", "behind", "clock behind", "silent", "datagrams", "records", "lost", "late", "active timeout", "inactive timeout"];
  const time = (seconds) => [seconds, seconds === null ? "" : span(seconds)];
  exporters.show(columns.map((title, n) => ({ title, number: n > 2 })), view.exporters.map((one) => row(
    holding.has(`exporter ${one.name}`) || holding.has(`exporter ${one.name}:${one.port}`), [`${one.name}:${one.port}`], [one.protocol], [one.state], time(one.behind), time(one.skew),
    time(one.silent), [one.datagrams, count(one.datagrams)], [one.records, count(one.records)], [one.lost, count(one.lost)],
    [one.late, count(one.late)], time(one.active), time(one.inactive),
  )));
  const more = view.heard - view.exporters.length;
  tell(part("exporters-head"), more > 0 ? `Exporters (${count(more)} more are not listed)` : "Exporters");
}

function showResults(found) {
  const numbers = found.columns.map((_, n) => found.rows.some((cells) => typeof cells[n] === "number"));
  tell(part("results-note"), found.total ? `${count(found.total)} in all, the last ${count(found.rows.length)} of them here, the newest first.` : "None yet.");
  if (!found.rows.length) return;
  results.show(
    found.columns.map((title, n) => ({ title, number: numbers[n] })),
    found.rows.map((cells) => ({ holding: false, cells, texts: cells.map((value) => (value === null ? "" : String(value))) })),
  );
}

function lost(text) {
  part("state").className = "lost";
  tell(part("state"), text);
}

function follow() {
  const stream = new EventSource(address("events"));
  let ended = false;
  stream.addEventListener("view", (event) => show(JSON.parse(event.data)));
  stream.addEventListener("results", (event) => showResults(JSON.parse(event.data)));
  stream.addEventListener("end", () => {
    ended = true;
    stream.close();
    tell(part("state"), `The run is over. ${part("state").textContent}`);
  });
  stream.addEventListener("error", () => {
    if (!ended) lost("Nothing comes from the run any more: its process has ended, or cannot be reached. What is shown was its last state.");
  });
}

function step(times) {
  part("moments").hidden = false;
  const slider = part("moment"), play = part("play");
  slider.max = times.length - 1;
  let wanted = null, busy = false, timer = null;
  const seek = async () => {
    wanted = Number(slider.value);
    tell(part("moment-text"), `${wanted + 1} of ${times.length}, ${clock(times[wanted], false, 1)} UTC`);
    if (busy) return;
    busy = true;
    while (wanted !== null) {
      const number = wanted;
      wanted = null;
      show(await (await fetch(address("moment", { number }))).json());
    }
    busy = false;
  };
  slider.addEventListener("input", seek);
  play.addEventListener("click", () => {
    const playing = timer === null;
    play.setAttribute("aria-pressed", String(playing));
    tell(play, playing ? "Stop" : "Play");
    if (!playing) {
      clearInterval(timer);
      timer = null;
      return;
    }
    if (Number(slider.value) >= times.length - 1) slider.value = 0;
    timer = setInterval(() => {
      if (Number(slider.value) >= times.length - 1) play.click();
      else {
        slider.value = Number(slider.value) + 1;
        seek();
      }
    }, 250);
  });
  seek();
}

async function begin() {
  const answer = await fetch(address("plan"));
  if (!answer.ok) {
    lost(await answer.text());
    return;
  }
  const plan = await answer.json();
  tell(part("title"), plan.title);
  document.title = `${plan.title} - oop-engine`;
  graph = new Graph(part("graph"), part("told"), plan);
  part("results-part").hidden = !plan.results;
  if (plan.live) follow();
  else if (plan.times.length) step(plan.times);
  else lost("This record has no moment in it.");
}

begin().catch((error) => lost(`The run cannot be reached: ${error.message}`));
