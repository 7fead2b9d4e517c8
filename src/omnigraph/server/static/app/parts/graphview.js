// A result as a graph: nodes coloured by type and labelled by key, and next to it a table of the same nodes. The drawing is a
// canvas, so everything that it shows can also be reached through the table.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/htm-preact.js";
import { begin, end, usePlace } from "../state.js";
import { addEdgesBetween, addRows, directionsOf, drawnEdges, EDGES_MAX, expand, NODES_MAX, nothing, STEP } from "./entities.js";
import { Value } from "./table.js";
import { TypeName } from "./types.js";
import { count, Empty, ErrorBox, Loading, Notice, number } from "./widgets.js";

const LABELLED_EDGES_MAX = 40;
const HUB_EDGES_MIN = 8;
const LABEL = { font: 12, width: 120, height: 16, gap: 4 };
const MANY_NODES = 150;
const PART_GAP = 60;
const DENSE_EDGES = 500;
const ZOOM_MAX = 1.4;
const GOLDEN_ANGLE = 2.39996;

export function GraphView({ rows, columns, types }) {
  const { graph, state } = usePlace();
  const [drawn, setDrawn] = useState(null);
  const [selected, setSelected] = useState(null);
  const [offsets, setOffsets] = useState({});
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(null);
  useEffect(() => {
    const stop = new AbortController();
    const start = addRows(nothing, rows, columns, types);
    setSelected(null);
    setOffsets({});
    addEdgesBetween(start, types, graph, state, stop.signal).then(setDrawn, (failure) => {
      if (failure.name === "AbortError") return;
      setError(failure);
      setDrawn(start);
    });
    return () => stop.abort();
  }, [rows]);
  if (!drawn) return html`<${Loading} text="Loading edges" />`;
  if (!drawn.nodes.size) return html`<${Empty} title="No nodes to draw">The rows have no nodes. Return both endpoints of an edge to draw it.<//>`;
  const node = drawn.nodes.get(selected);
  const grow = async (direction) => {
    setBusy(direction.key);
    setError(null);
    try {
      const offset = offsets[direction.key] || 0;
      const more = await expand(drawn, node, direction, offset, types, graph, state);
      setDrawn(await addEdgesBetween(more.drawn, types, graph, state));
      setOffsets({ ...offsets, [direction.key]: more.hasMore ? offset + STEP : Infinity });
    } catch (failure) {
      setError(failure);
    }
    setBusy(null);
  };
  return html`
    ${drawn.isFull && html`<${Notice} kind="warning"><p>${number(NODES_MAX)} nodes are drawn, and the others are left out. Use a smaller limit to see all of them.</p><//>`}
    ${drawn.cut.length > 0 && html`<${Notice} kind="warning"><p>Between these nodes, ${number(EDGES_MAX)} edges of type ${drawn.cut.join(", ")} are drawn, and the others are left out.</p><//>`}
    ${error && html`<${ErrorBox} error=${error} />`}
    <div class="graph-view">
      <${Canvas} drawn=${drawn} selected=${selected} onSelect=${setSelected} />
      <div class="graph-side">
        ${node && html`<${NodeDetails} node=${node} types=${types} offsets=${offsets} busy=${busy} isFull=${drawn.nodes.size >= NODES_MAX} onExpand=${grow} onClose=${() => setSelected(null)} />`}
        <${NodeTable} drawn=${drawn} selected=${selected} onSelect=${setSelected} />
      </div>
    </div>`;
}

function NodeDetails({ node, types, offsets, busy, isFull, onExpand, onClose }) {
  const values = Object.entries(node.entity).filter(([name]) => !name.startsWith("@"));
  return html`<section class="node-details" aria-label="Node">
    <header><${TypeName} type=${node.type} /><code class="clip">${node.id}</code><button type="button" class="link" onClick=${onClose}>Close</button></header>
    <dl class="facts small">${values.map(([name, value]) => html`<dt>${name}</dt><dd class="mono"><${Value} value=${value} /></dd>`)}</dl>
    <h3>Expand</h3>
    <div class="actions">${directionsOf(node, types).map((direction) => {
      const isDone = offsets[direction.key] === Infinity;
      return html`<button type="button" class="expand" disabled=${isDone || isFull || Boolean(busy)} title=${isDone ? "All are drawn" : `Load ${STEP} neighbours`} onClick=${() => onExpand(direction)}>
        ${direction.isOut ? `${direction.type.name} → ${direction.other}` : `${direction.type.name} ← ${direction.other}`}${offsets[direction.key] > 0 && !isDone ? " …" : ""}</button>`;
    })}</div>
  </section>`;
}

function NodeTable({ drawn, selected, onSelect }) {
  const nodes = [...drawn.nodes.values()];
  return html`<p class="muted small graph-counts">${count(nodes.length, "node")}, ${count(drawnEdges(drawn).length, "edge")}</p>
    <div class="table-box graph-table"><table><thead><tr><th>type</th><th>key</th></tr></thead>
      <tbody>${nodes.map((node) => html`<tr class=${node.key === selected ? "current" : ""} key=${node.key}>
        <td class="words"><${TypeName} type=${node.type} /></td>
        <td><button type="button" class="link mono" title=${node.id} data-node=${node.key} aria-pressed=${String(node.key === selected)} onClick=${() => onSelect(node.key)}>${node.id}</button></td></tr>`)}</tbody>
    </table></div>`;
}

function Canvas({ drawn, selected, onSelect }) {
  const container = useRef(null);
  const drawing = useRef(null);
  const select = useRef(onSelect);
  select.current = onSelect;
  const latest = useRef({});
  latest.current = { drawn, selected };
  useEffect(() => {
    begin();
    let isOver = false;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => drawing.current?.style(styleSheet());
    import("../../vendor/cytoscape.js").then(({ default: cytoscape }) => {
      if (isOver) return;
      drawing.current = cytoscape({ container: container.current, style: styleSheet(), minZoom: 0.01, maxZoom: 3, userZoomingEnabled: false });
      drawing.current.on("tap", (event) => select.current(event.target === drawing.current || !event.target.isNode() ? null : event.target.id()));
      show(drawing.current, latest.current.drawn, latest.current.selected);
      drawing.current.on("resize", () => fit(drawing.current));
      drawing.current.on("zoom free", () => placeLabels(drawing.current));
      dark.addEventListener("change", recolour);
    }).finally(end);
    return () => {
      isOver = true;
      dark.removeEventListener("change", recolour);
      drawing.current?.destroy();
    };
  }, []);
  // Before the window is painted, so that the drawing and the table never differ.
  useLayoutEffect(() => {
    if (drawing.current) show(drawing.current, drawn, selected);
  }, [drawn]);
  useLayoutEffect(() => {
    if (drawing.current) mark(drawing.current, selected);
  }, [selected]);
  const zoom = (factor) => drawing.current.zoom({ level: drawing.current.zoom() * factor, renderedPosition: { x: container.current.clientWidth / 2, y: container.current.clientHeight / 2 } });
  // The wheel zooms only after a click into the drawing, so that it does not stop the page from scrolling.
  return html`<div class="graph-canvas" onPointerDown=${() => drawing.current?.userZoomingEnabled(true)} onPointerLeave=${() => drawing.current?.userZoomingEnabled(false)}>
    <div class="graph-drawing" ref=${container} role="img" aria-label="The graph. The table has the same nodes."></div>
    <div class="graph-zoom">
      <button type="button" aria-label="Zoom in" title="Zoom in" onClick=${() => zoom(1.3)}>+</button>
      <button type="button" aria-label="Zoom out" title="Zoom out" onClick=${() => zoom(1 / 1.3)}>−</button>
      <button type="button" title="Show everything" onClick=${() => fit(drawing.current)}>Fit</button>
    </div>
  </div>`;
}

// Add what is not drawn yet, next to its neighbours, and lay everything out. The start is not random, so results repeat.
function show(drawing, drawn, selected) {
  if ([...drawing.nodes()].some((node) => !drawn.nodes.has(node.id()))) drawing.elements().remove();
  const isNew = drawing.nodes().empty();
  const origin = selected && drawing.getElementById(selected).nonempty() ? drawing.getElementById(selected).position() : { x: 0, y: 0 };
  const fresh = [...drawn.nodes.values()].filter((node) => drawing.getElementById(node.key).empty());
  const edges = drawnEdges(drawn).filter((edge) => drawing.getElementById(edge.key).empty());
  drawing.add(fresh.map((node, index) => {
    const radius = 24 * Math.sqrt(index + 1);
    const position = { x: origin.x + radius * Math.cos(index * GOLDEN_ANGLE), y: origin.y + radius * Math.sin(index * GOLDEN_ANGLE) };
    return { group: "nodes", data: { id: node.key, label: labelOf(node) }, classes: `type-${node.type.colour}`, position };
  }));
  drawing.add(edges.map(({ key, type, source, target }) => ({ group: "edges", data: { id: key, source, target, label: type.name } })));
  drawing.elements().toggleClass("many", drawing.nodes().length > MANY_NODES);
  drawing.edges().toggleClass("dense", drawing.edges().length > DENSE_EDGES);
  if (fresh.length || isNew) {
    const amount = drawing.nodes().length;
    const isolated = drawing.nodes().filter((node) => node.degree(false) === 0);
    drawing.elements().difference(isolated).layout({
      name: "cose", animate: false, randomize: false, fit: false, nodeOverlap: 16,
      idealEdgeLength: () => 72, nodeRepulsion: () => 12_000, gravity: 1, numIter: amount > 200 ? 300 : 800,
    }).run();
    placeInRows(drawing);
    fit(drawing);
  }
  mark(drawing, selected);
}

// Place parts that no edge connects in rows, the largest first, as wide as the drawing is. The layout itself makes a long column.
function placeInRows(drawing) {
  const parts = drawing.elements().components().map((part) => ({ part, ...part.boundingBox({ includeLabels: false }) }));
  if (parts.length === 1) return;
  parts.sort((left, right) => right.h - left.h || right.w - left.w);
  const area = parts.reduce((sum, { w, h }) => sum + (w + PART_GAP) * (h + PART_GAP), 0);
  const width = Math.max(...parts.map(({ w }) => w), Math.sqrt((area * drawing.width()) / drawing.height()));
  let [left, top, height] = [0, 0, 0];
  for (const { part, x1, y1, w, h } of parts) {
    if (left > 0 && left + w > width) [left, top, height] = [0, top + height + PART_GAP, 0];
    part.nodes().shift({ x: left - x1, y: top - y1 });
    [left, height] = [left + w + PART_GAP, Math.max(height, h)];
  }
}

// Show everything, without enlarging a few nodes.
function fit(drawing) {
  drawing.fit(undefined, 32);
  if (drawing.zoom() <= ZOOM_MAX) return;
  drawing.zoom(ZOOM_MAX);
  drawing.center();
}

function mark(drawing, selected) {
  drawing.elements().removeClass("current near");
  const node = drawing.getElementById(selected ?? "");
  node.addClass("current");
  node.connectedEdges().addClass("near");
  placeLabels(drawing);
}

// Labels have the same size at each zoom. Where two would overlap, the node with more edges keeps its label. Only the label of
// a hub may cover other nodes.
function placeLabels(drawing) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${LABEL.font}px system-ui, sans-serif`;
  const widthOf = (element) => Math.min(pen.measureText(element.data("label")).width, LABEL.width) + LABEL.gap;
  const boxOf = (owner, { x, y }, width, height) => ({ owner, x1: x - width / 2, x2: x + width / 2, y1: y - height / 2, y2: y + height / 2 });
  const circles = drawing.nodes().map((node) => boxOf(node.id(), node.renderedPosition(), node.renderedWidth(), node.renderedHeight()));
  const labels = [];
  const label = (element, box, obstacles) => {
    const isFree = obstacles.every(({ owner, x1, x2, y1, y2 }) => owner === box.owner || box.x2 <= x1 || box.x1 >= x2 || box.y2 <= y1 || box.y1 >= y2);
    element.toggleClass("labelled", isFree);
    if (isFree) labels.push({ ...box, owner: null });
  };
  const rank = (node) => (node.hasClass("current") ? Infinity : node.degree(false));
  drawing.batch(() => {
    drawing.nodes().sort((left, right) => (rank(left) < rank(right)) - (rank(left) > rank(right))).forEach((node) => {
      const { x, y } = node.renderedPosition();
      label(node, boxOf(node.id(), { x, y: y + (node.renderedHeight() + LABEL.height) / 2 + LABEL.gap }, widthOf(node), LABEL.height), rank(node) < HUB_EDGES_MIN ? [...circles, ...labels] : labels);
    });
    const edges = drawing.edges(drawing.edges().length <= LABELLED_EDGES_MAX ? undefined : ".near");
    drawing.edges().difference(edges).removeClass("labelled");
    edges.forEach((edge) => label(edge, boxOf(edge.id(), edge.renderedMidpoint(), widthOf(edge), LABEL.height), [...circles, ...labels]));
  });
  drawing.style().update();
}

const labelOf = ({ id, type, entity }) => (type.key_names.length ? id : String(entity.name ?? entity.title ?? `…${id.slice(-6)}`));

// Colours of the page, so that both modes work.
function styleSheet() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const onScreen = (pixels) => (element) => pixels / element.cy().zoom();
  const font = { label: "data(label)", "font-family": "system-ui, sans-serif", "font-size": onScreen(LABEL.font), "text-background-color": colour("bg"), "text-background-opacity": 0.8 };
  const types = Array.from({ length: 8 }, (_, index) => ({ selector: `.type-${index}`, style: { "background-color": colour(`type-${index}`) } }));
  return [
    { selector: "node", style: { width: 20, height: 20, "z-index": (node) => node.degree(false) } },
    { selector: "node.labelled", style: { ...font, color: colour("text"), "text-valign": "bottom", "text-margin-y": onScreen(LABEL.gap), "text-max-width": onScreen(LABEL.width), "text-wrap": "ellipsis" } },
    ...types,
    { selector: "edge", style: { width: 1.4, "line-color": colour("muted"), "line-opacity": 0.6, "target-arrow-color": colour("muted"), "target-arrow-shape": "triangle", "arrow-scale": 0.8, "curve-style": "bezier" } },
    { selector: "node.many", style: { width: 36, height: 36 } },
    { selector: "edge.many", style: { width: 3 } },
    { selector: "edge.dense", style: { "curve-style": "straight" } },
    { selector: "edge.labelled", style: { ...font, color: colour("muted") } },
    { selector: "edge.near", style: { "line-color": colour("accent"), "target-arrow-color": colour("accent"), "line-opacity": 1, width: 2 } },
    { selector: "node.current", style: { "border-width": 3, "border-color": colour("accent"), "border-opacity": 1, width: 26, height: 26 } },
    { selector: "node.current.many", style: { "border-width": 8, width: 48, height: 48 } },
  ];
}
