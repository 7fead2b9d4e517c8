// The address of a page, the session, and requests as hooks. An address holds the graph and the ref, so that it can be shared:
// #/g/GRAPH@REF/PAGE/REST?OPTIONS. The token is only in sessionStorage.

import { createContext, useCallback, useContext, useEffect, useState } from "../vendor/htm-preact.js";

const TOKEN = "omnigraph.token";
const HISTORY = "omnigraph.queries";
export const isCommit = (ref) => /^[0-9A-HJKMNP-TV-Z]{26}$/.test(ref);

export function parseAddress(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [first, place = "", page = "", ...rest] = path.split("/");
  const options = Object.fromEntries(new URLSearchParams(query));
  if (first !== "g" || !place) return { page: first || "start", options, rest: [] };
  const split = place.indexOf("@");
  const graph = split < 0 ? place : place.slice(0, split);
  const ref = split < 0 ? "main" : decode(place.slice(split + 1)) || "main";
  return { graph, ref, page: page || "query", rest: rest.map(decode), options };
}

// A person may type the `/` of a branch such as review/1. Then the rest of its name is in `page` and `rest`.
export function joinBranch(address, branches = []) {
  const parts = [address.ref, address.page, ...address.rest];
  const sizes = branches.includes(address.ref) ? [] : parts.map((_, index) => index + 1);
  const size = sizes.find((length) => branches.includes(parts.slice(0, length).join("/")));
  if (!size) return address;
  const [page = "query", ...rest] = parts.slice(size);
  return { ...address, ref: parts.slice(0, size).join("/"), page, rest };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function makeAddress({ graph, ref, page, rest = [], options = {} }) {
  const tail = rest.map((part) => `/${encodeURIComponent(part)}`).join("");
  const query = new URLSearchParams(options).toString();
  return `#/g/${graph}@${encodeURIComponent(ref)}/${page}${tail}${query && `?${query}`}`;
}

// The member of a request that selects a state: a commit, or the newest state of a branch.
export function stateOf(ref, branches = []) {
  return isCommit(ref) && !branches.includes(ref) ? { snapshot: ref } : { branch: ref };
}

export const session = {
  token: () => sessionStorage.getItem(TOKEN),
  enter: (token) => sessionStorage.setItem(TOKEN, token),
  leave() {
    sessionStorage.removeItem(TOKEN);
    localStorage.removeItem(HISTORY);
  },
};

const QUERIES_MAX = 20;

export function pastQueries() {
  try {
    const queries = JSON.parse(localStorage.getItem(HISTORY) || "[]");
    return Array.isArray(queries) ? queries : [];
  } catch {
    return [];
  }
}

export function rememberQuery(text) {
  const others = pastQueries().filter((query) => query.text !== text);
  const queries = [{ text, time: Date.now() }, ...others].slice(0, QUERIES_MAX);
  localStorage.setItem(HISTORY, JSON.stringify(queries));
}

// The page sets `data-ready` to its address when no request is running and the results are drawn.

let running = 0;

export function begin() {
  running += 1;
  delete document.documentElement.dataset.ready;
}

export function end() {
  running -= 1;
  settle(2);
}

function settle(frames) {
  requestAnimationFrame(() => {
    if (running > 0) return;
    if (frames > 0) settle(frames - 1);
    else document.documentElement.dataset.ready = location.hash || "#";
  });
}

// What every page below a graph knows: { graph, ref, state, branches, whoami, reload }.
export const Place = createContext(null);
export const usePlace = () => useContext(Place);

export function useAddress() {
  const [address, setAddress] = useState(() => parseAddress(location.hash));
  useEffect(() => {
    const changed = () => {
      begin();
      setAddress(parseAddress(location.hash));
      requestAnimationFrame(end);
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}

// Run a request again whenever a key changes. `value` is that of the last success, so that a page does not flicker.
export function useRequest(run, keys) {
  const [turn, setTurn] = useState(0);
  const [answer, setAnswer] = useState({ isLoading: true });
  useEffect(() => {
    const stop = new AbortController();
    setAnswer((previous) => ({ ...previous, isLoading: true }));
    run(stop.signal).then(
      (value) => stop.signal.aborted || setAnswer({ value, isLoading: false }),
      (error) => stop.signal.aborted || setAnswer({ error, isLoading: false }),
    );
    return () => stop.abort();
  }, [...keys, turn]);
  const reload = useCallback(() => setTurn((number) => number + 1), []);
  return { ...answer, reload };
}

// Read a list page by page. `read(token, signal)` returns a document with `next_page_token`; `items` takes the list out of it.
export function usePages(read, items, keys) {
  const [more, setMore] = useState({ documents: [] });
  const first = useRequest((signal) => read(undefined, signal), keys);
  useEffect(() => setMore({ documents: [] }), [first.value]);
  const documents = first.value ? [first.value, ...more.documents] : [];
  const token = documents.at(-1)?.next_page_token;
  const next = async () => {
    setMore({ ...more, isLoading: true });
    try {
      const document = await read(token);
      setMore({ documents: [...more.documents, document] });
    } catch (error) {
      setMore({ documents: more.documents, error });
    }
  };
  return { first, list: documents.flatMap(items), next: token && next, isLoading: more.isLoading, error: more.error, total: documents.length };
}
