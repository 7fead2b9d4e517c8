// Rows as a table. Values become text nodes, never markup.

import { html, useMemo, useState } from "../../vendor/htm-preact.js";
import { number } from "./widgets.js";

const ROWS_MAX = 1_000;
const CUT = 10_240;
const LONG = 60;
const NUMERIC = /^(I32|I64|U32|U64|F32|F64)$/;

export const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

export function Value({ value }) {
  const [isOpen, setOpen] = useState(false);
  const [isWhole, setWhole] = useState(false);
  if (value === null || value === undefined) return html`<span class="null">null</span>`;
  const text = textOf(value);
  if (text === "") return html`<span class="null">empty</span>`;
  if (text.length <= LONG) return text;
  const cut = text.length > CUT && !isWhole;
  const shown = isOpen ? (cut ? text.slice(0, CUT) : text) : text.slice(0, 200);
  return html`<span class="long ${isOpen ? "open" : ""}">
    <button type="button" class="unfold" aria-expanded=${String(isOpen)} title=${isOpen ? "Fold" : text.slice(0, 500)}
      onClick=${() => setOpen(!isOpen)}>${shown}</button>
    ${isOpen && cut && html`<button type="button" class="link" onClick=${() => setWhole(true)}>show all ${number(text.length)} characters</button>`}
  </span>`;
}

// columns: [{ name, type }]; rows: objects by column name.
export function DataTable({ columns, rows, caption }) {
  const [order, setOrder] = useState(null);
  const sorted = useMemo(() => sortRows(rows, columns, order), [rows, columns, order]);
  const drawn = sorted.slice(0, ROWS_MAX);
  const sort = (name) =>
    setOrder((previous) => (previous?.name !== name ? { name, sign: 1 } : previous.sign > 0 ? { name, sign: -1 } : null));
  return html`<div class="table-box" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <thead><tr>${columns.map(({ name, type }) => {
          const direction = order?.name === name ? (order.sign > 0 ? "ascending" : "descending") : "none";
          return html`<th aria-sort=${direction} class=${NUMERIC.test(type) ? "numeric" : ""}>
            <button type="button" class="sort" title=${type ? `${name}: ${type}` : name} onClick=${() => sort(name)}>${name}<span class="arrow ${direction}"></span></button>
          </th>`;
        })}</tr></thead>
        <tbody>${drawn.map(
          (row) => html`<tr>${columns.map(
            ({ name, type }) => html`<td class=${NUMERIC.test(type) ? "numeric" : ""}><${Value} value=${row[name]} /></td>`,
          )}</tr>`,
        )}</tbody>
      </table>
    </div>
    ${sorted.length > ROWS_MAX && html`<p class="muted small table-note">The first ${number(ROWS_MAX)} of ${number(sorted.length)} rows are drawn. A download has all of them.</p>`}`;
}

function sortRows(rows, columns, order) {
  if (!order) return rows;
  const isNumeric = NUMERIC.test(columns.find(({ name }) => name === order.name)?.type);
  const compare = isNumeric ? compareNumbers : (left, right) => (left < right ? -1 : left > right ? 1 : 0);
  const keyOf = isNumeric ? (value) => value : textOf;
  return [...rows].sort((left, right) => {
    const [a, b] = [left[order.name] ?? null, right[order.name] ?? null];
    if (a === null || b === null) return (a === null) - (b === null);
    return order.sign * compare(keyOf(a), keyOf(b));
  });
}

// 64-bit integers are strings: compare them as such where a number is not exact.
function compareNumbers(left, right) {
  const difference = Number(left) - Number(right);
  if (difference !== 0 || typeof left !== "string" || typeof right !== "string") return difference;
  const [a, b] = [BigInt(left), BigInt(right)];
  return a < b ? -1 : a > b ? 1 : 0;
}

export function toCsv(columns, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : textOf(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = rows.map((row) => columns.map(({ name }) => cell(row[name])).join(","));
  return [columns.map(({ name }) => cell(name)).join(","), ...lines, ""].join("\r\n");
}

export function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser may read it later
}
