// Branches: list, create, delete; compare two states; preview a merge and run it.

import { html, useState } from "../../vendor/htm-preact.js";
import { createBranch, deleteBranch, diffStates } from "../api.js";
import { ChangePages } from "../parts/changes.js";
import { MergeView } from "../parts/merge.js";
import { RefSelect } from "../parts/refs.js";
import { Confirm, Empty, ErrorBox, Id, Notice, number, Panel, Tabs, Time } from "../parts/widgets.js";
import { makeAddress, usePages, usePlace } from "../state.js";

const CHANGES = 100;
const VIEWS = [{ id: "list", text: "Branches" }, { id: "compare", text: "Compare" }, { id: "merge", text: "Merge" }];

export function BranchesPage({ address }) {
  const { link } = usePlace();
  const view = VIEWS.find(({ id }) => id === address.rest[0])?.id || "list";
  const select = (id) => {
    location.hash = link("branches", id === "list" ? [] : [id]);
  };
  const View = { list: ListView, compare: CompareView, merge: MergeView }[view];
  return html`<div class="page-head"><h1>Branches</h1></div>
    <div class="tab-line"><${Tabs} label="Branches" tabs=${VIEWS} current=${view} onSelect=${select} /></div>
    <${View} key=${view} options=${address.options} />`;
}

function ListView() {
  const { branches, reload, graph, ref, may } = usePlace();
  const [pending, setPending] = useState(null);
  const [outcome, setOutcome] = useState(null);
  const remove = async () => {
    setPending(null);
    try {
      await deleteBranch(graph, pending);
      if (pending === ref) location.hash = makeAddress({ graph, ref: "main", page: "branches" });
      setOutcome({ text: `Deleted branch ${pending}` });
      reload();
    } catch (error) {
      setOutcome({ error });
    }
  };
  return html`
    ${outcome?.error && html`<${ErrorBox} error=${outcome.error} />`}
    ${outcome?.text && html`<${Notice} kind="success"><p><strong>${outcome.text}</strong></p><//>`}
    ${may("branch_create") && html`<${CreateForm} onDone=${(name) => setOutcome({ text: `Created branch ${name}` })} onError=${(error) => setOutcome({ error })} />`}
    <${Panel} kind="flush">
      <div class="table-box" tabindex="0" role="region" aria-label="Branches"><table class="branches">
        <thead><tr><th>branch</th><th class="numeric">ahead</th><th class="numeric">behind</th><th>newest commit</th><th>changed</th><th>created</th><th></th></tr></thead>
        <tbody>${branches.details.map((branch) => html`<${BranchRow} key=${branch.name} branch=${branch} onDelete=${() => setPending(branch.name)} />`)}</tbody>
      </table></div>
      ${branches.details.length === 1 && html`<${Empty} title="main is the only branch" command=${may("branch_create") && "omnigraph branch create review GRAPH"}>A branch is a copy that shares the files of its parent.<//>`}
    <//>
    <p class="muted small">Ahead and behind count commits relative to main.</p>
    ${pending && html`<${Confirm} title="Delete a branch" action=${`Delete branch ${pending}`} danger onConfirm=${remove} onCancel=${() => setPending(null)}>
      <p>The branch <strong>${pending}</strong> of graph <strong>${graph}</strong> is deleted. Commits that are only on it cannot be read afterwards.</p>
    <//>`}`;
}

function BranchRow({ branch, onDelete }) {
  const { graph, ref, link, may } = usePlace();
  const { name } = branch;
  const isMain = name === "main";
  return html`<tr class=${name === ref ? "current" : ""} data-branch=${name}>
    <td class="words branch-name"><a class="clip" title=${name} href=${makeAddress({ graph, ref: name, page: "query" })}>${name}</a>
      ${branch.protected && html` <span class="tag" title="A policy protects this branch">protected</span>`}
      ${!branch.readable && html` <span class="tag error" title=${branch.error}>not readable</span>`}</td>
    <td class="numeric" data-label=${isMain ? undefined : "ahead"}>${isMain ? "" : number(branch.ahead)}</td>
    <td class="numeric" data-label=${isMain ? undefined : "behind"}>${isMain ? "" : number(branch.behind)}</td>
    <td class="wide"><${Id} id=${branch.graph_commit_id} href=${branch.graph_commit_id && link("history", [branch.graph_commit_id])} /></td>
    <td class="words"><${Time} at=${branch.committed_at} /></td>
    <td class="words wide"><${Time} at=${branch.created_at} />${branch.actor_id && html`<span class="muted"> by <span class="clip" title=${branch.actor_id}>${branch.actor_id}</span></span>`}</td>
    <td class="row-actions">${!isMain && html`
      <a class="button" href=${link("branches", ["compare"], { from: "main", to: name })}>Compare</a>
      <a class="button" href=${link("branches", ["merge"], { source: name, target: "main" })}>Merge …</a>
      ${may("branch_delete") && html`<button type="button" class="delete" aria-label=${`Delete branch ${name}`} onClick=${onDelete}>Delete …</button>`}`}</td>
  </tr>`;
}

function CreateForm({ onDone, onError }) {
  const { graph, ref, branches, reload } = usePlace();
  const [from, setFrom] = useState(branches.branches.includes(ref) ? ref : "main");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const name = form.elements.name.value.trim();
    setBusy(true);
    try {
      await createBranch(graph, { name, from });
      form.reset();
      onDone(name);
      reload();
    } catch (error) {
      onError(error);
    }
    setBusy(false);
  };
  return html`<form class="panel form-line" onSubmit=${submit}>
    <label class="field grow"><span>New branch</span><input id="branch-name" name="name" required maxlength="255" placeholder="name" spellcheck=${false} autocomplete="off" /></label>
    <${RefSelect} id="branch-from" label="From" value=${from} onChange=${setFrom} />
    <button class="primary" id="create-branch" disabled=${isBusy}>Create</button>
  </form>`;
}

function CompareView({ options }) {
  const { graph, ref, branches, link } = usePlace();
  const from = options.from || "main";
  const to = options.to || (ref === from && branches.branches.find((name) => name !== from)) || ref;
  const go = (change) => {
    location.hash = link("branches", ["compare"], { from, to, ...change });
  };
  const pages = usePages((page_token, signal) => diffStates(graph, { from, to, limit: CHANGES, page_token }, { signal }), (document) => document.changes, [graph, from, to]);
  return html`<div class="panel form-line">
      <${RefSelect} id="compare-from" label="From" value=${from} onChange=${(value) => go({ from: value })} allowCommit />
      <button type="button" id="swap" title="Swap the two states" aria-label="Swap the two states" onClick=${() => go({ from: to, to: from })}>⇄</button>
      <${RefSelect} id="compare-to" label="To" value=${to} onChange=${(value) => go({ to: value })} allowCommit />
      <span class="muted small form-note">Each is a branch or a commit id.</span>
    </div>
    <${Panel} title=${html`${summary(pages)}`}><${ChangePages} pages=${pages} /><//>`;
}

function summary({ list, next, first }) {
  if (!first.value) return "Changed entities";
  const amounts = ["insert", "update", "delete"].map((op) => list.filter((change) => change.op === op).length);
  const text = `${number(amounts[0])} inserted, ${number(amounts[1])} updated, ${number(amounts[2])} deleted`;
  return next ? `The first ${number(list.length)} changes: ${text}` : text;
}
