// Write, check and run queries. A change runs only after its branch is confirmed.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/htm-preact.js";
import { getCatalog, invokeQuery, lintQueries, listQueries, mutate, parseExact, runQuery } from "../api.js";
import { Editor, Problems } from "../parts/editor.js";
import { Icon } from "../parts/icons.js";
import { ChangeResult, ReadResult } from "../parts/result.js";
import { columnsOf, describeStored, StoredHead, StoredList } from "../parts/stored.js";
import { positionOf } from "../parts/tokens.js";
import { exampleQuery, TypeName, typesOf } from "../parts/types.js";
import { Answer, Confirm, count, Empty, ErrorBox, Loading, Notice, number, Panel, relativeTime } from "../parts/widgets.js";
import { pastQueries, rememberQuery, usePlace, useRequest } from "../state.js";

const OF_FILES = ["L201", "L202"]; // warnings about queries that are stored: here a change usually runs once
const CHECK_MILLISECONDS = 250;
const drafts = new Map();

export function QueryPage({ address }) {
  const { graph, ref, state, may, reload, link } = usePlace();
  const catalog = useRequest((signal) => getCatalog(graph, state, { signal }), [graph, ref]);
  const isMissing = catalog.error?.status === 404; // no such branch or commit: nothing on this page can run
  const types = useMemo(() => catalog.value && typesOf(catalog.value), [catalog.value]);
  const [text, setText] = useState(address.options.q ?? drafts.get(graph) ?? "");
  const [parameters, setParameters] = useState("");
  const [chosen, setChosen] = useState("");
  const [run, setRun] = useState({});
  const [pending, setPending] = useState(null);
  const check = useCheck(graph, ref, state, text);
  const mayInvoke = may("invoke_query");
  const queries = useRequest((signal) => (mayInvoke ? listQueries(graph, { signal }) : Promise.resolve({ queries: [] })), [graph, mayInvoke]);
  const name = address.options.stored;
  const stored = useMemo(() => queries.value?.queries.filter((entry) => entry.name === name).map(describeStored)[0], [queries.value, name]);
  const query = stored || check.queries.find(({ name }) => name === chosen) || check.queries[0];
  const problems = check.problems;

  useEffect(() => {
    drafts.set(graph, text);
  }, [text]);
  useEffect(() => {
    if (types?.nodes.length) setText((current) => current || exampleQuery(types.nodes[0]));
  }, [types]);
  useEffect(() => setParameters((old) => fillParameters(old, query?.parameters || [])), [JSON.stringify(query?.parameters)]);

  // Before the next frame is drawn: a result is never shown next to the name of another query.
  useLayoutEffect(() => {
    run.stop?.abort();
    setRun({});
  }, [name]);

  const edit = (newText) => {
    setText(newText);
    if (name) location.hash = link("query");
  };
  const isChange = query?.kind === "mutation";
  const denial = state.snapshot ? "A commit cannot be changed. Choose a branch." : !may("change") && "Your token does not allow changes.";
  const cannot = isChange && denial;
  const start = async () => {
    if (isMissing || cannot || run.isChanging) return;
    run.stop?.abort();
    const stop = new AbortController();
    setRun({ stop });
    try {
      const target = stored || (await check.now(stop.signal, chosen));
      if (!target) return setRun({ isRejected: true });
      const params = target.parameters.length && parameters.trim() ? parseParameters(parameters) : {};
      const request = stored ? { params, expect_mutation: target.kind === "mutation" } : { query: text, name: target.name, params };
      if (target.kind === "mutation") {
        if (!denial) setPending({ target, request });
        return setRun({});
      }
      if (!stored) rememberQuery(text);
      const began = performance.now();
      const body = { ...request, ...state };
      const result = await (stored ? invokeQuery(graph, name, body, { signal: stop.signal }) : runQuery(graph, body, { signal: stop.signal }));
      const milliseconds = performance.now() - began;
      return setRun({ result, request: body, columns: target.columns || columnsOf(result), milliseconds, isStored: Boolean(stored), text });
    } catch (error) {
      return setRun(error.name === "AbortError" ? { isStopped: true } : { error });
    }
  };
  const change = async () => {
    setPending(null);
    setRun({ isChanging: true });
    if (!pending.target.isStored) rememberQuery(pending.request.query);
    try {
      const body = { ...pending.request, branch: ref };
      const result = await (pending.target.isStored ? invokeQuery(graph, pending.target.name, body) : mutate(graph, body));
      setRun({ change: result, text: pending.request.query ?? text });
      reload();
      catalog.reload();
    } catch (error) {
      setRun({ error });
    }
  };
  const goTo = (problem) => {
    const area = document.getElementById("query-text");
    const position = positionOf(text, problem.line, problem.column);
    area.focus();
    area.setSelectionRange(position, position);
  };

  return html`<div class="query-page">
      <div class="query-main">
        ${isMissing && html`<${ErrorBox} error=${catalog.error} />`}
        <${Panel} kind="flush">
          <div class="toolbar">
            ${run.stop
              ? html`<button type="button" id="stop" onClick=${() => run.stop.abort()}><${Icon} name="stop" />Stop</button>`
              : html`<button type="button" id="run" class="primary" disabled=${isMissing || Boolean(cannot) || run.isChanging} onClick=${start}><${Icon} name="play" />${isChange ? "Run change …" : "Run"}</button>`}
            ${!stored && check.queries.length > 1 && html`<select id="query-name" aria-label="Query to run" value=${query?.name} onChange=${(event) => setChosen(event.target.value)}>
              ${check.queries.map((entry) => html`<option value=${entry.name}>${entry.name}</option>`)}
            </select>`}
            <span class="muted small shortcut">Ctrl + Enter</span>
            ${cannot && html`<span class="small warning-text">${cannot}</span>`}
          </div>
          ${stored ? html`<${StoredHead} query=${stored} />` : html`<${Editor} id="query-text" label="Query" text=${text} problems=${problems} onInput=${setText} onRun=${start} />`}
          ${query?.parameters.length > 0 && html`<label class="parameters"><span class="muted small">Parameters</span>
            <${Editor} id="query-parameters" label="Parameters as JSON" text=${parameters} onInput=${setParameters} onRun=${start} /></label>`}
          ${!stored && problems.length > 0 && html`<${Problems} problems=${problems} onGo=${goTo} />`}
        <//>
        <div class="result" id="result">
          ${name && queries.value && !stored && html`<${Notice} kind="warning"><p>You may not use a stored query <code>${name}</code>, or the graph has none.</p><//>`}
          ${run.stop && html`<${Loading} text="Running" />`}
          ${run.isChanging && html`<${Loading} text="Changing the graph" />`}
          ${run.isRejected && html`<${Notice} kind="error">The query has ${count(check.errors.length, "error")}. Nothing was run.<//>`}
          ${run.isStopped && html`<${Notice}>The query was stopped.<//>`}
          ${run.error && html`<${ErrorBox} error=${run.error} />`}
          ${run.text !== undefined && run.text !== text && html`<${Notice} kind="warning">The query was edited. This is the result of the earlier text.<//>`}
          ${run.result && html`<${ReadResult} run=${run} types=${types} />`}
          ${run.change && html`<${ChangeResult} change=${run.change} />`}
          ${!isMissing && !Object.keys(run).length && html`<${Panel}><${Empty} title="No result yet">Run the query to see its rows, as a table, as JSON or as a graph, and its plan. Or choose a type to query it.<//><//>`}
        </div>
      </div>
      <aside class="query-side">
        ${!isMissing && html`<${Panel} title="Types">
          <${Answer} answer=${catalog}>${() => html`<${TypeList} types=${types} onChoose=${(type) => edit(exampleQuery(type))} />`}<//>
        <//>`}
        ${(queries.error || queries.value?.queries.length > 0) && html`<${Panel} title="Stored queries"><${StoredList} answer=${queries} current=${name} /><//>`}
        <${Panel} title="Recent queries"><${Recent} onChoose=${edit} key=${run} /><//>
      </aside>
    </div>
    ${pending && html`<${Confirm} title="Change the graph" action=${`Run on branch ${ref}`} onConfirm=${change} onCancel=${() => setPending(null)}>
      <p>The query <code>${pending.target.name}</code> changes the branch <strong>${ref}</strong> of graph <strong>${graph}</strong>.</p>
      <p class="muted">It is one commit, with you as its actor.</p>
    <//>`}`;
}

// Check the text a moment after it was changed. `now` checks it immediately, and returns the chosen query if it is correct.
function useCheck(graph, ref, state, text) {
  const [checked, setChecked] = useState({ errors: [], warnings: [], queries: [] });
  const request = (signal) => lintQueries(graph, { files: [{ name: "query", text }], ...state }, { signal });
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => text.trim() && request(stop.signal).then(setChecked, () => {}), CHECK_MILLISECONDS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [graph, ref, text]);
  const now = async (signal, chosen) => {
    const document = await request(signal);
    setChecked(document);
    return document.errors.length ? undefined : document.queries.find(({ name }) => name === chosen) || document.queries[0];
  };
  const problems = useMemo(() => [...checked.errors, ...checked.warnings.filter(({ code }) => !OF_FILES.includes(code)).map((warning) => ({ ...warning, isWarning: true }))], [checked]);
  return { ...checked, problems: text.trim() ? problems : [], now };
}

function parseParameters(text) {
  let value = null;
  let reason = "expected a JSON object";
  try {
    value = parseExact(text);
  } catch (error) {
    reason = error.message;
  }
  if (value && typeof value === "object" && !Array.isArray(value)) return value;
  throw Object.assign(new Error(`invalid parameters: ${reason}`), { hint: 'Write them as `{"name": value}`.' });
}

// Keep the values that were entered, and add the parameters that are missing.
function fillParameters(old, declared) {
  let values = {};
  try {
    values = parseParameters(old);
  } catch {
    if (old.trim()) return old;
  }
  if (!declared.length) return old;
  const filled = Object.fromEntries(declared.map((parameter) => [parameter.name, values[parameter.name] ?? emptyValue(parameter)]));
  return JSON.stringify(filled, null, 2);
}

function emptyValue({ type, nullable }) {
  if (nullable) return null;
  if (/^[IUF]\d/.test(type)) return 0;
  if (type === "Bool") return false;
  return /^\[|^Vector/.test(type) ? [] : "";
}

function TypeList({ types, onChoose }) {
  const row = (type) => html`<li><button type="button" class="row-button" title=${`Query ${type.name}`} onClick=${() => onChoose(type)}>
    <${TypeName} type=${type} /><span class="mono muted">${number(type.count)}</span></button></li>`;
  if (!types.nodes.length) return html`<${Empty} title="The schema has no types" command="omnigraph schema apply --schema schema.pg GRAPH" />`;
  return html`<h3>Nodes</h3><ul class="rows">${types.nodes.map(row)}</ul>${types.edges.length > 0 && html`<h3>Edges</h3><ul class="rows">${types.edges.map(row)}</ul>`}`;
}

function Recent({ onChoose }) {
  const queries = pastQueries();
  if (!queries.length) return html`<p class="muted small">Queries that you run are listed here.</p>`;
  return html`<ul class="rows">${queries.map(
    ({ text, time }) => html`<li><button type="button" class="row-button" title=${text} onClick=${() => onChoose(text)}>
      <code class="clip">${text.replace(/\s+/g, " ")}</code><span class="muted small">${relativeTime(time * 1000)}</span></button></li>`,
  )}</ul>`;
}
