// What doctor finds about the graph, with the command that fixes each finding, and the files of each table. No button runs
// maintenance.

import { html } from "../../vendor/htm-preact.js";
import { getCatalog, getGraphHealth } from "../api.js";
import { Icon } from "../parts/icons.js";
import { Answer, Command, count, Empty, number, Panel, Prose, sentence, Time } from "../parts/widgets.js";
import { isUnbuilt } from "../parts/types.js";
import { usePlace, useRequest } from "../state.js";

const SEVERITY = ["problem", "notice", "ok"];
const TAGS = { problem: "error", notice: "warning", ok: "success" };

export function HealthPage() {
  const { graph, ref, state } = usePlace();
  const read = (signal) => Promise.all([getGraphHealth(graph, { signal }), getCatalog(graph, state, { signal })]);
  const answer = useRequest(read, [graph, ref]);
  return html`<div class="page-head"><h1>Health</h1>${answer.value && html`<${State} health=${answer.value[0]} />`}</div>
    <${Answer} answer=${answer}>${([health, { indexes }]) => html`
      <${Panel} kind="flush" title="Checks"><${Checks} findings=${health.findings} /><//>
      <${Findings} findings=${health.findings} />
      <${Panel} kind="flush" title="Tables"><${Tables} health=${health} indexes=${indexes} /><//>`}<//>`;
}

function State({ health }) {
  const problems = health.findings.filter((finding) => finding.health === "problem");
  return html`<span class="tag ${health.healthy ? "success" : "error"}">${health.healthy ? "healthy" : count(problems.length, "problem")}</span>
    <span class="muted small">checked <${Time} at=${health.checked_at} />, at most once a minute</span>`;
}

// One line per check, with its most severe finding.
function Checks({ findings }) {
  const names = [...new Set(findings.map((finding) => finding.check))];
  return html`<ul class="checks">${names.map((name) => {
    const own = findings.filter((finding) => finding.check === name);
    const health = SEVERITY.find((severity) => own.some((finding) => finding.health === severity));
    const text = health === "ok" ? own[0].message : count(own.filter((finding) => finding.health === health).length, "finding");
    return html`<li data-check=${name} class=${`is-${health}`}><${Icon} name=${health === "ok" ? "check" : "alert"} /><strong>${sentence(name)}</strong><span class="muted small clip" title=${text}>${text}</span></li>`;
  })}</ul>`;
}

// A panel per check; findings that the same command fixes share it.
function Findings({ findings }) {
  const open = findings.filter((finding) => finding.health !== "ok").sort((left, right) => SEVERITY.indexOf(left.health) - SEVERITY.indexOf(right.health));
  if (!open.length) return html`<${Panel}><${Empty} title="Nothing to do">No check has a finding.<//><//>`;
  return groupBy(open, ({ check, health }) => `${check} ${health}`).map((own) => {
    const [{ check, health }] = own;
    return html`<${Panel} kind="finding" title=${sentence(check)} actions=${html`<span class="tag ${TAGS[health]}">${health}</span>`}>
      ${groupBy(own, ({ fix }) => fix).map((group) => html`<div class="stack">
        <ul class="findings">${group.map(({ where, branch, message }) => html`<li><code>${where}</code><span class="muted small">${branch && `on ${branch}`}</span><span>${message}</span></li>`)}</ul>
        ${group[0].fix && html`<${Fix} text=${group[0].fix} />`}</div>`)}
    <//>`;
  });
}

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) || []), item]);
  return [...groups.values()];
}

// A fix is a command, or text with commands in backticks.
function Fix({ text }) {
  if (text.startsWith("omnigraph ")) return html`<${Command} text=${text} />`;
  const commands = text.split("`").filter((part, index) => index % 2 && part.startsWith("omnigraph "));
  return html`<p><${Prose} text=${text} /></p>${commands.map((command) => html`<${Command} text=${command} />`)}`;
}

function Tables({ health, indexes }) {
  if (!health.tables.length) return html`<${Empty} title="No table has rows" command="omnigraph load --data data.jsonl GRAPH" />`;
  const drifted = new Set(health.findings.filter(({ check, health: severity }) => check === "drift" && severity !== "ok").map(({ where, branch }) => `${where} ${branch}`));
  return html`<div class="table-box" tabindex="0" role="region" aria-label="Tables"><table class="health-tables">
    <thead><tr><th>table</th><th>branch</th><th class="numeric">rows</th><th class="numeric">fragments</th><th class="numeric">small</th><th class="numeric">deleted</th><th class="numeric">indexed</th><th>drift</th></tr></thead>
    <tbody>${health.tables.map((table) => html`<tr data-table=${`${table.table_key} ${table.branch}`}>
      <td><span class="clip" title=${table.table_key}>${table.table_key}</span></td><td><span class="clip" title=${table.branch}>${table.branch}</span></td><td class="numeric">${number(table.rows)}</td><td class="numeric">${number(table.fragments)}</td>
      <td class="numeric">${number(table.small_fragments)}</td><td class="numeric">${percent(table.deleted_share)}</td>
      <td class="numeric">${coverage(table, indexes)}</td>
      <td>${drifted.has(`${table.table_key} ${table.branch}`) ? html`<span class="tag error">drift</span>` : html`<span class="muted">–</span>`}</td></tr>`)}</tbody>
  </table></div>
  <p class="table-note muted small">A table is listed for the branch that has its files. Indexed is the smallest share of rows that an index of the shown branch covers.</p>`;
}

const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

function coverage(table, indexes) {
  const own = indexes.filter((index) => index.kind && index.table_key === table.table_key && index.branch === table.branch && index.rows > 0 && !isUnbuilt(index));
  return own.length ? percent(Math.min(...own.map((index) => (index.rows - index.uncovered_rows) / index.rows))) : "–";
}
