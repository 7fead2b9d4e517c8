// The types of a graph as a diagram; of a chosen type its text, its indexes and some of its rows.

import { html, useMemo } from "../../vendor/htm-preact.js";
import { getCatalog, getSchema, runQuery } from "../api.js";
import { Diagram, layOut } from "../parts/diagram.js";
import { Code } from "../parts/editor.js";
import { DataTable } from "../parts/table.js";
import { declarationOf } from "../parts/tokens.js";
import { cardinalityText, columnsOfType, edgeWord, exampleQuery, isUnbuilt, TypeName, typesOf } from "../parts/types.js";
import { Answer, CopyButton, count, Empty, Notice, number, Panel } from "../parts/widgets.js";
import { usePlace, useRequest } from "../state.js";

const ROWS = 25;

export function SchemaPage({ address }) {
  const { graph, ref, state, link } = usePlace();
  const read = (signal) => Promise.all([getCatalog(graph, state, { signal }), getSchema(graph, state, { signal })]).then(describe);
  const answer = useRequest(read, [graph, ref]);
  const selected = address.rest[0];
  return html`<div class="page-head"><h1>Schema</h1></div>
    <${Answer} answer=${answer}>${({ types, layout, source }) => {
      if (!layout) return html`<${Empty} title="The schema has no types" command="omnigraph schema apply --schema schema.pg GRAPH" />`;
      const type = types.byKey.get(selected);
      return html`<${Panel} kind="flush" title=${html`${count(types.nodes.length, "node type")}, ${count(types.edges.length, "edge type")}`}>
          <${Diagram} types=${types} layout=${layout} selected=${selected} link=${(key) => link("schema", key === selected ? [] : [key])} />
        <//>
        ${selected && !type && html`<${Notice} kind="warning"><p>This state has no type <code>${selected}</code>.</p><//>`}
        ${type ? html`<${TypeDetails} key=${type.key} type=${type} source=${source} />`
          : html`<${Panel} title="Schema text" actions=${html`<${CopyButton} text=${source} label="Copy the schema" />`} kind="flush"><${Code} text=${source.trim()} /><//>`}`;
    }}<//>`;
}

async function describe([catalog, { schema_source: source }]) {
  const types = typesOf(catalog);
  return { types, source, layout: types.nodes.length ? await layOut(types) : null };
}

function TypeDetails({ type, source }) {
  const { link } = usePlace();
  const text = useMemo(() => declarationOf(source, type.name), [source, type.name]);
  const ends = type.kind === "edge" && html`<span class="muted">${type.source} → ${type.target}, ${cardinalityText(type)}</span>`;
  const actions = html`<a class="button" href=${link("query", [], { q: exampleQuery(type) })}>Query</a><a class="button" href=${link("schema")}>Close</a>`;
  return html`<${Panel} kind="type-details" title=${html`<${TypeName} type=${type} /> ${ends}`} actions=${actions}>
    <div class="columns">
      <div class="stack"><h3>Declaration</h3><${Code} text=${text} /></div>
      <div class="stack"><h3>Indexes</h3><${IndexTable} indexes=${type.indexes.filter((index) => index.kind)} /><${PendingVectors} type=${type} /></div>
    </div>
    <h3>${type.count > ROWS ? `${ROWS} of ${count(type.count, type.kind)}` : count(type.count, type.kind)}</h3>
    <${SampleRows} type=${type} />
  <//>`;
}

function IndexTable({ indexes }) {
  if (!indexes.length) return html`<p class="muted">No indexes.</p>`;
  return html`<div class="table-box inner"><table>
    <thead><tr><th>property</th><th>kind</th><th>state</th><th class="numeric">covered rows</th></tr></thead>
    <tbody>${indexes.map((index) => html`<tr><td>${index.property}</td><td>${index.kind || "–"}</td>
      <td class="words">${isUnbuilt(index) ? html`<span class="muted small">${index.reason}</span>`
        : html`<span class="tag ${index.uncovered_rows > 0 ? "warning" : index.rows > 0 ? "success" : ""}" title=${index.reason || undefined}>${index.state}</span>`}</td>
      <td class="numeric">${number(index.rows - index.uncovered_rows)} of ${number(index.rows)}</td></tr>`)}</tbody>
  </table></div>
  ${indexes.some((index) => index.uncovered_rows > 0 && !isUnbuilt(index)) && html`<p class="muted small"><code>omnigraph optimize</code> builds and extends indexes.</p>`}`;
}

// Vectors of @embed properties that `omnigraph embed` has not filled, by the rule of `index status`.
function PendingVectors({ type }) {
  return type.properties.filter((property) => property.embedding).map(({ name }) => {
    const pending = type.indexes.find((index) => index.property === name)?.pending_rows || 0;
    return html`<p class="pending-vectors">Vectors of <code>${name}</code>: ${pending === 0 ? html`<span class="tag success">complete</span>` : html`<span class="tag warning">${number(pending)} pending</span>`}</p>`;
  });
}

const pattern = (type) => (type.kind === "node" ? `$x: ${type.name}` : `$a $x:${edgeWord(type.name)} $b`);

function SampleRows({ type }) {
  const { graph, ref, state } = usePlace();
  const query = `query q() { match { ${pattern(type)} } return { $x } limit ${ROWS} }`;
  const answer = useRequest((signal) => runQuery(graph, { query, ...state }, { signal }), [graph, ref, type.key]);
  return html`<${Answer} answer=${answer}>${({ rows }) => {
    if (!rows.length) return html`<${Empty} title=${`No ${type.kind} of type ${type.name}`} command="omnigraph load --data data.jsonl GRAPH" />`;
    return html`<div class="boxed"><${DataTable} caption=${`Rows of ${type.name}`} columns=${columnsOfType(type)} rows=${rows.map(({ x }) => x)} /></div>`;
  }}<//>`;
}
