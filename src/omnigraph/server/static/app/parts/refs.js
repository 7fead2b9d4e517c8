// Choose the branch or the commit that a page shows.

import { html, useState } from "../../vendor/htm-preact.js";
import { isCommit, makeAddress, parseAddress, usePlace } from "../state.js";
import { Icon } from "./icons.js";

const OTHER = " commit";

export function RefPicker() {
  const { ref, branches } = usePlace();
  const [isTyping, setTyping] = useState(false);
  const names = branches?.branches || [];
  const go = (name) => {
    setTyping(false);
    const address = parseAddress(location.hash);
    location.hash = makeAddress({ ...address, ref: name.trim() });
  };
  if (isTyping) {
    const submit = (event) => {
      event.preventDefault();
      go(event.target.elements.commit.value || ref);
    };
    return html`<form class="ref" onSubmit=${submit}>
      <input name="commit" aria-label="Commit id" placeholder="commit id" required autofocus spellcheck=${false} />
      <button class="primary">Open</button>
      <button type="button" class="icon-button" aria-label="Cancel" title="Cancel" onClick=${() => setTyping(false)}><${Icon} name="close" /></button>
    </form>`;
  }
  const choose = (event) => (event.target.value === OTHER ? setTyping(true) : go(event.target.value));
  return html`<label class="ref"><${Icon} name="branches" />
    <select id="ref" aria-label="Branch or commit" title=${ref} value=${ref} onChange=${choose}>
      ${!names.includes(ref) && html`<option value=${ref}>${isCommit(ref) ? `commit …${ref.slice(-8)}` : ref}</option>`}
      ${names.map((name) => html`<option value=${name}>${name}</option>`)}
      <option value=${OTHER}>a commit …</option>
    </select>
  </label>`;
}

export function RefSelect({ id, label, value, onChange, allowCommit }) {
  const { branches } = usePlace();
  const names = branches?.branches || [];
  return html`<label class="field"><span>${label}</span>
    ${allowCommit
      ? html`<input id=${id} list="refs" value=${value} spellcheck=${false} onChange=${(event) => onChange(event.target.value.trim())} />
          <datalist id="refs">${names.map((name) => html`<option value=${name} />`)}</datalist>`
      : html`<select id=${id} value=${value} onChange=${(event) => onChange(event.target.value)}>
          ${names.map((name) => html`<option value=${name}>${name}</option>`)}
        </select>`}
  </label>`;
}
