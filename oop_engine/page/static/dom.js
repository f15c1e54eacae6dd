// Elements and texts. Whatever comes from a run is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const child of children) node.append(child);
  return node;
}

export function tell(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function put(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

export function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

export function short(number) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (number >= size) return (number / size).toFixed(number >= 100 * size ? 0 : 1) + unit;
  }
  return String(Math.round(number));
}

export function bytes(number) {
  return short(number) + (number >= 1000 ? "B" : " B");
}

export function span(seconds) {
  const size = Math.abs(seconds);
  if (size >= 7200) return (seconds / 3600).toFixed(1) + " h";
  if (size >= 120) return (seconds / 60).toFixed(1) + " min";
  if (size >= 1 || size === 0) return seconds.toFixed(size >= 100 ? 0 : 1) + " s";
  return (seconds * 1000).toFixed(0) + " ms";
}

// A time in UTC, with its day where that is asked for.
export function clock(seconds, withDay = false, fraction = 0) {
  const moment = new Date(seconds * 1000);
  if (Number.isNaN(moment.getTime())) return String(seconds);
  const text = moment.toISOString();
  const time = text.slice(11, fraction ? 20 + fraction : 19);
  return withDay ? text.slice(0, 10) + " " + time : time;
}

export function markText(mark) {
  if (!mark) return "nothing yet";
  return mark.time ? clock(mark.number, false, mark.number % 1 ? 1 : 0) : mark.text;
}

export function lagText(mark, lag) {
  if (!mark || lag === null) return "";
  return mark.time ? span(lag) : count(lag);
}

// The labels of those who hold windows open now: the nodes at which a search ended.
export function holders(view) {
  const found = new Set();
  for (const output of view.outputs) {
    const wait = output.wait;
    if (!wait || wait.cause === "ended" || wait.cause === "no window") continue;
    found.add(wait.holder);
    if (wait.chain.length) found.add(wait.chain[wait.chain.length - 1].label);
  }
  return found;
}
