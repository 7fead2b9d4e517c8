// The stored queries of a cluster. The server describes how to call them, and keeps their text.

import { html } from "../../vendor/htm-preact.js";
import { usePlace } from "../state.js";
import { Answer, Prose } from "./widgets.js";

const TYPES = { bool: "Bool", int: "I32", bigint: "I64", float: "F64", list: "[String]", vector: "Vector", string: "String" };

// Return a stored query in the form in which a checked text describes its queries.
export function describeStored({ name, mutation, params, description, instruction }) {
  const parameters = params.map((parameter) => ({ name: parameter.name, nullable: parameter.nullable, type: TYPES[parameter.kind] || "String" }));
  return { name, kind: mutation ? "mutation" : "read", parameters, description, instruction, isStored: true };
}

// The type of a column decides how it is sorted and aligned. Integers of 64 bits arrive as strings.
export function columnsOf({ columns, rows }) {
  return columns.map((name) => {
    const values = rows.map((row) => row[name]).filter((value) => value !== null && value !== undefined);
    const isNumeric = values.length > 0 && values.every((value) => typeof value === "number" || (typeof value === "string" && /^-?\d{1,20}$/.test(value)));
    return { name, type: isNumeric ? "I64" : undefined };
  });
}

export function StoredList({ answer, current }) {
  const { link } = usePlace();
  return html`<${Answer} answer=${answer}>${({ queries }) => html`<ul class="rows">${queries.map(({ name, description, mutation }) => html`<li><a class="button row-button ${name === current ? "current" : ""}" data-stored=${name}
      aria-current=${name === current ? "true" : undefined} title=${description || name} href=${link("query", [], { stored: name })}>
      <code class="clip">${name}</code>${mutation && html`<span class="muted small">change</span>`}</a></li>`)}</ul>`}<//>`;
}

// What a stored query does, in the position of the editor.
export function StoredHead({ query }) {
  const { link } = usePlace();
  return html`<div class="stored">
    <p><code>${query.name}</code> <span class="tag">${query.kind === "mutation" ? "stored change" : "stored query"}</span><span class="spring"></span><a href=${link("query")}>Close</a></p>
    ${[query.description, query.instruction].filter(Boolean).map((text) => html`<p><${Prose} text=${text} /></p>`)}
  </div>`;
}
