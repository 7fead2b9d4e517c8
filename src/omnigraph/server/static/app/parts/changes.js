// Changed entities, before and after, property by property.

import { html, useState } from "../../vendor/htm-preact.js";
import { textOf, Value } from "./table.js";
import { Answer, Empty, ErrorBox } from "./widgets.js";

const NAMES = { insert: "inserted", update: "updated", delete: "deleted" };
const SIGNS = { insert: "+", update: "~", delete: "−" };

// Show a list of `usePages`, with a button for the next page.
export function ChangePages({ pages }) {
  return html`<${Answer} answer=${pages.first}>${() => html`<${ChangeList} changes=${pages.list} hasMore=${Boolean(pages.next)} onMore=${pages.next} isLoading=${pages.isLoading} />
    ${pages.error && html`<${ErrorBox} error=${pages.error} />`}`}<//>`;
}

export function ChangeList({ changes, hasMore, onMore, isLoading }) {
  if (!changes.length) return html`<${Empty} title="No entity differs" />`;
  const isFew = changes.length <= 5;
  return html`<ul class="changes">${changes.map((change) => html`<${ChangedEntity} key=${`${change.type.id} ${change.id} ${change.op}`} change=${change} isFirst=${isFew} />`)}</ul>
    ${hasMore && (onMore ? html`<p><button type="button" id="more-changes" disabled=${isLoading} onClick=${onMore}>Load more</button></p>` : html`<p class="muted small">There are more changes.</p>`)}`;
}

function ChangedEntity({ change, isFirst }) {
  const [isOpen, setOpen] = useState(isFirst);
  const ends = (change.after || change.before)?.endpoints;
  return html`<li class="change ${change.op}">
    <button type="button" class="change-head" aria-expanded=${String(isOpen)} onClick=${() => setOpen(!isOpen)}>
      <span class="sign">${SIGNS[change.op]}</span>
      <span class="change-type">${change.type.name}</span>
      <code class="clip">${ends ? `${ends.from} → ${ends.to}` : change.id}</code>
      <span class="muted small">${NAMES[change.op]}</span>
    </button>
    ${isOpen && html`<${Properties} before=${change.before?.properties} after=${change.after?.properties} id=${ends ? change.id : null} />`}
  </li>`;
}

// Show both values of what changed; of a new or deleted entity, the values that it has.
export function Properties({ before, after, id }) {
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
          ${before && html`<td class="old"><${Value} value=${before[name]} /></td>`}
          ${after && html`<td class="new"><${Value} value=${after[name]} /></td>`}</tr>`,
      )}
      ${isUpdate && rest > 0 && html`<tr><td colspan="3" class="muted small">${rest} other ${rest === 1 ? "property is" : "properties are"} equal</td></tr>`}
      ${!isUpdate && !rows.length && !id && html`<tr><td class="muted small">no properties</td></tr>`}
    </tbody>
  </table></div>`;
}

const isSame = (left, right) => textOf(left ?? null) === textOf(right ?? null);
