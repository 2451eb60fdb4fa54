/** The page: two subscriptions around one position, both over the same pinned variables. */

import { Client, release } from "./client/index.js";
import { draw } from "./map.js";

const { server, near, size } = await (await fetch("config.json")).json();
const element = (id) => document.getElementById(id);
const SHOWN = 6;
const STEP_M = 100;
const EDGE_M = Number(size);

const client = new Client(server, { onState: (state) => (element("state").textContent = state) });
const position = { x: client.pin(EDGE_M / 2), y: client.pin(EDGE_M / 2), reach: client.pin(Number(element("reach").value)) };
const counts = { changes: 0, moves: 0 };
let drivers = [];

// Notified at most once per transaction: a step of the city moves many drivers.
const rows = await client.subscribe(`SELECT * FROM drivers WHERE ${near}`, position, { durable: false, per: "transaction", snapshot: true });
const free = await client.subscribe(`SELECT COUNT(*) FROM drivers WHERE status = 'free' AND ${near}`, position, { durable: false, snapshot: true });

rows.listen(({ result }) => {
  counts.changes += 1;
  drivers = result.rows;
  show();
});
free.listen(({ result }) => {
  counts.changes += 1;
  element("free").textContent = result.value;
});

/** Move both subscriptions; while one request is under way only the last position counts. */
let isMoving = false;
let isStale = false;
async function move() {
  show();
  isStale = true;
  if (isMoving) return;
  isMoving = true;
  while (isStale) {
    isStale = false;
    counts.moves += 1;
    await release(position.x, position.y, position.reach);
  }
  isMoving = false;
}

const within = (value) => Math.max(0, Math.min(EDGE_M, Math.round(value)));
function go(dx, dy) {
  position.x.value = within(position.x.value + dx);
  position.y.value = within(position.y.value + dy);
  move();
}

const map = element("map");
map.addEventListener("keydown", (event) => {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!way) return;
  event.preventDefault();
  go(way[0] * STEP_M, way[1] * STEP_M);
});
map.addEventListener("pointermove", (event) => {
  if (event.buttons !== 1) return;
  const metresPerPixel = view().width / map.clientWidth;
  go(-event.movementX * metresPerPixel, -event.movementY * metresPerPixel);
});
element("reach").addEventListener("input", (event) => {
  position.reach.value = Number(event.target.value);
  move();
});

/** The part of the city on the map: the box, and a margin in which no driver is known. */
const view = () => ({ x: position.x.value, y: position.y.value, width: 2.5 * position.reach.value });

function show() {
  const distance = (row) => Math.hypot(row.x - position.x.value, row.y - position.y.value);
  const nearest = drivers
    .filter((row) => row.status === "free")
    .sort((a, b) => distance(a) - distance(b))
    .slice(0, SHOWN);
  const cells = (row) => [row.name, `${Math.round(distance(row) / 10) * 10} m`, row.stars];
  element("nearest").replaceChildren(...nearest.map((row) => line(cells(row))));
  element("reach-shown").textContent = `${(position.reach.value / 1000).toFixed(1)} km`;
  element("changes").textContent = counts.changes.toLocaleString("en");
  element("moves").textContent = counts.moves.toLocaleString("en");
  draw(map, view(), position.reach.value, drivers);
}

function line(cells) {
  const row = document.createElement("tr");
  row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return row;
}

const began = (await client.status()).seq;
setInterval(async () => {
  element("events").textContent = ((await client.status()).seq - began).toLocaleString("en");
}, 1000);
