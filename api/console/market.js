/** The demo: a table of stocks, a crowd of subscriptions, and prices that move. All through public routes. */

import { announce } from "./dom.js";
import { client, emit, maybe, publish, watch, watched } from "./session.js";

const SECTORS = ["tech", "bank", "energy", "health"];
const COLUMNS = { symbol: "text", sector: "text", risk: "integer", per: "double precision", price: "numeric(12,2)" };
const STOCKS = 300;
const CROWD = 200;
const PERIOD_MS = 250;
const SHOWN = [
  ["SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi", { lo: 20, hi: 40 }],
  ["SELECT symbol, price FROM stocks WHERE per < :per AND risk > 80", { per: 7 }],
  ["SELECT AVG(per) FROM stocks WHERE sector = :sector AND risk < 50", { sector: "health" }],
  ["SELECT DISTINCT sector FROM stocks WHERE per < :per", { per: 4 }],
  ["SELECT COUNT(*) FROM stocks WHERE per BETWEEN 8 AND 9", {}],
  ["SELECT price FROM stocks WHERE symbol = :symbol", { symbol: "AAA" }, { percent: 1 }],
];

/** Numbers that look random and are the same each time (mulberry32). */
export function chance(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const random = chance(7);
const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
const pick = (list) => list[Math.floor(random() * list.length)];

function stocks() {
  const letters = "ABCDEFGHIKLMNOPRSTUVWX";
  const symbols = new Set(["AAA"]);
  while (symbols.size < STOCKS) symbols.add(Array.from({ length: 3 }, () => pick([...letters])).join(""));
  return [...symbols].map((symbol) => ({
    symbol,
    sector: pick(SECTORS),
    risk: 1 + Math.floor(100 * random()),
    per: Number(Math.exp(2.6 + 0.5 * normal()).toFixed(1)),
    price: Math.exp(4 + 0.7 * normal()).toFixed(2),
  }));
}

let rows = null;
let timer = null;
let publisher = null;

export const isMoving = () => timer !== null;

/** Make the table, the rows and the crowd (again, if they are there), show some subscriptions, start the market. */
export async function load() {
  await client.createTable("stocks", COLUMNS, ["symbol"]);
  rows = stocks();
  await publish(
    "stocks",
    rows.map((row) => ({ op: "upsert", row })),
  );
  emit("tables");
  const crowd = Array.from({ length: CROWD }, (_, at) => {
    const lo = Math.floor(90 * random());
    return { id: `demo-crowd-${at}`, params: { lo, hi: Math.min(100, lo + 3 + Math.floor(40 * random() * random())) } };
  });
  try {
    await client.subscribeMany("SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi", crowd);
  } catch (error) {
    if (error.status !== 409) throw error; // it was loaded before
  }
  for (const [sql, params, notify] of [...SHOWN].reverse()) await watch(sql, params, { notify });
  start();
}

/** Prices walk at random, with a crash or a rally now and then. */
function step() {
  const lively = [...rows].sort((a, b) => a.per - b.per).slice(0, 12); // where many minima are
  const row =
    random() < 0.3
      ? pick(lively)
      : random() < 0.05
        ? (rows.find(({ symbol }) => symbol === "AAA") ?? pick(rows))
        : pick(rows);
  const factor = random() < 0.03 ? pick([0.5, 1.9]) : 1 + 0.03 * normal();
  row.per = Number(Math.min(90, Math.max(1, row.per * factor)).toFixed(1));
  row.price = Math.min(900, Math.max(1, Number(row.price) * factor)).toFixed(2);
  return { op: "update", key: { symbol: row.symbol }, set: { per: row.per, price: row.price } };
}

function start() {
  publisher ??= client.publisher();
  let isBusy = false;
  timer = setInterval(async () => {
    if (isBusy || document.visibilityState === "hidden") return;
    isBusy = true;
    try {
      await publish("stocks", [step(), step(), step()], { by: publisher });
    } catch (error) {
      stop();
      announce(`The market has stopped: ${error.message}`);
    }
    isBusy = false;
  }, PERIOD_MS);
  emit("market");
}

function stop() {
  clearInterval(timer);
  timer = null;
  emit("market");
}

/** Let the market move, or stop it. The rows are read from the server if this page has not made them. */
export async function toggle() {
  if (timer !== null) {
    stop();
    return;
  }
  if (rows === null) {
    const table = await maybe(client.table("stocks"));
    if (!table || table.columns.map(({ name }) => name).join() !== Object.keys(COLUMNS).join()) {
      if (!table) await load();
      else throw new Error("there is a table stocks that is not the demo's");
      return;
    }
    const all = await client.subscribe("SELECT * FROM stocks", {}, { durable: false });
    rows = all.result.rows;
    await all.delete();
  }
  if (rows.length) start();
  if (!watched.length) announce("The market moves; start a subscription to see its changes");
}
