// The graphs of the server: state, types and counts. Quarantined graphs are listed with the reason.

import { html } from "../../vendor/htm-preact.js";
import { getSnapshot, readyz } from "../api.js";
import { Answer, count, Empty, number, Panel, sentence } from "../parts/widgets.js";
import { makeAddress, useRequest } from "../state.js";

const STATES = {
  open: "Everyone may read and write.",
  read: "Tokens allow reading.",
  write: "Tokens allow reading and writing.",
  policy: "A policy decides what a token allows.",
};

export function GraphsPage({ graphs, caller }) {
  const readiness = useRequest((signal) => readyz({ signal }), []);
  return html`<div class="page-head"><h1>Graphs</h1></div>
    <p class="muted">${count(graphs.graphs.length, "graph")}${graphs.quarantined?.length > 0 && `, ${number(graphs.quarantined.length)} quarantined`}, requests as <strong>${caller.actor_id || "anonymous"}</strong>. ${STATES[caller.state]}
      ${readiness.value && readiness.value.status !== "serving" && html` <span class="tag warning">${readiness.value.status}</span>`}</p>
    ${graphs.graphs.length === 0 && html`<${Empty} title="The server has no graphs" command="omnigraph serve GRAPH --unauthenticated" />`}
    <div class="cards">
      ${graphs.graphs.map((graph) => html`<${GraphCard} key=${graph.graph_id} id=${graph.graph_id} />`)}
      ${(graphs.quarantined || []).map(
        (graph) => html`<${Panel} key=${graph.graph_id} title=${graph.graph_id} actions=${html`<span class="tag error">quarantined</span>`}>
          <p>${sentence(graph.message)}</p><p class="muted small">code <code>${graph.code}</code></p>
        <//>`,
      )}
    </div>`;
}

function GraphCard({ id }) {
  const snapshot = useRequest((signal) => getSnapshot(id, {}, { signal }), [id]);
  const link = (page) => makeAddress({ graph: id, ref: "main", page });
  const pages = ["query", "schema", "history", "branches", "health"];
  return html`<${Panel} title=${html`<a href=${link("query")}>${id}</a>`} actions=${html`<span class="tag success">serving</span>`}>
    <${Answer} answer=${snapshot}>${({ datasets }) => html`
      ${["node", "edge"].map((kind) => {
        const types = datasets.filter((dataset) => dataset.entity_kind === kind);
        if (!types.length) return null;
        const total = types.reduce((sum, dataset) => sum + dataset.entity_count, 0);
        return html`<h3>${count(total, kind)} of ${count(types.length, "type")}</h3>
          <ul class="type-counts">${types.map((dataset) => html`<li><span class="clip" title=${dataset.type_name}>${dataset.type_name}</span><span class="mono">${number(dataset.entity_count)}</span></li>`)}</ul>`;
      })}
      <p class="card-links">${pages.map((page) => html`<a href=${link(page)}>${page}</a>`)}</p>`}<//>
  <//>`;
}
