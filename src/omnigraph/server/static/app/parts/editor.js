// A text field over a coloured copy of its text. Both wrap in the same way, so each character covers its copy.

import { html, useMemo } from "../../vendor/htm-preact.js";
import { positionOf, tokenize } from "./tokens.js";

export function Editor({ text, problems = [], onInput, onRun, label, id }) {
  const parts = useMemo(() => underline(tokenize(text), text, problems), [text, problems]);
  const keydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      onRun();
    }
  };
  return html`<div class="editor">
    <pre aria-hidden="true">${parts.map(({ kind, text: part, problem }) => {
      const classes = `t-${kind}${problem ? " problem" : ""}${problem?.isWarning ? " is-warning" : ""}`;
      return html`<span class=${classes} title=${problem ? problem.message : undefined}>${part}</span>`;
    })}${"\n"}</pre>
    <textarea
      id=${id} aria-label=${label} aria-invalid=${problems.length ? "true" : "false"} spellcheck=${false} autocomplete="off"
      autocapitalize="off" wrap="soft" value=${text} onInput=${(event) => onInput(event.target.value)} onKeyDown=${keydown}
    ></textarea>
  </div>`;
}

export function Code({ text }) {
  return html`<pre class="code">${tokenize(text).map(({ kind, text: part }) => html`<span class="t-${kind}">${part}</span>`)}</pre>`;
}

// Mark the token at the position of each problem. At the end of the text, that is the last character.
function underline(tokens, text, problems) {
  const marked = tokens.map((token) => ({ ...token }));
  for (const problem of problems) {
    const position = positionOf(text, problem.line, problem.column);
    const index = marked.findLastIndex((token) => token.start <= position && token.text.trim() !== "");
    if (index >= 0) marked[index].problem = problem;
  }
  return marked;
}

export function Problems({ problems, onGo }) {
  return html`<ul class="problems">
    ${problems.map(
      (problem) => html`<li class=${problem.isWarning ? "warning" : "error"}>
        <button type="button" class="link mono" onClick=${() => onGo(problem)}>${problem.line}:${problem.column}</button>
        <span class="tag ${problem.isWarning ? "warning" : "error"}">${problem.code}</span>
        <span>${problem.message.replaceAll("`", "'")}</span>
        ${problem.hint && html`<span class="muted">${problem.hint.replaceAll("`", "'")}</span>`}
      </li>`,
    )}
  </ul>`;
}
