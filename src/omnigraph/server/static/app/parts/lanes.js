// The lines between commits: one column for each line of parents, as `omnigraph log --draw` draws them.

import { html } from "../../vendor/htm-preact.js";

export const ROW = 36;
const COLUMN = 16;
const WIDTH_MAX = 128;

// Return for each commit { column, width, lines: [{ from, to, colour, half }] }. Commits come newest first. A column holds the
// next commit of its line; a merge adds a column for its second parent; columns that hold the same commit are joined.
export function drawLanes(commits, colourOf) {
  const byId = new Map(commits.map((commit) => [commit.graph_commit_id, commit]));
  let columns = [];
  return commits.map((commit) => {
    const id = commit.graph_commit_id;
    const colour = colourOf(commit);
    const isNew = !columns.some((held) => held.id === id);
    const before = isNew ? [...columns, { id, colour }] : columns;
    const column = before.findIndex((held) => held.id === id);
    const after = before.filter((held, index) => index === column || held.id !== id);
    const position = after.indexOf(before[column]);
    const parents = commit.parent_commit_id ? [{ id: commit.parent_commit_id, colour }] : [];
    after.splice(position, 1, ...parents);
    const merged = commit.merged_parent_commit_id;
    if (merged && !after.some((held) => held.id === merged)) after.splice(position + 1, 0, { id: merged, colour: byId.has(merged) ? colourOf(byId.get(merged)) : colour });
    const lines = [];
    before.forEach((held, index) => {
      if (held.id !== id) lines.push({ from: index, to: after.indexOf(held), colour: held.colour, half: "whole" });
      else if (index !== column || !isNew) lines.push({ from: index, to: column, colour: index === column ? colour : held.colour, half: "top" });
    });
    if (parents.length) lines.push({ from: column, to: position, colour, half: "bottom" });
    const other = after.findIndex((held) => held.id === merged);
    if (merged && other >= 0) lines.push({ from: column, to: other, colour: after[other].colour, half: "bottom" });
    columns = after;
    return { column, colour, width: Math.max(before.length, after.length), lines };
  });
}

export function Lanes({ row, width, isMerge }) {
  const size = Math.min(COLUMN, WIDTH_MAX / width);
  const x = (column) => (column + 0.5) * size;
  const spans = { whole: [0, ROW], top: [0, ROW / 2], bottom: [ROW / 2, ROW] };
  return html`<svg class="lanes" width=${Math.ceil(width * size)} height=${ROW} aria-hidden="true">
    ${row.lines.map(({ from, to, colour, half }) => {
      const [top, bottom] = spans[half];
      const middle = (top + bottom) / 2;
      return html`<path class="lane type-${colour}" d=${`M${x(from)} ${top}C${x(from)} ${middle} ${x(to)} ${middle} ${x(to)} ${bottom}`} />`;
    })}
    <circle class="commit-dot type-${row.colour} ${isMerge ? "merge" : ""}" data-column=${row.column} cx=${x(row.column)} cy=${ROW / 2} r=${size < 12 ? 4 : 5} />
  </svg>`;
}
