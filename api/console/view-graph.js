/** Tables and views as a graph: what a view uses stands to its left. */

import { s } from "./dom.js";

const [WIDTH, HEIGHT, ACROSS, DOWN, MARGIN] = [158, 42, 64, 16, 12];
const MOST_LETTERS = 19;

/**
 * Places by name as {layer, at}, and the links. A table is in layer 0, a view one beyond the last of what it uses. In a
 * layer, nodes are sorted by the middle of what they use, which keeps most links from crossing. O(n log n + links).
 */
export function layers(views) {
  const byName = new Map(views.map((view) => [view.name, view]));
  const depths = new Map();
  const depth = (name) => {
    if (!depths.has(name)) {
      const uses = byName.get(name)?.uses;
      depths.set(name, uses ? 1 + Math.max(...uses.map(depth)) : 0);
    }
    return depths.get(name);
  };
  views.forEach(({ name }) => depth(name));
  const rows = [];
  for (const [name, layer] of depths) (rows[layer] ??= []).push(name);
  const places = new Map();
  const middle = (names) => names.reduce((sum, name) => sum + (places.get(name)?.at ?? 0), 0) / (names.length || 1);
  rows.forEach((names, layer) => {
    const sorted = names
      .map((name) => [name, middle(byName.get(name)?.uses ?? [])])
      .sort((a, b) => a[1] - b[1]);
    sorted.forEach(([name], at) => places.set(name, { layer, at: at - (names.length - 1) / 2 }));
  });
  const links = views.flatMap(({ name, uses }) => [...new Set(uses)].map((used) => ({ from: used, to: name })));
  return { places, links, layers: rows.length, most: Math.max(0, ...rows.map((names) => names.length)) };
}

/** The drawing; `choose` is called with the name of a node. */
export function drawGraph(relations, chosen, choose) {
  const views = relations.filter(({ sql }) => sql !== undefined);
  const { places, links, layers: columns, most } = layers(views);
  const [wide, high] = [
    2 * MARGIN + columns * WIDTH + (columns - 1) * ACROSS,
    2 * MARGIN + most * HEIGHT + (most - 1) * DOWN,
  ];
  const left = ({ layer }) => MARGIN + layer * (WIDTH + ACROSS);
  const centre = ({ at }) => high / 2 + at * (HEIGHT + DOWN);
  const lines = links.map(({ from, to }) => {
    const [a, b] = [places.get(from), places.get(to)];
    const [x1, y1, x2, y2] = [left(a) + WIDTH, centre(a), left(b), centre(b)];
    const bend = ACROSS / 2;
    const isNear = from === chosen || to === chosen;
    return s("path", {
      class: isNear ? "use near" : "use",
      d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`,
      "data-use": `${from}→${to}`,
    });
  });
  const nodes = [...places].map(([name, place]) => {
    const known = relations.find((one) => one.name === name);
    return box(known, { x: left(place), y: centre(place) - HEIGHT / 2, isChosen: name === chosen, choose });
  });
  const drawing = s(
    "svg",
    {
      viewBox: `0 0 ${wide} ${high}`,
      role: "group",
      "aria-label": `${places.size} tables and views, ${links.length} uses`,
    },
    lines,
    nodes,
  );
  drawing.style.maxWidth = `${wide}px`; // never larger than life
  return drawing;
}

function box(relation, { x, y, isChosen, choose }) {
  const { name, sql } = relation;
  const isView = sql !== undefined;
  const short = name.length > MOST_LETTERS ? `${name.slice(0, MOST_LETTERS - 1)}…` : name;
  const act = () => choose(name);
  return s(
    "g",
    {
      class: ["relation", isView ? "view" : "table", isChosen ? "chosen" : ""].join(" "),
      tabindex: 0,
      role: "button",
      "aria-pressed": String(isChosen),
      "aria-label": `${isView ? "view" : "table"} ${name}`,
      "data-relation": name,
      onclick: act,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        act();
      },
    },
    s("title", null, name),
    s("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 5 }),
    s("text", { class: "name", x: x + 11, y: y + 18 }, short),
    s("text", { x: x + 11, y: y + 33 }, isView ? "view" : "table", s("tspan", { "data-count": name })),
  );
}
