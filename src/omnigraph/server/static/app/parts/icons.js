// Line icons, drawn for these pages on a grid of 16.

import { html } from "../../vendor/htm-preact.js";

const PATHS = {
  graphs: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  query: "M3 4l3.5 4L3 12M8 12h5",
  schema: "M2.5 3h4v4h-4zM9.5 9h4v4h-4zM6.5 5h3a2 2 0 0 1 2 2v2",
  history: "M8 4.5V8l2.5 1.5M2.6 6A5.6 5.6 0 1 1 2.4 8.6M2.5 3v3h3",
  branches: "M4.5 5.5v5M4.5 9c0-2 7-1 7-3.5M4.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM4.5 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM11.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z",
  health: "M1.5 8.5h3l2-5 3 9 2-4h3",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  check: "M3 8.5l3.2 3L13 4.5",
  alert: "M8 2.5l6 11H2zM8 6.5v3.5M8 12v.01",
  info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.5V11M8 5v.01",
  play: "M4.5 3v10l8-5z",
  stop: "M4 4h8v8H4z",
  close: "M4 4l8 8M12 4l-8 8",
  download: "M8 2.5v8M4.5 7.5L8 11l3.5-3.5M2.5 13.5h11",
  key: "M10.5 9.5a3 3 0 1 0-2.6-1.5L3 13v.5h2.5V12H7v-1.5l1-1",
  user: "M8 8.5a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM2.8 13.8a5.3 5.3 0 0 1 10.4 0",
  merge: "M4.5 5.5v5M4.5 5.5C5 9 9 8 10 8M4.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM4.5 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM11.5 9.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}

export function Brand() {
  return html`<svg class="brand-mark" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="7" />
    <path d="M10 11v10M10 16c0-4 12-1 12-5" />
    <circle cx="10" cy="10" r="3.4" /><circle cx="10" cy="22" r="3.4" /><circle class="other" cx="22" cy="10" r="3.4" />
  </svg>`;
}
