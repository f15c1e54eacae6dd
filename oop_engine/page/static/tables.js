// Tables that a click, or Enter, on a head sorts; what is not changed is not drawn again.

import { element } from "./dom.js";

export class Table {
  constructor(place, name) {
    this.place = place;
    this.name = name;
    this.by = null;
    this.down = false;
    this.heads = "";
    this.body = element("tbody");
  }

  // Columns are {title, number}; rows are {cells, texts, holding}: what they sort by, and what is shown.
  show(columns, rows) {
    const heads = columns.map((column) => column.title).join("\n");
    if (heads !== this.heads) {
      this.heads = heads;
      this.by = null;
      this.head(columns);
    }
    this.columns = columns;
    this.rows = rows;
    this.draw();
  }

  head(columns) {
    this.buttons = columns.map((column, n) => {
      const button = element("button", { type: "button" });
      button.textContent = column.title;
      button.addEventListener("click", () => {
        this.down = this.by === n ? !this.down : columns[n].number;
        this.by = n;
        this.draw();
      });
      return button;
    });
    this.ths = this.buttons.map((button, n) => element("th", { scope: "col", class: columns[n].number ? "number" : "" }, button));
    const table = element("table", { "aria-label": this.name }, element("thead", {}, element("tr", {}, ...this.ths)), this.body);
    this.place.replaceChildren(table);
  }

  draw() {
    const by = this.by;
    const rows = by === null ? this.rows : [...this.rows].sort((one, other) => compared(one.cells[by], other.cells[by]) * (this.down ? -1 : 1));
    this.ths.forEach((th, n) => {
      if (n === by) th.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((row, at) => {
      const line = this.body.rows[at] ?? this.body.insertRow();
      line.className = row.holding ? "holding" : "";
      while (line.cells.length > row.texts.length) line.deleteCell(-1);
      row.texts.forEach((text, n) => {
        const cell = line.cells[n] ?? line.insertCell();
        const kind = this.columns[n].number ? "number" : "";
        if (cell.className !== kind) cell.className = kind;
        if (cell.textContent !== text) cell.textContent = text;
        if (text.length > 40) cell.title = text;
      });
    });
  }
}

function compared(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one) < String(other) ? -1 : 1;
}
