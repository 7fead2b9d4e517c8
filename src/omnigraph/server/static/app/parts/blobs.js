// A blob: its size, and a button that downloads it. Its content is never drawn.

import { html, useState } from "../../vendor/htm-preact.js";
import { getBlob } from "../api.js";
import { usePlace } from "../state.js";
import { Icon } from "./icons.js";
import { download } from "./table.js";
import { number } from "./widgets.js";

const PREFIX = "base64:";
const UNITS = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];

// Whether a value of a Blob is its bytes; otherwise it is the address of a blob outside of the graph.
export const isBlobText = (value) => typeof value === "string" && value.startsWith(PREFIX);

export function BlobLink({ text, file, query }) {
  const { graph } = usePlace();
  const [error, setError] = useState(null);
  const load = () => getBlob(graph, query).then((content) => download(file, content.type, content), setError);
  const size = sizeOf(text);
  return html`<span class="blob"><span title=${`${number(size)} bytes`}>${sizeText(size)}</span>
    <button type="button" class="link" title=${`Download ${file}`} onClick=${load}><${Icon} name="download" />Download</button>
    ${error && html`<span class="error-text">${error.message}</span>`}</span>`;
}

function sizeOf(text) {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  return ((text.length - PREFIX.length) / 4) * 3 - padding;
}

function sizeText(size) {
  const [unit, bytes] = UNITS.find(([, least]) => size >= least) || [];
  return unit ? `${(size / bytes).toFixed(1)} ${unit}` : `${size} bytes`;
}
