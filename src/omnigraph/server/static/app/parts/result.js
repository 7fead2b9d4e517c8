// The result of a query: rows, JSON, graph and plan; and the result of a change: its commit and the changed entities.

import { html, useMemo, useState } from "../../vendor/htm-preact.js";
import { getCommitChanges } from "../api.js";
import { usePages, usePlace } from "../state.js";
import { ChangePages } from "./changes.js";
import { hasEntities, spreadEntities } from "./entities.js";
import { GraphView } from "./graphview.js";
import { Icon } from "./icons.js";
import { PlanView } from "./plan.js";
import { DataTable, download, toCsv } from "./table.js";
import { count, Empty, Id, Notice, Panel, Tabs } from "./widgets.js";

const JSON_CUT = 200_000;

export function ReadResult({ run, types }) {
  const { result, columns, milliseconds } = run;
  const [selected, setSelected] = useState("rows");
  const file = `${result.query_name}-${result.graph_commit_id.slice(-8)}`;
  const csv = () => download(`${file}.csv`, "text/csv", toCsv(columns, result.rows));
  const json = () => download(`${file}.json`, "application/json", JSON.stringify(result.rows, null, 2));
  const table = useMemo(() => spreadEntities(columns, result.rows, types), [columns, result.rows, types]);
  // The server does not return the text of a stored query, nor the types of its columns.
  const ofText = run.isStored ? [] : [{ id: "graph", text: "Graph" }, { id: "plan", text: "Plan" }];
  const tabs = [{ id: "rows", text: "Rows", amount: result.row_count }, { id: "json", text: "JSON" }, ...ofText];
  const tab = tabs.some(({ id }) => id === selected) ? selected : "rows";
  return html`<${Panel} kind="flush">
    <div class="result-head">
      <${Tabs} label="Result" tabs=${tabs} current=${tab} onSelect=${setSelected} />
      <span class="spring"></span>
      <span class="muted small">${formatDuration(milliseconds)}<span class="wide"> at commit</span></span><${Id} id=${result.graph_commit_id} />
      <button type="button" title="Download all rows as CSV" onClick=${csv}><${Icon} name="download" />CSV</button>
      <button type="button" title="Download all rows as JSON" onClick=${json}><${Icon} name="download" />JSON</button>
    </div>
    ${tab === "rows" && (result.rows.length ? html`<${DataTable} caption="Rows" columns=${table.columns} rows=${table.rows} />` : html`<${Empty} title="No rows">The query is correct, and nothing matches it.<//>`)}
    ${tab === "graph" && (hasEntities(columns, types) ? html`<${GraphView} rows=${result.rows} columns=${columns} types=${types} />`
      : html`<${Empty} title="The result has no entities">Return whole nodes or edges, for example <code>return { $p }</code>.<//>`)}
    ${tab === "plan" && html`<${PlanView} request=${run.request} />`}
    ${tab === "json" && html`<${JsonText} value=${result.rows} />`}
  <//>`;
}

const formatDuration = (milliseconds) => (milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`);

function JsonText({ value }) {
  const text = useMemo(() => JSON.stringify(value, null, 2), [value]);
  return html`<pre class="code flat" tabindex="0">${text.slice(0, JSON_CUT)}</pre>
    ${text.length > JSON_CUT && html`<p class="muted small table-note">The text is cut here. The download has all of it.</p>`}`;
}

export function ChangeResult({ change }) {
  const { graph, link } = usePlace();
  const id = change.commit?.graph_commit_id;
  const read = (page_token, signal) => (id ? getCommitChanges(graph, id, { limit: 100, page_token }, { signal }) : Promise.resolve({ changes: [] }));
  const pages = usePages(read, (document) => document.changes, [id]);
  if (!id) return html`<${Notice}>Nothing changed, so no commit was created.<//>`;
  return html`<${Notice} kind="success"><p><strong>Changed ${count(change.affected_nodes, "node")} and ${count(change.affected_edges, "edge")}</strong> on branch ${change.branch}, commit <${Id} id=${id} href=${link("history", [id])} /></p><//>
    <${Panel} title="Changed entities"><${ChangePages} pages=${pages} /><//>`;
}
