/** The demo: a table of stocks, a crowd of subscriptions, and prices that move. All through public routes. */

import { announce } from "./dom.js";
import { client, emit, maybe, publish, watched } from "./session.js";

const SECTORS = ["tech", "bank", "energy", "health"];
const COLUMNS = { symbol: "text", sector: "text", risk: "integer", per: "double precision", price: "numeric(12,2)" };
const STOCKS = 300;
const CROWD = 100; // of each query
const PERIOD_MS = 250;
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

/** A range of risk; narrow ones are the most. */
function ranges() {
  const lo = Math.floor(90 * random());
  return { lo, hi: Math.min(100, lo + 3 + Math.floor(40 * random() * random())) };
}

/** What the first page shows: queries with a title, and the parameters of one of the crowd's subscriptions. */
export const TOUR = [
  {
    name: "cheapest",
    title: "The lowest ratio in a range of risk",
    sql: "SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi",
    params: { lo: 20, hi: 40 },
    others: ranges,
  },
  {
    name: "average",
    title: "The average of a sector",
    sql: "SELECT AVG(price) FROM stocks WHERE sector = :sector AND risk < :most",
    params: { sector: "health", most: 50 },
    others: () => ({ sector: pick(SECTORS), most: 10 + Math.floor(90 * random()) }),
  },
  {
    name: "dearest",
    title: "The five highest prices in a range of risk",
    sql: "SELECT symbol, price FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY price DESC LIMIT 5",
    params: { lo: 50, hi: 70 },
    others: ranges,
  },
  {
    name: "sectors",
    title: "Every sector, with its lowest ratio",
    sql: "SELECT sector, COUNT(*) AS n, MIN(per) AS low FROM stocks WHERE risk BETWEEN :lo AND :hi GROUP BY sector",
    params: { lo: 10, hi: 60 },
    others: ranges,
  },
];

/** Whether one of these tables is the demo's. */
export const isDemo = (tables) =>
  tables.some(
    ({ name, columns, sql }) =>
      name === "stocks" && !sql && columns.map((column) => column.name).join() === Object.keys(COLUMNS).join(),
  );

let rows = null;
let timer = null;
let publisher = null;

export const isMoving = () => timer !== null;

/** Make the table, the rows and the crowd (again, if they are there), and start the market. */
export async function load() {
  await client.createTable("stocks", COLUMNS, ["symbol"]);
  rows = stocks();
  await publish(
    "stocks",
    rows.map((row) => ({ op: "upsert", row })),
  );
  emit("tables");
  for (const { name, sql, others } of TOUR) {
    const crowd = Array.from({ length: CROWD }, (_, at) => ({ id: `demo-${name}-${at}`, params: others() }));
    try {
      await client.subscribeMany(sql, crowd);
    } catch (error) {
      if (error.status !== 409) throw error; // it was loaded before
    }
  }
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
