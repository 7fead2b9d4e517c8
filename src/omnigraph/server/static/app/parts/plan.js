// How the server runs a query: its steps, the rows that it expects, and after "Measure" the rows and times of a run.

import { html, useState } from "../../vendor/htm-preact.js";
import { explainQuery } from "../api.js";
import { usePlace, useRequest } from "../state.js";
import { Answer, number } from "./widgets.js";

export function PlanView({ request }) {
  const { graph } = usePlace();
  const [isMeasured, setMeasured] = useState(false);
  const answer = useRequest((signal) => explainQuery(graph, { ...request, analyze: isMeasured }, { signal }), [request, isMeasured]);
  return html`<${Answer} answer=${answer}>${({ steps }) => html`<div class="table-box" tabindex="0" role="region" aria-label="Plan"><table class="plan">
      <thead><tr><th>step</th><th>mode</th><th class="numeric">expected rows</th>${isMeasured && html`<th class="numeric">rows</th><th class="numeric">time</th>`}</tr></thead>
      <tbody>${steps.map((step) => html`<tr>
        <td class="plan-step depth-${Math.min(step.depth, 12)}"><span>${step.step}</span></td>
        <td class="words muted">${step.mode}${step.reason && html` <span class="small">(${step.reason})</span>`}</td>
        <td class="numeric">${number(step.rows_estimated)}</td>
        ${isMeasured && html`<td class="numeric">${number(step.rows)}</td><td class="numeric">${step.seconds === null ? "–" : `${(step.seconds * 1000).toFixed(1)} ms`}</td>`}
      </tr>`)}</tbody>
    </table></div>
    <div class="table-note plan-note muted small"><button type="button" id="measure" disabled=${isMeasured} onClick=${() => setMeasured(true)}>Measure</button>
      <p>Run the query to see the rows and the time of each step. A step uses the rows of the steps below it.</p></div>`}<//>`;
}
