/** What the market does: one cell per stock, ordered by risk, and the largest moves of the last seconds. */

import { fill, h, s } from "./dom.js";
import { client } from "./session.js";
import { identity } from "./client/json.js";

const [COLUMNS, CELL, GAP] = [30, 9, 1.6];
const RECENT_MS = 4_000;
const LISTED = 5;
const DRAW_MS = 500;

/** `{element, events, close}`: `events()` is the number of events seen since it was opened. */
export function ticker() {
  const cells = s("svg", { class: "market", role: "img", "aria-label": "The stocks, ordered by risk" });
  const list = h("tbody");
  const element = h(
    "div",
    { class: "ticker" },
    cells,
    h(
      "p",
      { class: "faint legend" },
      "One cell per stock, low risk first. ",
      h("span", { class: "rose" }, "▲ rises"),
      " ",
      h("span", { class: "fell" }, "▼ falls"),
    ),
    h("table", { class: "moves" }, h("caption", { class: "unseen" }, "The largest moves of the last seconds"), list),
  );
  const known = new Map(); // symbol: {per, cell}
  let recent = []; // {symbol, sector, from, to, at}
  let events = 0;
  let subscription = null;
  let isClosed = false;

  function lay(rows) {
    const sorted = [...rows].sort((a, b) => a.risk - b.risk || (a.symbol < b.symbol ? -1 : 1));
    const lines = Math.ceil(sorted.length / COLUMNS);
    cells.setAttribute("viewBox", `0 0 ${COLUMNS * CELL} ${Math.max(1, lines) * CELL}`);
    known.clear();
    fill(
      cells,
      sorted.map((row, at) => {
        const size = CELL - GAP;
        const [x, y] = [(at % COLUMNS) * CELL, Math.floor(at / COLUMNS) * CELL];
        const cell = s(
          "rect",
          { x, y, width: size, height: size, rx: 1 },
          s("title", null, `${row.symbol}, risk ${row.risk}`),
        );
        known.set(identity(row.symbol), { row, cell });
        return cell;
      }),
    );
  }

  function move(row) {
    const found = known.get(identity(row.symbol));
    if (!found) return;
    const [from, to] = [Number(found.row.price), Number(row.price)];
    found.row = row;
    events += 1;
    if (from === to) return;
    recent.push({ symbol: row.symbol, sector: row.sector, from, to, at: performance.now() });
    found.cell.setAttribute("class", to > from ? "rose" : "fell");
    clearTimeout(found.timer);
    found.timer = setTimeout(() => found.cell.removeAttribute("class"), 900);
  }

  function draw() {
    const since = performance.now() - RECENT_MS;
    recent = recent.filter(({ at }) => at > since);
    const share = ({ from, to }) => Math.abs(Math.log(to / from));
    const largest = [...recent].sort((a, b) => share(b) - share(a)).slice(0, LISTED);
    fill(
      list,
      largest.map(({ symbol, sector, from, to }) =>
        h(
          "tr",
          null,
          h("td", { class: "key" }, symbol),
          h("td", { class: "faint" }, sector),
          h("td", { class: "number" }, `${from.toFixed(2)} → ${to.toFixed(2)}`),
          h(
            "td",
            { class: `number ${to > from ? "rose" : "fell"}` },
            `${to > from ? "▲" : "▼"} ${(100 * Math.abs(to / from - 1)).toFixed(1)} %`,
          ),
        ),
      ),
    );
    if (!largest.length) fill(list, h("tr", null, h("td", { class: "faint" }, "Nothing moves at the moment.")));
  }

  async function follow() {
    subscription = await client.subscribe("SELECT symbol, sector, risk, price FROM stocks", {}, { durable: false });
    if (isClosed) return subscription.delete();
    lay(subscription.result.rows);
    for await (const { change, result } of subscription) {
      if (change === null || change.add?.length || change.remove?.length) lay(result.rows);
      for (const row of change?.update ?? []) move(row);
    }
  }

  follow().catch(() => {}); // the strip at the top says that the server is gone
  draw();
  const timer = setInterval(draw, DRAW_MS);
  return {
    element,
    events: () => events,
    close() {
      isClosed = true;
      clearInterval(timer);
      subscription?.delete().catch(() => {});
    },
  };
}
