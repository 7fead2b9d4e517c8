// One function per route. URLs are relative, so that the pages work below the prefix of a proxy. 64-bit integers arrive as
// strings, because a number of JavaScript cannot hold them.

import { begin, end, session } from "./state.js";

// The server writes hints for programs that send requests. For these errors a person needs another one.
const HINTS = {
  graph_missing: "The page Graphs lists the graphs of the server.",
  graph_id_invalid: "The page Graphs lists the graphs of the server.",
  query_not_stored: "Choose one of the list of stored queries.",
  merge_conflicts: "Nothing was written. Load the page again to see the conflicts.",
  branch_missing: "The page Branches lists the branches.",
  graph_moved: "Use the branch main, or run `omnigraph doctor GRAPH --fix-location` to see what must be rewritten to use the other branches.",
  reference_missing: "The page Branches lists the branches, and the page History the commits.",
};
const isForPrograms = (hint) => /GET \/|(Send|Omit) (the|`)|without `wait`|(^|\. )Pass /.test(hint);

export class ApiError extends Error {
  constructor(status, document, requestId) {
    super(document.error || `the server answered with status ${status}`);
    this.status = status;
    this.code = document.error_code;
    this.hint = HINTS[this.code] || (isForPrograms(document.hint || "") ? "" : document.hint || "");
    this.problems = document.problems || [];
    this.document = document;
    this.requestId = requestId;
  }
}

let rejected = () => {};

// `listener` is called when the server rejects the token of a request.
export function onRejected(listener) {
  rejected = listener;
}

async function send(method, path, { query, body, signal, isBlob, token = session.token() } = {}) {
  const headers = { Accept: "application/json; bigint=string" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  begin();
  try {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await fetch(path + encodeQuery(query), { method, headers, body: text, signal, cache: "no-store" });
    if (response.ok && isBlob) return await response.blob();
    const document = parse(await response.text());
    if (response.ok) return document;
    const error = new ApiError(response.status, document, response.headers.get("x-request-id"));
    if (response.status === 401 && token === session.token()) rejected(error);
    throw error;
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError(0, { error: "the server cannot be reached", hint: "Check that it is running, then try again." });
  } finally {
    end();
  }
}

export const parseExact = (text) => JSON.parse(text, exactly);

function parse(text) {
  try {
    return parseExact(text);
  } catch {
    return { error: text.slice(0, 200) || "the response is empty" };
  }
}

// Keep the digits of an integer that a number cannot hold.
function exactly(_, value, context) {
  if (typeof value !== "number" || !context || Number.isSafeInteger(value)) return value;
  return /^-?\d+$/.test(context.source) ? context.source : value;
}

function encodeQuery(query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of [value].flat()) if (item !== undefined && item !== null) parameters.append(name, item);
  }
  const text = parameters.toString();
  return text && `?${text}`;
}

const of = (graph) => `graphs/${graph}`;

export const whoami = (options) => send("GET", "whoami", options);
export const readyz = (options) => send("GET", "readyz", options);
export const listGraphs = (options) => send("GET", "graphs", options);
export const getSnapshot = (graph, state, options) => send("GET", `${of(graph)}/snapshot`, { query: state, ...options });
export const getSchema = (graph, state, options) => send("GET", `${of(graph)}/schema`, { query: state, ...options });
export const getCatalog = (graph, state, options) => send("GET", `${of(graph)}/catalog`, { query: state, ...options });
export const runQuery = (graph, body, options) => send("POST", `${of(graph)}/query`, { body, ...options });
export const explainQuery = (graph, body, options) => send("POST", `${of(graph)}/explain`, { body, ...options });
export const lintQueries = (graph, body, options) => send("POST", `${of(graph)}/lint`, { body, ...options });
export const mutate = (graph, body, options) => send("POST", `${of(graph)}/mutate`, { body, ...options });
export const listQueries = (graph, options) => send("GET", `${of(graph)}/queries`, options);
export const invokeQuery = (graph, name, body, options) =>
  send("POST", `${of(graph)}/queries/${encodeURIComponent(name)}`, { body, ...options });
export const listBranches = (graph, options) => send("GET", `${of(graph)}/branches`, options);
export const createBranch = (graph, body) => send("POST", `${of(graph)}/branches`, { body });
export const deleteBranch = (graph, name) => send("DELETE", `${of(graph)}/branches/${encodeURIComponent(name)}`);
export const mergeBranches = (graph, body, options) => send("POST", `${of(graph)}/branches/merge`, { body, ...options });
export const listLog = (graph, query, options) => send("GET", `${of(graph)}/log`, { query, ...options });
export const getCommit = (graph, id, options) => send("GET", `${of(graph)}/commits/${id}`, options);
export const getCommitChanges = (graph, id, query, options) =>
  send("GET", `${of(graph)}/commits/${id}/changes`, { query, ...options });
export const diffStates = (graph, query, options) => send("GET", `${of(graph)}/diff`, { query, ...options });
export const getBlob = (graph, query) => send("GET", `${of(graph)}/blob`, { query, isBlob: true });
export const getGraphHealth = (graph, options) => send("GET", `${of(graph)}/health`, options);
