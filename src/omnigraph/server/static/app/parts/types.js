// The types of a catalog, with their counts and colours.

import { html } from "../../vendor/htm-preact.js";

const COLOURS = 8;

// Return { nodes, edges, byKey }; each type has its key, kind, name, count, colour and what the catalog says.
export function typesOf({ catalog, entity_counts: counts, indexes = [] }) {
  const names = new Map([...(catalog.nodes || [])].map((type) => [type.id, type.name]));
  const describe = (kind) => (type, position) => {
    const key = `${kind}:${type.name}`;
    const own = indexes.filter((index) => index.table_key === key);
    return {
      ...type, kind, key, key_names: type.key || [], count: counts[key] ?? 0, colour: position % COLOURS, properties: type.properties || [],
      indexes: own, source: names.get(type.source), target: names.get(type.target),
    };
  };
  const nodes = (catalog.nodes || []).map(describe("node"));
  const edges = (catalog.edges || []).map(describe("edge"));
  return { nodes, edges, byKey: new Map([...nodes, ...edges].map((type) => [type.key, type])) };
}

// Whether `optimize` does not build a declared index. `reason` says why: a few vectors need none.
export const isUnbuilt = (index) => index.state === "none" && Boolean(index.reason);

export function typeText({ type, nullable }) {
  const item = { list: () => `[${type.item}]`, Vector: () => `Vector(${type.size})`, enum: () => `enum(${type.values.join(", ")})` };
  return `${item[type.kind] ? item[type.kind]() : type.kind}${nullable ? "?" : ""}`;
}

export function cardinalityText({ cardinality }) {
  return `${cardinality?.low ?? 0}..${cardinality?.high ?? "*"}`;
}

// Queries write an edge type with a small first letter.
export const edgeWord = (name) => name.charAt(0).toLowerCase() + name.slice(1);

export function TypeName({ type }) {
  return html`<span class="type-name"><span class=${type.kind === "node" ? `dot type-${type.colour}` : "dot edge"}></span><span class="clip" title=${type.name}>${type.name}</span></span>`;
}

// The columns that show a node or an edge: what identifies it, and its properties. Vectors and blobs are left out.
export function columnsOfType({ kind, key_names: keys, properties }) {
  const ids = kind === "edge" ? ["@from", "@to"] : keys.length ? [] : ["@id"];
  const shown = properties.filter((property) => !["Vector", "Blob"].includes(property.type.kind));
  return [...ids.map((name) => ({ name, type: "String" })), ...shown.map((property) => ({ name: property.name, type: typeText(property).replace("?", "") }))];
}

export function exampleQuery(type) {
  const [match, result] = type.kind === "node" ? [`$x: ${type.name}`, "$x"] : [`$a $x:${edgeWord(type.name)} $b`, "$a, $x, $b"];
  return `query q() {\n  match { ${match} }\n  return { ${result} }\n  limit 100\n}\n`;
}
