// Ask for a token. It is kept in sessionStorage until the window is closed or the user logs out.

import { html, useState } from "../../vendor/htm-preact.js";
import { whoami } from "../api.js";
import { Brand } from "../parts/icons.js";
import { ErrorBox } from "../parts/widgets.js";
import { session } from "../state.js";

export function LoginPage({ error, onEnter }) {
  const [problem, setProblem] = useState(error);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const token = event.target.elements.token.value.trim();
    setBusy(true);
    setProblem(null);
    try {
      const caller = await whoami({ token });
      session.enter(token);
      onEnter(caller);
    } catch (failure) {
      setProblem(failure.status === 401 ? { message: "the server does not accept this token", hint: "Ask its operator for a token." } : failure);
      setBusy(false);
    }
  };
  return html`<main class="alone">
    <form class="panel login" onSubmit=${submit}>
      <div class="brand"><${Brand} /><span>Omnigraph</span></div>
      <label class="field"><span>Token</span>
        <input id="token" name="token" type="password" required autofocus autocomplete="off" spellcheck=${false} />
      </label>
      ${problem && html`<${ErrorBox} error=${problem} />`}
      <button class="primary" disabled=${isBusy}>Log in</button>
      <p class="muted small">The token is kept in this window only, and sent with each request.</p>
    </form>
  </main>`;
}
