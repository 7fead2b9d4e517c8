// Changed entities, before and after, property by property.

import { html, useState } from "../../vendor/htm-preact.js";
import { getSchema } from "../api.js";
import { usePlace, useRequest } from "../state.js";
import { BlobLink, isBlobText } from "./blobs.js";
import { textOf, Value } from "./table.js";
import { Answer, Empty, ErrorBox } from "./widgets.js";

const NAMES = { insert: "inserted", update: "updated", delete: "deleted" };
const SIGNS = { insert: "+", update: "~", delete: "−" };

// Show a list of `usePages`, with a button for the next page.
export function ChangePages({ pages }) {
  return html`<${Answer} answer=${pages.first}>${(document) => html`<${ChangeList} changes=${pages.list} document=${document} />
    ${pages.next && html`<p><button type="button" id="more-changes" disabled=${pages.isLoading} onClick=${pages.next}>Load more</button></p>`}
    ${pages.error && html`<${ErrorBox} error=${pages.error} />`}`}<//>`;
}

function ChangeList({ changes, document: { cause, from, to } }) {
  const states = { before: cause ? cause.parent_commit_id : from, after: cause ? cause.graph_commit_id : to };
  const blobs = useBlobs(changes, Object.values(states));
  if (!changes.length) return html`<${Empty} title="No entity differs" />`;
  const isFew = changes.length <= 5;
  return html`<${Answer} answer=${blobs}>${(names) => html`<ul class="changes">${changes.map((change) => html`<${ChangedEntity} key=${`${change.type.id} ${change.id} ${change.op}`} change=${change} isFirst=${isFew} states=${states} blobs=${names} />`)}</ul>`}<//>`;
}

// The Blob properties of both states. In a change a blob is text as that of a String, so only the schema tells them apart.
function useBlobs(changes, states) {
  const { graph } = usePlace();
  const isNeeded = changes.some((change) => [change.before, change.after].some((state) => Object.values(state?.properties || {}).some(isBlobText)));
  const read = (signal) => Promise.all(isNeeded ? states.filter(Boolean).map((snapshot) => getSchema(graph, { snapshot }, { signal })) : []);
  const namesOf = (kind) => (type) => (type.properties || []).filter((property) => property.type.kind === "Blob").map((property) => `${kind}:${type.name} ${property.name}`);
  const collect = (schemas) => new Set(schemas.flatMap(({ catalog }) => [...(catalog.nodes || []).flatMap(namesOf("node")), ...(catalog.edges || []).flatMap(namesOf("edge"))]));
  return useRequest((signal) => read(signal).then(collect), [graph, isNeeded, ...states]);
}

function ChangedEntity({ change, isFirst, states, blobs }) {
  const [isOpen, setOpen] = useState(isFirst);
  const ends = (change.after || change.before)?.endpoints;
  return html`<li class="change ${change.op}">
    <button type="button" class="change-head" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>
      <span class="sign">${SIGNS[change.op]}</span>
      <span class="change-type">${change.type.name}</span>
      <code class="clip">${ends ? `${ends.from} → ${ends.to}` : change.id}</code>
      <span class="muted small">${NAMES[change.op]}</span>
    </button>
    ${isOpen && html`<${Properties} change=${change} id=${ends ? change.id : null} states=${states} blobs=${blobs} />`}
  </li>`;
}

// Show both values of what changed; of a new or deleted entity, the values that it has.
function Properties({ change, id, states, blobs }) {
  const [before, after] = [change.before?.properties, change.after?.properties];
  const show = (name, value, snapshot) => (blobs.has(`${change.kind}:${change.type.name} ${name}`) && isBlobText(value)
    ? html`<${BlobLink} text=${value} file=${`${change.id}-${name}`} query=${{ entity: change.kind, type: change.type.name, id: change.id, property: name, snapshot }} />`
    : html`<${Value} value=${value} />`);
  const names = Object.keys(after || before || {});
  const isUpdate = before && after;
  const rows = names.filter((name) => (isUpdate ? !isSame(before[name], after[name]) : (after || before)[name] !== null));
  const rest = names.length - rows.length;
  return html`<div class="table-box inner"><table class="properties">
    ${isUpdate && html`<thead><tr><th>property</th><th>before</th><th>after</th></tr></thead>`}
    <tbody>
      ${id && html`<tr><td class="muted">id</td><td colspan=${isUpdate ? 2 : 1}><code>${id}</code></td></tr>`}
      ${rows.map(
        (name) => html`<tr><td class="muted">${name}</td>
          ${before && html`<td class="old">${show(name, before[name], states.before)}</td>`}
          ${after && html`<td class="new">${show(name, after[name], states.after)}</td>`}</tr>`,
      )}
      ${isUpdate && rest > 0 && html`<tr><td colspan="3" class="muted small">${rest} other ${rest === 1 ? "property is" : "properties are"} equal</td></tr>`}
      ${!isUpdate && !rows.length && !id && html`<tr><td class="muted small">no properties</td></tr>`}
    </tbody>
  </table></div>`;
}

const isSame = (left, right) => textOf(left ?? null) === textOf(right ?? null);
