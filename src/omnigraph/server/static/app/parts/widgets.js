// Small parts that every page uses: ids, times, numbers, notices, buttons and dialogs.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/htm-preact.js";
import { Icon } from "./icons.js";

const NUMBER = new Intl.NumberFormat("en");
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

export const number = (value) => (value === null || value === undefined ? "–" : NUMBER.format(value));
export const count = (value, noun, plural = `${noun}s`) => `${number(value)} ${value === 1 ? noun : plural}`;

export function relativeTime(microseconds, now = Date.now()) {
  const seconds = (microseconds / 1000 - now) / 1000;
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return RELATIVE.format(Math.round(seconds / size), unit);
  }
  return "just now";
}

export function Time({ at }) {
  if (!at) return html`<span class="muted">–</span>`;
  const text = new Date(at / 1000).toISOString();
  return html`<time datetime=${text} title=${text}>${relativeTime(at)}</time>`;
}

export function CopyButton({ text, label = "Copy" }) {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    const timer = isDone && setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = async (event) => {
    event.preventDefault();
    event.stopPropagation();
    await copyText(text);
    setDone(true);
  };
  const title = isDone ? "Copied" : label;
  return html`<button type="button" class="icon-button" title=${title} aria-label=${title} onClick=${copy}>
    <${Icon} name=${isDone ? "check" : "copy"} />
  </button>`;
}

// Without HTTPS a browser has no clipboard object.
async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// Ids begin with their time, so that the last characters tell them apart.
export function Id({ id, href }) {
  if (!id) return html`<span class="muted">–</span>`;
  const short = html`<code title=${id}>${id.length > 12 ? `…${id.slice(-8)}` : id}</code>`;
  return html`<span class="id">${href ? html`<a href=${href}>${short}</a>` : short}<${CopyButton} text=${id} label="Copy id" /></span>`;
}

export function Command({ text }) {
  const words = text.split(" ").map((word, index) => html`${index > 0 && " "}<span>${word}</span>`); // a flag is not broken after its hyphens
  return html`<div class="command"><code>${words}</code><${CopyButton} text=${text} label="Copy command" /></div>`;
}

export function Loading({ text = "Loading" }) {
  return html`<div class="loading" role="status"><span class="bar"></span>${text} …</div>`;
}

export function Empty({ title, command, children }) {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    ${children && html`<p class="muted">${children}</p>`}
    ${command && html`<${Command} text=${command} />`}
  </div>`;
}

export function ErrorBox({ error }) {
  return html`<div class="notice error" role="alert">
    <${Icon} name="alert" />
    <div>
      <p><strong>${sentence(error.message)}</strong></p>
      ${error.hint && html`<p><${Prose} text=${error.hint} /></p>`}
      ${error.code && html`<p class="muted small">code <code>${error.code}</code>${error.status > 0 && html`, status ${error.status}`}</p>`}
      ${error.status >= 500 && error.requestId && html`<p class="muted small">request <code class="request-id">${error.requestId}</code></p>`}
    </div>
  </div>`;
}

export function Notice({ kind = "info", icon, children }) {
  const icons = { info: "info", success: "check", warning: "alert", error: "alert" };
  return html`<div class="notice ${kind}" role="status"><${Icon} name=${icon || icons[kind]} /><div>${children}</div></div>`;
}

// Text of the server: parts in backticks are code.
export function Prose({ text }) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// Show the state of a request: loading, failed, or its value.
export function Answer({ answer, children }) {
  if (answer.error) return html`<${ErrorBox} error=${answer.error} />`;
  if (answer.value === undefined) return html`<${Loading} />`;
  return children(answer.value);
}

// Arrow keys select the next tab, as in other programs.
export function Tabs({ tabs, current, onSelect, label }) {
  const keydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const index = (tabs.findIndex(({ id }) => id === current) + step + tabs.length) % tabs.length;
    onSelect(tabs[index].id);
    event.currentTarget.children[index].focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${keydown}>
    ${tabs.map(
      ({ id, text, amount }) => html`<button
        type="button" role="tab" id=${`tab-${id}`} aria-selected=${String(id === current)} tabindex=${id === current ? 0 : -1} class=${id === current ? "current" : ""}
        onClick=${() => onSelect(id)}
      >${text}${amount !== undefined && html`<span class="amount">${number(amount)}</span>`}</button>`,
    )}
  </div>`;
}

export function Panel({ title, actions, children, kind = "" }) {
  return html`<section class="panel ${kind}">
    ${title && html`<header class="panel-head"><h2>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</header>`}
    <div class="panel-body">${children}</div>
  </section>`;
}

// A dialog that asks before something is changed. Escape cancels.
export function Confirm({ title, action, danger, onConfirm, onCancel, children }) {
  const dialog = useRef(null);
  useLayoutEffect(() => dialog.current.showModal(), []);
  const cancel = (event) => {
    event.preventDefault();
    onCancel();
  };
  return html`<dialog ref=${dialog} class="dialog" onCancel=${cancel} aria-label=${title}>
    <h2>${title}</h2>
    <div class="dialog-body">${children}</div>
    <div class="dialog-actions">
      <button type="button" onClick=${onCancel}>Cancel</button>
      <button type="button" class=${danger ? "danger" : "primary"} id="confirm" onClick=${onConfirm}>${action}</button>
    </div>
  </dialog>`;
}
