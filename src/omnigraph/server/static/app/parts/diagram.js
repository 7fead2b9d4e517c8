// The diagram of a schema: node types as boxes, edge types as labels between them. Dagre chooses the positions; boxes are
// HTML, so that text can be selected, focused and found. On a narrow window the boxes are a list.

import { html } from "../../vendor/htm-preact.js";
import { begin, end } from "../state.js";
import { Icon } from "./icons.js";
import { cardinalityText, TypeName, typeText } from "./types.js";
import { count, number } from "./widgets.js";

const PROPERTIES_MAX = 10;
const MARGIN = 16;
const CHARACTER = 7.3;

// Return { width, height, boxes: { key: { left, top, width, height } } } of a diagram of types.
export async function layOut({ nodes, edges }) {
  begin();
  try {
    const [{ default: cytoscape }, { default: dagre }] = await Promise.all([
      import("../../vendor/cytoscape.js"), import("../../vendor/cytoscape-dagre.js"),
    ]);
    cytoscape.use(dagre);
    const sizes = new Map([...nodes.map((type) => [type.key, boxSize(type)]), ...edges.map((type) => [type.key, labelSize(type)])]);
    const elements = [...sizes].map(([id, size]) => ({ data: { id, ...size } }));
    for (const { key, source, target } of edges) {
      elements.push({ data: { source: `node:${source}`, target: key } }, { data: { source: key, target: `node:${target}` } });
    }
    const style = [{ selector: "node", style: { width: "data(width)", height: "data(height)", shape: "rectangle" } }];
    const drawing = cytoscape({ headless: true, styleEnabled: true, elements, style });
    drawing.layout({ name: "dagre", rankDir: "LR", rankSep: 40, nodeSep: 20, fit: false, animate: false }).run();
    const centres = new Map(drawing.nodes().map((node) => [node.id(), { ...node.position() }]));
    drawing.destroy();
    return place(sizes, centres);
  } finally {
    end();
  }
}

function place(sizes, centres) {
  const corners = [...sizes].map(([key, { width, height }]) => {
    const { x, y } = centres.get(key);
    return [key, { left: x - width / 2, top: y - height / 2, width, height }];
  });
  const left = Math.min(...corners.map(([, box]) => box.left)) - MARGIN;
  const top = Math.min(...corners.map(([, box]) => box.top)) - MARGIN;
  const boxes = Object.fromEntries(corners.map(([key, box]) => [key, { ...box, left: Math.round(box.left - left), top: Math.round(box.top - top) }]));
  const all = Object.values(boxes);
  return {
    boxes,
    width: Math.max(...all.map((box) => box.left + box.width)) + MARGIN,
    height: Math.max(...all.map((box) => box.top + box.height)) + MARGIN,
  };
}

function boxSize({ name, properties, count: rows, key_names: keys }) {
  const marks = (property) => (keys.includes(property.name) ? 4 : 0) + (property.indexed ? 5 : 0);
  const lengths = properties.map((property) => property.name.length + typeText(property).length + marks(property) + 4);
  const width = Math.max(name.length + number(rows).length + 6, ...lengths) * CHARACTER + 16;
  const lines = Math.min(properties.length, PROPERTIES_MAX) + (properties.length > PROPERTIES_MAX ? 1 : 0);
  return { width: Math.round(Math.min(Math.max(width, 160), 300)), height: 34 + (lines ? 8 : 0) + lines * 20 };
}

function labelSize({ name, count: rows, cardinality }) {
  const second = number(rows).length + cardinalityText({ cardinality }).length + 3;
  return { width: Math.round(Math.max(name.length * 9, second * CHARACTER) + 24), height: 46 };
}

export function Diagram({ types, layout, selected, link }) {
  const all = [...types.nodes, ...types.edges];
  return html`<div class="diagram-box" tabindex="0" role="region" aria-label="Diagram of the schema">
    <div class="diagram" style=${{ width: `${layout.width}px`, height: `${layout.height}px` }}>
      <svg width=${layout.width} height=${layout.height} aria-hidden="true">
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
        ${lines(types.edges, layout.boxes).map(({ key, path, isEnd }) => html`<path class="line ${key === selected ? "current" : ""}" d=${path} marker-end=${isEnd ? "url(#arrow)" : undefined} />`)}
      </svg>
      ${all.map((type) => {
        const { left, top, width, height } = layout.boxes[type.key];
        const Part = type.kind === "node" ? NodeBox : EdgeLabel;
        const style = { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` };
        return html`<a class="schema-${type.kind} ${type.key === selected ? "current" : ""}" style=${style} href=${link(type.key)}
          data-type=${type.key} aria-current=${type.key === selected ? "true" : undefined}><${Part} type=${type} /></a>`;
      })}
    </div>
  </div>`;
}

function NodeBox({ type }) {
  const rest = type.properties.length - PROPERTIES_MAX;
  return html`<span class="schema-head"><${TypeName} type=${type} /><span class="mono muted" title=${count(type.count, "node")}>${number(type.count)}</span></span>
    ${type.properties.length > 0 && html`<span class="schema-properties">
      ${type.properties.slice(0, PROPERTIES_MAX).map((property) => html`<span class="schema-property">
        <span class="mono clip" title=${property.name}>${property.name}</span><${Marks} type=${type} property=${property} />
        <span class="mono muted clip" style=${{ flexBasis: widthOfType(property) }} title=${typeText(property)}>${typeText(property)}</span></span>`)}
      ${rest > 0 && html`<span class="muted small">and ${rest} more</span>`}
    </span>`}`;
}

// A long name leaves space for the type, and a long type leaves half of the line for the name.
const widthOfType = (property) => `min(50%, ${typeText(property).length}ch + 9px)`;

function Marks({ type, property }) {
  const isKey = (type.key_names || []).includes(property.name);
  return html`${isKey && html`<span class="mark key" title="key"><${Icon} name="key" /></span>`}
    ${property.indexed && html`<span class="mark" title="indexed">idx</span>`}`;
}

function EdgeLabel({ type }) {
  return html`<strong class="clip" title=${type.name}>${type.name}</strong>
    <span class="schema-ends muted small clip" title=${`${type.source} → ${type.target}`}>${type.source} → ${type.target}</span>
    <span class="mono muted">${cardinalityText(type)}<span title=${count(type.count, "edge")}> · ${number(type.count)}</span></span>`;
}

// Return the lines from each source to the label of its edge type, and from there to the target. Lines that leave a side
// of a box are spread over it, in the order of their other ends.
function lines(edges, boxes) {
  const parts = edges.flatMap(({ key, source, target }) => [
    { key, from: `node:${source}`, to: key, isEnd: false },
    { key, from: key, to: `node:${target}`, isEnd: true },
  ]);
  const ports = new Map();
  const attach = (part, which, box, other) => {
    const side = sideOf(boxes[box], boxes[other]);
    const name = `${box} ${side}`;
    if (!ports.has(name)) ports.set(name, []);
    ports.get(name).push({ part, which, side, box: boxes[box], order: boxes[other].top + boxes[other].height / 2 + (part.isEnd ? 0.1 : 0) });
  };
  for (const part of parts) {
    attach(part, "start", part.from, part.to);
    attach(part, "end", part.to, part.from);
  }
  for (const group of ports.values()) {
    group.sort((left, right) => left.order - right.order);
    group.forEach(({ part, which, side, box }, index) => {
      const y = box.top + (box.height * (index + 1)) / (group.length + 1);
      part[which] = { x: side === "right" ? box.left + box.width : box.left, y, sign: side === "right" ? 1 : -1 };
    });
  }
  return parts.map(({ key, isEnd, start, end: stop }) => {
    const bend = Math.max(16, Math.abs(stop.x - start.x) / 2);
    const path = `M${start.x} ${start.y}C${start.x + start.sign * bend} ${start.y} ${stop.x + stop.sign * bend} ${stop.y} ${stop.x} ${stop.y}`;
    return { key, isEnd, path };
  });
}

const sideOf = (box, other) => (other.left + other.width / 2 >= box.left + box.width / 2 ? "right" : "left");
