import { element, write } from "./figures.js";

/**
 * A table whose rows live as long as their keys, in the order given. A column is
 * `{label, number, show(row) -> text | {text, className} | Node}`; the first is the row's heading. With
 * `options.id` a row can be linked to as `#<id>-<key>`.
 */
export class Table {
  constructor(node, columns, options = {}) {
    this.node = node;
    this.columns = columns;
    this.options = options;
    this.rows = new Map();
    const head = element("tr");
    for (const { label, number } of columns) {
      const cell = element("th", number ? "number" : "", label);
      cell.scope = "col";
      head.append(cell);
    }
    const thead = element("thead");
    thead.append(head);
    this.body = element("tbody");
    this.node.replaceChildren(thead, this.body);
  }

  /** `rows` in order; `keyOf` tells them apart. */
  show(rows, keyOf, empty) {
    const nodes = [];
    const keys = new Set();
    for (const row of rows) {
      const key = keyOf(row);
      keys.add(key);
      let shown = this.rows.get(key);
      if (shown === undefined) this.rows.set(key, shown = this.make(key));
      this.fill(shown, row);
      nodes.push(shown.node);
      if (shown.details !== undefined) nodes.push(shown.details);
    }
    for (const key of this.rows.keys()) if (!keys.has(key)) this.rows.delete(key);
    if (nodes.length === 0) {
      const line = element("tr");
      const cell = element("td", "empty", empty);
      cell.colSpan = this.columns.length;
      line.append(cell);
      nodes.push(line);
    }
    const same = nodes.length === this.body.children.length &&
      nodes.every((node, i) => this.body.children[i] === node);
    if (!same) this.body.replaceChildren(...nodes);
  }

  make(key) {
    const node = element("tr");
    if (this.options.id !== undefined) node.id = `${this.options.id}-${key}`;
    const cells = this.columns.map(({ label, number, className }, i) => {
      const cell = element(i === 0 ? "th" : "td", className ?? (number ? "number" : ""));
      if (i === 0) cell.scope = "row";
      else cell.dataset.label = label;
      node.append(cell);
      return cell;
    });
    return { key, node, cells, kept: new Map(), details: undefined };
  }

  fill(shown, row) {
    this.columns.forEach(({ show, number, className }, i) => {
      const cell = shown.cells[i];
      const value = show(row, shown);
      if (value instanceof Node) {
        if (cell.firstChild !== value) cell.replaceChildren(value);
        return;
      }
      const { text, className: extra } = typeof value === "object" ? value : { text: value };
      write(cell, String(text));
      const base = className ?? (number ? "number" : "");
      const wanted = extra ? `${base} ${extra}`.trim() : base;
      if (cell.className !== wanted) cell.className = wanted;
    });
    if (shown.details !== undefined) this.options.details?.(shown.inner, row);
  }

  /** Some row has its details open. */
  get someOpen() {
    for (const { details } of this.rows.values()) if (details !== undefined) return true;
    return false;
  }

  /** A heading that opens more about its row; what is open stays open. */
  opener(shown, text, rowOf) {
    let button = shown.kept.get("opener");
    if (button === undefined) {
      button = element("button", "open");
      button.type = "button";
      button.setAttribute("aria-expanded", "false");
      button.addEventListener("click", () => this.toggle(shown, button, rowOf()));
      shown.kept.set("opener", button);
    }
    write(button, text);
    return button;
  }

  toggle(shown, button, row) {
    if (shown.details !== undefined) {
      shown.details.remove();
      shown.details = undefined;
      button.setAttribute("aria-expanded", "false");
      return;
    }
    shown.details = element("tr", "details");
    const cell = element("td");
    cell.colSpan = this.columns.length;
    shown.inner = element("div", "quiet", "reading");
    cell.append(shown.inner);
    shown.details.append(cell);
    shown.node.after(shown.details);
    button.setAttribute("aria-expanded", "true");
    this.options.details(shown.inner, row);
  }
}

export function kept(shown, name, make) {
  let value = shown.kept.get(name);
  if (value === undefined) shown.kept.set(name, value = make());
  return value;
}
