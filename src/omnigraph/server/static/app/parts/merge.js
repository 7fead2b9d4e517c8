// Preview a merge: what would change and every conflict, each with a decision. Then run it.

import { html, useEffect, useState } from "../../vendor/htm-preact.js";
import { mergeBranches } from "../api.js";
import { usePlace, useRequest } from "../state.js";
import { Icon } from "./icons.js";
import { RefSelect } from "./refs.js";
import { textOf, Value } from "./table.js";
import { Answer, Confirm, count, Empty, ErrorBox, Id, Notice, number, Panel } from "./widgets.js";

const OUTCOMES = {
  fast_forward: (source, target) => `${target} has no commits of its own, and takes those of ${source}.`,
  merged: (source, target) => `${source} can be merged into ${target}.`,
};
const KINDS = {
  divergent_insert: "inserted on both branches",
  divergent_update: "changed on both branches",
  delete_vs_update: "deleted and changed",
  orphan_edge: "edge without endpoint",
  unique_violation: "duplicate unique value",
  cardinality_violation: "invalid number of edges",
  value_constraint_violation: "invalid value",
  schema_diverged: "schemas diverged",
};
// Conflicts of the schema have no entity: one branch must be changed before the merge.
const isOfSchema = (conflict) => conflict.kind === "schema_diverged";
const keyOf = (conflict) => `${conflict.entity_kind}:${conflict.type_name} ${conflict.entity_id}`;

export function MergeView({ options }) {
  const { graph, ref, branches, link, may, reload } = usePlace();
  const names = branches.branches;
  const target = options.target || "main";
  const source = options.source || (ref !== target && names.includes(ref) ? ref : names.find((name) => name !== target));
  const [takes, setTakes] = useState({});
  const [run, setRun] = useState({});
  const [isAsking, setAsking] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const request = { source, target };
  const canPreview = source && source !== target;
  const preview = useRequest((signal) => (canPreview ? mergeBranches(graph, { ...request, dry_run: true }, { signal }) : Promise.resolve(null)), [graph, source, target]);
  const conflicts = preview.value?.merge_conflicts || [];
  const isDiverged = conflicts.some(isOfSchema);
  const isDecided = conflicts.every((conflict) => takes[keyOf(conflict)] && !isOfSchema(conflict));
  const resolve = conflicts.length
    ? conflicts.map((conflict) => ({ entity_kind: conflict.entity_kind, type_name: conflict.type_name, entity_id: conflict.entity_id, take: takes[keyOf(conflict)] }))
    : undefined;
  const decided = useRequest(
    (signal) => (canPreview && conflicts.length && isDecided ? mergeBranches(graph, { ...request, dry_run: true, resolve }, { signal }) : Promise.resolve(null)),
    [preview.value, JSON.stringify(takes)],
  );
  useEffect(() => {
    setTakes({});
    setRun({});
  }, [source, target]);
  if (names.length < 2) return html`<${Panel}><${Empty} title="There is no branch to merge" command=${may("branch_create") && "omnigraph branch create review GRAPH"} /><//>`;

  const go = (change) => {
    location.hash = link("branches", ["merge"], { source, target, ...change });
  };
  const takeAll = (side) => setTakes(Object.fromEntries(conflicts.map((conflict) => [keyOf(conflict), side])));
  const merge = async () => {
    setAsking(false);
    setRun({ isBusy: true });
    try {
      const result = await mergeBranches(graph, { ...request, resolve, delete_branch: isDeleting });
      setRun({ result });
      setTakes({});
      if (!result.branch_deleted) preview.reload();
      reload();
    } catch (error) {
      setRun({ error });
    }
  };
  const canMerge = canPreview && preview.value && preview.value.outcome !== "already_up_to_date" && isDecided && !run.result?.branch_deleted && !preview.isLoading && !decided.error && !run.isBusy;
  return html`<div class="panel form-line">
      <${RefSelect} id="merge-source" label="Merge" value=${source} onChange=${(value) => go({ source: value })} />
      <${RefSelect} id="merge-target" label="into" value=${target} onChange=${(value) => go({ target: value })} />
      ${may("branch_merge") && html`<button type="button" id="merge" class="primary" disabled=${!canMerge} onClick=${() => setAsking(true)}><${Icon} name="merge" />Merge …</button>`}
      ${!may("branch_merge") && html`<span class="small warning-text form-note">Your token does not allow merges. This is a preview.</span>`}
    </div>
    ${run.error && html`<${ErrorBox} error=${run.error} />`}
    ${run.result && html`<${MergeResult} result=${run.result} />`}
    ${!canPreview && html`<${Notice}><p>Choose two different branches.</p><//>`}
    ${canPreview && !run.result && html`<${Answer} answer=${preview}>${(document) => document && html`
      <${Preview} document=${decided.value || document} conflicts=${conflicts} isDecided=${isDecided} isDiverged=${isDiverged} />
      ${decided.error && html`<${ErrorBox} error=${decided.error} />`}
      ${conflicts.length > 0 && html`<${Panel} title=${count(conflicts.length, "conflict")} actions=${!isDiverged && html`
          <button type="button" id="take-ours" onClick=${() => takeAll("ours")}><span class="clip">Take all of ${target}</span></button>
          <button type="button" id="take-theirs" onClick=${() => takeAll("theirs")}><span class="clip">Take all of ${source}</span></button>`}>
        <ul class="changes">${conflicts.map((conflict) => html`<${MergeConflict} key=${keyOf(conflict)} conflict=${conflict} source=${source} target=${target}
          take=${takes[keyOf(conflict)]} onTake=${(side) => setTakes({ ...takes, [keyOf(conflict)]: side })} />`)}</ul>
      <//>`}`}<//>`}
    ${isAsking && html`<${Confirm} title="Merge branches" action=${`Merge into ${target}`} onConfirm=${merge} onCancel=${() => setAsking(false)}>
      <p>The changes of <strong>${source}</strong> become one commit of <strong>${target}</strong>, with you as its actor.</p>
      ${may("branch_delete") && source !== "main" && html`<label class="check"><input type="checkbox" id="delete-source" checked=${isDeleting} onChange=${(event) => setDeleting(event.target.checked)} /> Delete branch ${source} afterwards</label>`}
    <//>`}`;
}

function Preview({ document, conflicts, isDecided, isDiverged }) {
  const { link } = usePlace();
  const { source, target, outcome, tables, schema_steps: steps } = document;
  const compare = html`<a href=${link("branches", ["compare"], { from: target, to: source })}>Compare them entity by entity</a>`;
  if (outcome === "already_up_to_date") return html`<${Panel}><${Empty} title=${`${target} is already up to date with ${source}`}>There is nothing to merge.<//><//>`;
  const isOpen = (conflicts.length > 0 && !isDecided) || !OUTCOMES[outcome]; // also while the decisions are checked
  const text = isDiverged ? `${source} cannot be merged into ${target}, because their schemas diverged. Change the schema of one of them first.`
    : isOpen ? `Decide ${count(conflicts.length, "conflict")} to merge ${source} into ${target}.` : OUTCOMES[outcome](source, target);
  return html`<${Notice} kind=${isOpen ? "warning" : "info"}><p><strong>${text}</strong></p><p>${compare}</p><//>
    ${!isDiverged && html`<${Panel} kind="flush" title="What would change">
      ${steps.length > 0 && html`<ul class="steps">${steps.map((step) => html`<li><span class="tag accent">schema</span> ${step.text}</li>`)}</ul>`}
      ${tables.length ? html`<div class="table-box"><table>
        <thead><tr><th>table</th><th class="numeric">inserted</th><th class="numeric">updated</th><th class="numeric">deleted</th></tr></thead>
        <tbody>${tables.map((table) => html`<tr><td>${table.table_key}</td>${["inserted", "updated", "deleted"].map((name) => html`<td class="numeric">${number(table[name])}</td>`)}</tr>`)}</tbody>
      </table></div>` : !steps.length && html`<p class="muted table-note">No entity of ${target} would change.</p>`}
    <//>`}`;
}

function MergeConflict({ conflict, source, target, take, onTake }) {
  const { base, ours, theirs } = conflict;
  const names = [...new Set([base, ours, theirs].flatMap((side) => Object.keys(side?.data || {})))];
  const differing = conflict.properties?.length ? names.filter((name) => conflict.properties.includes(name)) : names.filter((name) => new Set([base, ours, theirs].map((side) => textOf(side?.data?.[name] ?? null))).size > 1);
  const side = (id, branch, entity) => html`<th><label class="check"><input type="radio" name=${keyOf(conflict)} value=${id} checked=${take === id} onChange=${() => onTake(id)} />
    <span class="clip" title=${branch}>${branch}</span>${!entity && html` <span class="muted">(deleted)</span>`}</label></th>`;
  return html`<li class="conflict">
    <p class="conflict-head"><span class="tag error" title=${conflict.kind}>${KINDS[conflict.kind] || conflict.kind}</span> <strong>${conflict.type_name}</strong> ${conflict.entity_id && html`<code>${conflict.entity_id}</code>`} <span class="muted">${conflict.message}</span></p>
    ${isOfSchema(conflict) ? html`<${SchemaPlans} plans=${conflict.plans} source=${source} target=${target} />` : html`<div class="table-box inner"><table class="properties">
      <thead><tr><th>property</th><th>before</th>${side("ours", target, ours)}${side("theirs", source, theirs)}</tr></thead>
      <tbody>${differing.map((name) => html`<tr><td class="muted">${name}</td>${[["", base], ["ours", ours], ["theirs", theirs]].map(
        ([id, entity]) => html`<td class=${id && take === id ? "taken" : ""}>${entity ? html`<${Value} value=${entity.data[name]} />` : html`<span class="null">–</span>`}</td>`)}</tr>`)}</tbody>
    </table></div>`}
  </li>`;
}

// How the schema of each branch changed since their common state.
function SchemaPlans({ plans, source, target }) {
  return html`<div class="columns">${[[target, plans.ours], [source, plans.theirs]].map(([branch, steps]) => html`<div class="stack">
    <h3>Schema changes of ${branch}</h3><ul>${steps.map((step) => html`<li><code>${step}</code></li>`)}</ul></div>`)}</div>`;
}

function MergeResult({ result }) {
  const { link } = usePlace();
  const id = result.commit?.graph_commit_id;
  return html`<${Notice} kind="success">
      <p><strong>Merged ${result.source} into ${result.target}</strong> ${id && html`as commit <${Id} id=${id} href=${link("history", [id])} />`}</p>
      ${result.branch_deleted && html`<p>Deleted branch ${result.source}</p>`}
    <//>
    ${result.branch_delete_error && html`<${ErrorBox} error=${{ message: result.branch_delete_error, hint: result.branch_delete_error_details?.hint || "" }} />`}`;
}
