/** Write subscriptions, and watch their answers change. */

import { announce, fill, h, problem } from "./dom.js";
import { client, on, relations, watchExisting, watched } from "./session.js";
import { cardOf } from "./cards.js";
import { composer } from "./compose.js";
import { quoted } from "./cells.js";
import { encode } from "./client/index.js";
import * as market from "./market.js";

/** Queries by what they need: a table t with a key, numbers x and y, a column g to group by. */
const EXAMPLES = [
  ["lowest in a range", "xy", ({ t, x, y }) => [`SELECT MIN(${y}) FROM ${t} WHERE ${x} BETWEEN :lo AND :hi`, RANGE]],
  ["how many", "x", ({ t, x }) => [`SELECT COUNT(*) FROM ${t} WHERE ${x} < :below`, { below: 50 }]],
  [
    "several",
    "xy",
    ({ t, x, y }) => [
      `SELECT COUNT(*), MIN(${y}) AS low, MAX(${y}) AS high FROM ${t} WHERE ${x} BETWEEN :lo AND :hi`,
      RANGE,
    ],
  ],
  ["groups", "gy", ({ t, g, y }) => [`SELECT ${g}, COUNT(*) AS n, MIN(${y}) AS low FROM ${t} GROUP BY ${g}`, {}]],
  [
    "first five",
    "y",
    ({ t, key, y }) => [`SELECT ${[...new Set([...key, y])].join(", ")} FROM ${t} ORDER BY ${y} LIMIT 5`, {}],
  ],
  ["rows", "y", ({ t, y }) => [`SELECT * FROM ${t} WHERE ${y} < :y`, { y: 5 }]],
];
const RANGE = { lo: 20, hi: 40 };
let chosen = null; // the table or view that examples are of

export function show(main) {
  const cards = h("div", { class: "cards" });
  const head = h("div");
  const made = new Map();
  let isEmpty = false;

  const { form, use } = composer();

  async function welcome() {
    const tables = await relations().catch(() => null);
    if (tables === null) return;
    isEmpty = tables.length === 0;
    form.hidden = isEmpty;
    fill(head, isEmpty ? empty() : offers(tables, use));
    arrange();
  }

  function arrange() {
    for (const [item, card] of made) {
      if (!watched.includes(item)) {
        card.element.remove();
        made.delete(item);
      }
    }
    for (const item of [...watched].reverse()) {
      if (made.has(item)) continue;
      const card = cardOf(item);
      made.set(item, card);
      cards.prepend(card.element);
    }
    none.hidden = watched.length > 0 || isEmpty;
  }

  const relabel = () => {
    const button = document.getElementById("move");
    if (button) button.textContent = moveLabel();
  };
  const none = h(
    "p",
    { class: "faint none" },
    "Nothing is watched yet. Start a subscription above, or choose one that exists below.",
  );
  fill(main, h("h1", { class: "unseen" }, "Live"), head, form, none, cards, existing());
  arrange();
  welcome();
  const ends = [
    on("watched", arrange),
    on("updated", (item) => made.get(item)?.update()),
    on("sample", () => made.forEach((card) => card.tick())),
    on("tables", welcome),
    on("market", relabel),
  ];
  return () => ends.forEach((end) => end());
}

const empty = () =>
  h(
    "p",
    { class: "notice" },
    "This server has no tables yet: ",
    h("a", { href: "#start" }, "load the demo market, or create one"),
    ".",
  );

const moveLabel = () => (market.isMoving() ? "Stop the market" : "Let the market move");

/** Queries that fit the tables and views that are there. */
function offers(tables, use) {
  const examples = h("span", { class: "line" });
  const choice = h(
    "select",
    { "aria-label": "table or view", onchange: () => offer(choice.value) },
    tables.map(({ name, sql }) => h("option", { value: name }, sql === undefined ? name : `${name} (view)`)),
  );
  const known = tables.find(({ name }) => name === chosen) ?? tables.find(({ name }) => name === "stocks") ?? tables[0];
  const move = h("button", { type: "button", class: "quiet", id: "move" }, moveLabel());
  move.addEventListener("click", () => market.toggle().catch((error) => announce(error.message)));

  function offer(name) {
    chosen = name;
    const found = fitting(tables.find((one) => one.name === name));
    const isFit = (needed) => [...needed].every((letter) => found[letter]);
    fill(
      examples,
      EXAMPLES.filter(([, needed]) => isFit(needed)).map(([label, , make]) =>
        h("button", { type: "button", class: "link", onclick: () => use(...make(found)) }, label),
      ),
    );
  }

  choice.value = known.name;
  offer(known.name);
  return h(
    "div",
    { class: "line offers" },
    h("label", { class: "line faint" }, "Try, on", choice),
    examples,
    tables.some(({ name }) => name === "stocks") ? h("span", { class: "end" }, move) : null,
  );
}

/** The columns of a table that examples are made of, as SQL has their names. */
function fitting({ name, columns, primary_key: key }) {
  const of = (types) => columns.filter(({ type }) => types.test(type)).map((one) => one.name);
  const [numbers, words] = [of(/^(integer|bigint|double|numeric)/), of(/^(text|boolean|date)/)];
  const group = [...words, ...numbers].find((one) => key.length > 1 || key[0] !== one);
  const given = { t: name, x: numbers[0], y: numbers[1] ?? numbers[0], g: group };
  const names = Object.entries(given).map(([letter, one]) => [letter, one && quoted(one)]);
  return { ...Object.fromEntries(names), key: key.map(quoted) };
}

/** Subscriptions of the server that may be watched too. */
function existing() {
  const list = h("div");
  const found = h("details", { class: "existing" }, h("summary", null, "Subscriptions of this server"), list);
  let after;
  async function more() {
    try {
      const page = await client.subscriptions({ limit: 20, after });
      after = page.at(-1)?.id;
      list.querySelector("button.more")?.remove();
      list.append(
        ...page.map((about) =>
          h(
            "p",
            { class: "line" },
            h(
              "button",
              {
                type: "button",
                class: "quiet",
                onclick: () => watchExisting(about).catch((error) => announce(error.message)),
              },
              "Watch",
            ),
            h("code", null, about.id),
            h(
              "span",
              { class: "faint" },
              `${about.sql}  ${about.params && Object.keys(about.params).length ? encode(about.params) : ""}`,
            ),
          ),
        ),
        page.length === 20 ? h("button", { type: "button", class: "more quiet", onclick: more }, "More") : "",
      );
      if (!list.childElementCount) fill(list, h("p", { class: "faint" }, "There are none."));
    } catch (error) {
      fill(list, problem(error));
    }
  }
  found.addEventListener("toggle", () => {
    if (!found.open) return;
    after = undefined;
    fill(list);
    more();
  });
  return found;
}
