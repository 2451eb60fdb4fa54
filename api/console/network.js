/** The network: brokers as a graph, what each link carries, and the way of the last message. */

import { bytes, count, fill, h, rough, s, tableOf } from "./dom.js";
import { client, maybe, on } from "./session.js";
import { latest } from "./sampler.js";
import { nearest, radial } from "./layout.js";

const SIZE = 640;
const LABELLED = 40; // more names than this are shown on pointing only
const LISTED = 25;

/** The links with both directions as one, and every name that occurs. */
export function graph({ links = [], brokers = [] }) {
  const pairs = new Map();
  const names = new Set(brokers.map((broker) => String(broker.name ?? broker.id ?? broker)));
  for (const { from, to, messages = 0, bytes: size = 0, last_seq: seq = 0 } of links) {
    names.add(from).add(to);
    const key = JSON.stringify([from, to].sort());
    const pair = pairs.get(key) ?? { from, to, messages: 0, bytes: 0, seq: 0 };
    const sum = { messages: pair.messages + messages, bytes: pair.bytes + size, seq: Math.max(pair.seq, Number(seq)) };
    pairs.set(key, { ...pair, ...sum });
  }
  return { names: [...names], links: [...pairs.values()] };
}

export function show(main) {
  const drawing = h("div", { class: "graph" });
  const figures = h("dl", { class: "terms" });
  const table = h("div", { class: "scroll" });
  fill(
    main,
    h("h2", null, "Network"),
    h("p", { class: "lead", id: "network-lead" }),
    h("div", { class: "columns wide" }, drawing, h("section", null, figures, h("h3", null, "Links"), table)),
  );
  let before = null; // the links as they were
  let drawn = "";

  function update(network) {
    if (!network)
      return fill(drawing, h("p", { class: "notice" }, "This server does not show its network (GET /v1/network)."));
    const { names, links } = graph(network);
    const counts = new Map(links.map((link) => [`${link.from}→${link.to}`, link.messages]));
    const last = Math.max(0, ...links.map((link) => link.seq));
    const hot = new Set(links.filter((link) => last > 0 && link.seq === last).map((link) => `${link.from}→${link.to}`));
    const shape = JSON.stringify([names, links.map(({ from, to }) => [from, to])]);
    if (shape !== drawn) {
      drawn = shape;
      fill(drawing, draw(names, links));
    }
    colour(drawing, links, hot);
    document.getElementById("network-lead").textContent = words(network, names, links, hot, last);
    fill(
      figures,
      scalars(network).map(([name, value]) => [h("dt", null, name.replaceAll("_", " ")), h("dd", null, value)]),
    );
    fill(table, list(links, before, hot));
    before = counts;
  }

  const known = latest()?.network;
  if (known) update(known);
  else maybe(client.request("GET", "/v1/network")).then(update, () => {});
  return on("sample", ({ network }) => update(network));
}

function words(network, names, links, hot, last) {
  const total = links.reduce((sum, link) => sum + link.messages, 0);
  const nodes = `${count(names.length)} ${names.length === 1 ? "node" : "nodes"}, ${count(links.length)} ${links.length === 1 ? "link" : "links"}`;
  const how =
    network.network === "local"
      ? "The network is within this process: the server hands messages to its edge, which knows every attached subscription. "
      : "";
  return `${how}${nodes}, ${count(total)} messages carried so far. ${hot.size ? `Highlighted: the way of the last message, seq ${count(last)} (${count(hot.size)} ${hot.size === 1 ? "link" : "links"}).` : "No message has been sent yet."}`;
}

/** What the answer says besides its lists. */
function scalars(network) {
  return Object.entries(network)
    .filter(([, value]) => value === null || typeof value !== "object")
    .map(([name, value]) => [name, typeof value === "number" ? rough(value) : String(value)]);
}

function draw(names, links) {
  const root = names.find((name) => /^(server|root|hub)$/i.test(name)) ?? links[0]?.from ?? names[0];
  const places = radial(names, links, root);
  const reach = SIZE / 2 - (names.length > LABELLED ? 16 : 70);
  const at = (name) => [SIZE / 2 + reach * places.get(name).x, SIZE / 2 + reach * places.get(name).y];
  const radius = Math.max(1.4, Math.min(9, 0.42 * reach * nearest(places)));
  const lines = links.map(({ from, to }) => {
    const [[x1, y1], [x2, y2]] = [at(from), at(to)];
    return s("line", { x1, y1, x2, y2, "data-link": `${from}→${to}` }, s("title"));
  });
  const nodes = names.map((name) => {
    const [cx, cy] = at(name);
    const isRoot = name === root;
    return s(
      "g",
      { class: isRoot ? "node root" : "node", "data-node": name },
      s("circle", { cx, cy, r: isRoot ? Math.max(radius + 2, 5) : radius }, s("title", null, name)),
      names.length <= LABELLED || isRoot ? tag(name, cx, cy, places.get(name)) : null,
    );
  });
  const heights = names.map((name) => at(name)[1]);
  const [top, bottom] = [Math.min(...heights) - 60, Math.max(...heights) + 60]; // no empty paper above and below
  return s(
    "svg",
    {
      viewBox: `0 ${top} ${SIZE} ${bottom - top}`,
      role: "img",
      "aria-label": `${names.length} nodes and ${links.length} links`,
    },
    s("g", { class: "links" }, lines),
    nodes,
  );
}

function tag(name, x, y, { angle, depth }) {
  const isLeft = depth > 0 && Math.cos(angle) < -0.2;
  const isMiddle = depth === 0 || Math.abs(Math.cos(angle)) <= 0.2;
  return s(
    "text",
    {
      x: x + (isMiddle ? 0 : isLeft ? -12 : 12),
      y: y + (isMiddle ? (depth === 0 || Math.sin(angle) < 0 ? -16 : 24) : 4),
      "text-anchor": isMiddle ? "middle" : isLeft ? "end" : "start",
    },
    name,
  );
}

function colour(drawing, links, hot) {
  const most = Math.log1p(Math.max(1, ...links.map((link) => link.bytes)));
  const busy = new Set();
  for (const link of links) {
    const key = `${link.from}→${link.to}`;
    const line = drawing.querySelector(`[data-link="${CSS.escape(key)}"]`);
    if (!line) continue;
    line.classList.toggle("hot", hot.has(key));
    line.classList.toggle("cold", hot.size > 0 && !hot.has(key));
    line.setAttribute("stroke-width", (1 + (4 * Math.log1p(link.bytes)) / most).toFixed(2));
    line.firstChild.textContent = `${link.from} – ${link.to}: ${count(link.messages)} messages, ${bytes(link.bytes)}`;
    if (hot.has(key)) busy.add(link.from).add(link.to);
  }
  for (const node of drawing.querySelectorAll("[data-node]")) node.classList.toggle("hot", busy.has(node.dataset.node));
}

function list(links, before, hot) {
  const sorted = [...links].sort((a, b) => b.bytes - a.bytes || b.messages - a.messages);
  const gained = (link) => (before ? link.messages - (before.get(`${link.from}→${link.to}`) ?? 0) : 0);
  return [
    tableOf(
      [h("th", null, "link"), ["messages", "per second", "bytes"].map((name) => h("th", { class: "number" }, name))],
      sorted
        .slice(0, LISTED)
        .map((link) =>
          h(
            "tr",
            { class: hot.has(`${link.from}→${link.to}`) ? "updated" : "" },
            h("td", null, `${link.from} – ${link.to}`),
            h("td", { class: "number" }, count(link.messages)),
            h("td", { class: "number" }, count(gained(link))),
            h("td", { class: "number" }, bytes(link.bytes)),
          ),
        ),
    ),
    sorted.length > LISTED ? h("p", { class: "faint" }, `the ${LISTED} busiest of ${count(sorted.length)}`) : null,
  ];
}
