// The commits of all branches, newest first, with the lines of their parents; of a chosen commit what it changed.

import { html, useEffect, useMemo, useRef } from "../../vendor/htm-preact.js";
import { getCommit, getCommitChanges, listLog } from "../api.js";
import { ChangePages } from "../parts/changes.js";
import { Icon } from "../parts/icons.js";
import { drawLanes, Lanes } from "../parts/lanes.js";
import { Answer, Command, count, Empty, ErrorBox, Id, number, Panel, Time } from "../parts/widgets.js";
import { makeAddress, usePages, usePlace, useRequest } from "../state.js";

const COMMITS = 100;
const CHANGES = 50;
const COLOURS = 8;

export function HistoryPage({ address }) {
  const { graph } = usePlace();
  const pages = usePages((page_token, signal) => listLog(graph, { limit: COMMITS, page_token }, { signal }), (document) => document.commits, [graph]);
  const selected = address.rest[0];
  return html`<div class="page-head"><h1>History</h1></div>
    <div class="history ${selected ? "with-details" : ""}">
      <${Panel} kind="flush" title="Commits of all branches">
        <${Answer} answer=${pages.first}>${({ heads }) => html`<${CommitList} commits=${pages.list} heads=${heads} selected=${selected} />
          ${pages.error && html`<${ErrorBox} error=${pages.error} />`}
          ${pages.next && html`<p class="table-note"><button type="button" id="more-commits" disabled=${pages.isLoading} onClick=${pages.next}>Load more</button></p>`}`}<//>
      <//>
      ${selected && html`<${CommitDetails} key=${selected} id=${selected} />`}
    </div>`;
}

function CommitList({ commits, heads, selected }) {
  const { link, ref } = usePlace();
  const rows = useMemo(() => drawLanes(commits, colours(commits, heads)), [commits.length, heads]);
  if (!commits.length) return html`<${Empty} title="No commits" command="omnigraph load --data data.jsonl GRAPH" />`;
  const width = Math.max(...rows.map((row) => row.width));
  const names = Object.keys(heads);
  return html`<ol class="commits">${commits.map((commit, index) => {
    const id = commit.graph_commit_id;
    const here = names.filter((name) => heads[name] === id);
    return html`<li class="commit ${id === selected || (!selected && id === ref) ? "current" : ""}" key=${id}>
      <${Lanes} row=${rows[index]} width=${width} isMerge=${Boolean(commit.merged_parent_commit_id)} />
      <a class="commit-main" href=${link("history", id === selected ? [] : [id])} aria-current=${id === selected ? "true" : undefined}>
        <span class="commit-operation">${commit.operation}</span><span class="muted small clip">${countsText(commit.counts)}</span>
        ${here.map((name) => html`<span class="tag accent clip" title=${`The newest commit of branch ${name}`}>${name}</span>`)}
      </a>
      <span class="commit-actor muted small" title=${commit.actor_id}><${Icon} name="user" /><span class="clip">${commit.actor_id}</span></span>
      <span class="commit-time muted small"><${Time} at=${commit.created_at} /></span>
      <${Id} id=${id} />
    </li>`;
  })}</ol>`;
}

// Return the colour of a commit: that of its branch, main first.
function colours(commits, heads) {
  const names = new Set(["main", ...Object.keys(heads), ...commits.map((commit) => commit.graph_branch)]);
  const numbers = new Map([...names].map((name, index) => [name, index % COLOURS]));
  return (commit) => numbers.get(commit.graph_branch);
}

// A load and a merge count what they did, a change its nodes and edges, an older load the rows of each type.
function countsText(counts = {}) {
  const done = ["inserted", "updated", "deleted"].filter((name) => counts[name] > 0).map((name) => `${number(counts[name])} ${name}`);
  if (done.length) return done.join(", ");
  const { nodes = 0, edges = 0, steps = 0 } = counts;
  if (nodes || edges) return `${count(nodes, "node")}, ${count(edges, "edge")}`;
  const rows = Object.keys(counts).filter((name) => name.includes(":")).reduce((sum, name) => sum + counts[name], 0);
  return steps ? count(steps, "schema step") : rows ? count(rows, "row") : "";
}

function CommitDetails({ id }) {
  const { graph, link } = usePlace();
  const commit = useRequest((signal) => getCommit(graph, id, { signal }), [graph, id]);
  const pages = usePages((page_token, signal) => getCommitChanges(graph, id, { limit: CHANGES, page_token }, { signal }), (document) => document.changes, [graph, id]);
  const panel = useRef(null);
  useEffect(() => {
    if (panel.current.getBoundingClientRect().top < 0) panel.current.scrollIntoView();
  }, []);
  return html`<div class="details" ref=${panel}>
    <${Panel} title="Commit" actions=${html`<a class="button" href=${link("history")}>Close</a>`}>
      <${Answer} answer=${commit}>${(document) => html`<${CommitFacts} commit=${document} />`}<//>
    <//>
    <${Panel} title="Changed entities"><${ChangePages} pages=${pages} /><//>
  </div>`;
}

function CommitFacts({ commit }) {
  const { graph, link } = usePlace();
  const { graph_commit_id: id, graph_branch: branch, parent_commit_id: parent, merged_parent_commit_id: merged } = commit;
  const command = `omnigraph commit revert ${id} GRAPH${branch && branch !== "main" ? ` --branch ${branch}` : ""}`;
  return html`<dl class="facts">
      <dt>id</dt><dd><code class="break">${id}</code></dd>
      <dt>branch</dt><dd>${branch || "–"}</dd>
      <dt>operation</dt><dd>${commit.operation} <span class="muted">${countsText(commit.counts)}</span></dd>
      <dt>actor</dt><dd>${commit.actor_id || "–"}</dd>
      <dt>time</dt><dd><${Time} at=${commit.created_at} /></dd>
      ${parent && html`<dt>parent</dt><dd><${Id} id=${parent} href=${link("history", [parent])} /></dd>`}
      ${merged && html`<dt>merged</dt><dd><${Id} id=${merged} href=${link("history", [merged])} /></dd>`}
      ${commit.tables.length > 0 && html`<dt>tables</dt><dd>${commit.tables.map(({ table_key: key }) => (commit.counts[key] ? `${key} (${count(commit.counts[key], "row")})` : key)).join(", ")}</dd>`}
    </dl>
    <div class="actions">
      <a class="button" href=${makeAddress({ graph, ref: id, page: "query" })}>Query this state</a>
      ${parent && html`<a class="button" href=${link("branches", ["compare"], { from: parent, to: id })}>Compare with parent</a>`}
    </div>
    ${parent && html`<div class="stack"><h3>Undo this commit with a new one</h3><${Command} text=${command} /></div>`}`;
}
