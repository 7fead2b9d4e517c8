// The frame of all pages: who is logged in, navigation, the ref picker, and the page that the address names.

import { html, render, useEffect, useErrorBoundary, useMemo, useState } from "../vendor/htm-preact.js";
import { listBranches, listGraphs, onRejected, whoami } from "./api.js";
import { Brand, Icon } from "./parts/icons.js";
import { RefPicker } from "./parts/refs.js";
import { Answer, ErrorBox, Loading } from "./parts/widgets.js";
import { BranchesPage } from "./pages/branches.js";
import { GraphsPage } from "./pages/graphs.js";
import { HealthPage } from "./pages/health.js";
import { HistoryPage } from "./pages/history.js";
import { LoginPage } from "./pages/login.js";
import { QueryPage } from "./pages/query.js";
import { SchemaPage } from "./pages/schema.js";
import { joinBranch, makeAddress, Place, session, stateOf, useAddress, useRequest } from "./state.js";

const PAGES = [
  { id: "query", text: "Query", Page: QueryPage },
  { id: "schema", text: "Schema", Page: SchemaPage },
  { id: "history", text: "History", Page: HistoryPage },
  { id: "branches", text: "Branches", Page: BranchesPage },
  { id: "health", text: "Health", Page: HealthPage },
];

function App() {
  const [caller, setCaller] = useState(null);
  const [problem, setProblem] = useState(null);
  const enter = () => whoami().then(setCaller, (error) => error.status === 401 || setProblem(error));
  useEffect(() => {
    onRejected((error) => {
      const message = session.token() ? error : null;
      session.leave();
      setCaller({ isOut: true, error: message });
    });
    enter();
  }, []);
  const logOut = () => {
    session.leave();
    setCaller({ isOut: true });
  };
  if (problem) return html`<main class="alone"><${ErrorBox} error=${problem} /></main>`;
  if (!caller) return html`<main class="alone"><${Loading} /></main>`;
  if (caller.isOut) return html`<${LoginPage} error=${caller.error} onEnter=${setCaller} />`;
  const refresh = () => whoami().then(setCaller, () => {});
  return html`<${Frame} caller=${caller} onLogOut=${logOut} onBranches=${refresh} />`;
}

function Frame({ caller, onLogOut, onBranches }) {
  const address = useAddress();
  const graphs = useRequest((signal) => readGraphs(caller, signal), []);
  if (graphs.error) return html`<${Shell} caller=${caller} onLogOut=${onLogOut} address=${address} graphs=${{ graphs: [] }}><${ErrorBox} error=${graphs.error} /><//>`;
  return html`<${Answer} answer=${graphs}>${(list) => {
    const ids = list.graphs.map((graph) => graph.graph_id);
    if (address.page === "start" && ids.length === 1 && !list.quarantined?.length) {
      location.replace(makeAddress({ graph: ids[0], ref: "main", page: "query" }));
      return html`<main class="alone"><${Loading} /></main>`;
    }
    const frame = { caller, onLogOut, onBranches, address, graphs: list };
    if (address.graph) return html`<${GraphFrame} key=${address.graph} ...${frame} />`;
    const Page = ["start", "graphs"].includes(address.page) ? GraphsPage : UnknownPage;
    return html`<${Shell} ...${frame}><${Page} graphs=${list} caller=${caller} address=${address} /><//>`;
  }}<//>`;
}

// A policy may deny the list of the graphs. Then it has those that the caller may use.
async function readGraphs(caller, signal) {
  try {
    return await listGraphs({ signal });
  } catch (error) {
    if (error.status !== 403 || !caller.graphs.length) throw error;
    return { graphs: caller.graphs };
  }
}

function GraphFrame(frame) {
  const { caller } = frame;
  const { graph } = frame.address;
  const branches = useRequest((signal) => listBranches(graph, { signal }), [graph]);
  const actions = caller.graphs.find((entry) => entry.graph_id === graph)?.actions || {};
  const names = branches.value?.branches;
  const address = joinBranch(frame.address, names);
  const { ref } = address;
  useEffect(() => {
    if (ref !== frame.address.ref) location.replace(makeAddress(address));
  }, [ref, frame.address]);
  const state = useMemo(() => stateOf(ref, names), [ref, names]);
  const reload = () => {
    branches.reload();
    frame.onBranches(); // a policy may allow more on a new branch
  };
  const place = {
    graph, ref, state, caller, branches: branches.value, reload,
    may: (action) => (actions[action] || "none") !== "none",
    link: (page, rest, options) => makeAddress({ graph, ref, page, rest, options }),
  };
  const { Page } = PAGES.find(({ id }) => id === address.page) || { Page: UnknownPage };
  const ofAllBranches = ["history", "branches"].includes(address.page) && state.branch && names && !names.includes(ref);
  return html`<${Place.Provider} value=${place}>
    <${Shell} ...${frame} address=${address} place=${place}>
      <${Answer} answer=${branches}>${() => html`${ofAllBranches && html`<${ErrorBox} error=${{ message: `no branch '${ref}'`, hint: "This page shows all branches." }} />`}
        <${Guard} key=${`${address.page} ${ref}`}><${Page} address=${address} /><//>`}<//>
    <//>
  <//>`;
}

function UnknownPage({ address }) {
  const names = PAGES.map(({ id }) => `\`${id}\``);
  const hint = address.graph ? `Use one of ${names.join(", ")}.` : "Choose a page on the left.";
  return html`<${ErrorBox} error=${{ message: `page '${address.page}' does not exist`, hint }} />`;
}

// Show an error of the page itself instead of an empty window.
function Guard({ children }) {
  const [error, reset] = useErrorBoundary((failure) => console.error(failure));
  if (!error) return children;
  return html`<${ErrorBox} error=${{ message: `the page failed: ${error.message}`, hint: "" }} />
    <p><button type="button" onClick=${reset}>Try again</button></p>`;
}

function Shell({ caller, onLogOut, address, graphs, place, children }) {
  const here = address.page === "start" ? "graphs" : address.page;
  const link = (page, icon, text, href) => html`<a class="nav-link ${page === here ? "current" : ""}" href=${href}
    aria-current=${page === here ? "page" : undefined}><${Icon} name=${icon} /><span>${text}</span></a>`;
  const current = place || (graphs.graphs.length === 1 && { link: (page) => makeAddress({ graph: graphs.graphs[0].graph_id, ref: "main", page }) });
  return html`<div class="shell">
    <aside class="side">
      <a class="brand" href="#/graphs"><${Brand} /><span>Omnigraph</span></a>
      <nav aria-label="Pages">
        ${link("graphs", "graphs", "Graphs", "#/graphs")}
        ${current && PAGES.map(({ id, text }) => link(id, id, text, current.link(id)))}
      </nav>
    </aside>
    <div class="content">
      <header class="top">
        ${place ? html`<span class="crumb"><${Icon} name="graphs" /><strong>${place.graph}</strong></span><${RefPicker} />` : html`<span class="crumb"><strong>${here === "graphs" ? "Graphs" : "Omnigraph"}</strong></span>`}
        <span class="spring"></span>
        <span class="crumb actor" title="The actor of the requests"><${Icon} name="user" /><span>${caller.actor_id || "anonymous"}</span></span>
        ${session.token() && html`<button type="button" id="log-out" onClick=${onLogOut}>Log out</button>`}
      </header>
      <main>${children}</main>
    </div>
  </div>`;
}

render(html`<${App} />`, document.getElementById("page"));
