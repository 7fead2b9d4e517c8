// The entities of a result, as nodes and edges, and the queries that load their neighbours. No drawing here.

import { runQuery } from "../api.js";
import { columnsOfType, edgeWord } from "./types.js";

export const NODES_MAX = 500;
export const STEP = 25;
export const EDGES_MAX = 2_000;

const typeOfColumn = (types, column) => [...types.nodes, ...types.edges].find((type) => type.name === column.type);
export const hasEntities = (columns, types) => columns.some((column) => typeOfColumn(types, column));

// Return the columns and rows of a table in which a whole node or edge has a column for each property.
export function spreadEntities(columns, rows, types) {
  const typed = columns.map((column) => ({ ...column, entity: typeOfColumn(types, column) }));
  const parts = typed.flatMap(({ name, type, entity }) => (entity ? columnsOfType(entity).map((part) => ({ name: `${name}.${part.name}`, type: part.type, from: name, property: part.name })) : [{ name, type }]));
  const cells = (row) => parts.map(({ name, from, property }) => [name, from === undefined ? row[name] : row[from]?.[property]]);
  return typed.some(({ entity }) => entity) ? { columns: parts, rows: rows.map((row) => Object.fromEntries(cells(row))) } : { columns, rows };
}

// An immutable set of nodes and edges by key. `isFull` says that nodes were left out, `cut` lists the types with more edges.
export const nothing = { nodes: new Map(), edges: new Map(), isFull: false, cut: [] };

export function addRows(drawn, rows, columns, types) {
  const nodes = new Map(drawn.nodes);
  const edges = new Map(drawn.edges);
  const { cut } = drawn;
  let { isFull } = drawn;
  const typed = columns.map((column) => ({ name: column.name, type: typeOfColumn(types, column) })).filter(({ type }) => type);
  for (const row of rows) {
    for (const { name, type } of typed) {
      const entity = row[name];
      if (!entity) continue;
      if (type.kind === "edge") edges.set(`${type.key} ${entity["@id"]}`, makeEdge(type, entity));
      else if (nodes.has(`${type.key} ${entity["@id"]}`)) continue;
      else if (nodes.size >= NODES_MAX) isFull = true;
      else nodes.set(`${type.key} ${entity["@id"]}`, { key: `${type.key} ${entity["@id"]}`, type, id: entity["@id"], entity });
    }
  }
  return { nodes, edges, isFull, cut };
}

function makeEdge(type, entity) {
  return { key: `${type.key} ${entity["@id"]}`, type, entity, source: `node:${type.source} ${entity["@from"]}`, target: `node:${type.target} ${entity["@to"]}` };
}

// Edges whose endpoints are both drawn.
export const drawnEdges = ({ nodes, edges }) => [...edges.values()].filter((edge) => nodes.has(edge.source) && nodes.has(edge.target));

// Load the edges between the drawn nodes, with one query per edge type.
export async function addEdgesBetween(drawn, types, graph, state, signal) {
  const idsOf = (name) => [...drawn.nodes.values()].filter((node) => node.type.name === name).map((node) => node.id);
  const loadable = types.edges.map((type) => ({ type, sources: idsOf(type.source), targets: idsOf(type.target) })).filter(({ sources, targets }) => sources.length && targets.length);
  const answers = await Promise.all(loadable.map(({ type, sources, targets }) => {
    const query = `query q($sources: [String], $targets: [String]) { match { $a $e:${edgeWord(type.name)} $b  $a.id in $sources  $b.id in $targets } return { $e } limit ${EDGES_MAX + 1} }`;
    return runQuery(graph, { query, params: { sources, targets }, ...state }, { signal });
  }));
  const cut = loadable.filter((_, index) => answers[index].rows.length > EDGES_MAX).map(({ type }) => type.name);
  const add = (sum, { rows }, index) => addRows(sum, rows.slice(0, EDGES_MAX), [{ name: "e", type: loadable[index].type.name }], types);
  return answers.reduce(add, { ...drawn, cut });
}

// The edge types of a node, by direction.
export function directionsOf(node, types) {
  const outgoing = types.edges.filter((type) => type.source === node.type.name).map((type) => ({ type, isOut: true, other: type.target }));
  const incoming = types.edges.filter((type) => type.target === node.type.name).map((type) => ({ type, isOut: false, other: type.source }));
  return [...outgoing, ...incoming].map((direction) => ({ ...direction, key: `${node.key} ${direction.type.name} ${direction.isOut ? "out" : "in"}` }));
}

// Load the next neighbours of a node. Return what is drawn then, and whether there may be more.
export async function expand(drawn, node, direction, offset, types, graph, state) {
  const [self, other] = direction.isOut ? ["$a", "$b"] : ["$b", "$a"];
  const query = `query q($id: String) { match { $a $e:${edgeWord(direction.type.name)} $b  ${self}.id = $id } return { $e, ${other} as other } order { $e.id } limit ${STEP} offset ${offset} }`;
  const answer = await runQuery(graph, { query, params: { id: node.id }, ...state });
  const columns = [{ name: "e", type: direction.type.name }, { name: "other", type: direction.other }];
  return { drawn: addRows(drawn, answer.rows, columns, types), hasMore: answer.rows.length === STEP };
}
