/** The first part: write subscriptions, and watch their answers change. */

import { announce, count, field, fill, h, problem } from "./dom.js";
import { client, on, relations, unwatch, watchExisting, watched } from "./session.js";
import { composer, readValue } from "./compose.js";
import { quoted } from "./cells.js";
import { encode } from "./client/index.js";
import * as market from "./market.js";
import { render, summary } from "./results.js";

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
    fill(head, isEmpty ? first(refresh) : offers(tables, use));
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

  const refresh = () => welcome();
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
    on("told", (item) => made.get(item)?.update()),
    on("tables", welcome),
    on("market", relabel),
  ];
  return () => ends.forEach((end) => end());
}

/** What is shown while there are no tables. */
function first(refresh) {
  const outcome = h("div");
  const button = h("button", { class: "primary", id: "load-demo" }, "Load the demo market");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await market.load();
      refresh();
    } catch (error) {
      button.disabled = false;
      fill(outcome, problem(error));
    }
  });
  return h(
    "section",
    { class: "welcome" },
    h("h1", null, "Answers that stay right."),
    h(
      "p",
      { class: "lead" },
      "Subscribe to a SQL query, and be told every change of its answer, exactly once and in order. This server has no tables yet.",
    ),
    h(
      "ol",
      { class: "steps" },
      h(
        "li",
        null,
        h("b", null, "A table. "),
        h("a", { href: "#tables" }, "Create one"),
        ", or load the demo: 300 stocks whose prices move, and a crowd of 200 subscriptions.",
      ),
      h("li", null, h("b", null, "A subscription. "), "Write it in SQL; the console shows what it becomes."),
      h(
        "li",
        null,
        h("b", null, "Events. "),
        "Publish rows from a form, from a CSV file, or by ",
        h("code", null, "prosem publish"),
        ", and watch.",
      ),
    ),
    h("div", { class: "line" }, button, h("a", { href: "/docs" }, "the API")),
    outcome,
  );
}

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

/** One watched subscription. */
function cardOf(item) {
  const body = h("div", { class: "body" });
  const foot = h("span", { class: "faint" });
  const log = h("ol", { class: "log" });
  const fault = h("div");
  const details = h("details", null, h("summary", null, foot), log);
  const pause = h("button", { type: "button", class: "quiet", onclick: () => setActive(!item.isActive) }, "Suspend");

  async function setActive(active) {
    try {
      await (active ? item.subscription.resume() : item.subscription.suspend());
      item.isActive = active;
    } catch (error) {
      fill(fault, problem(error));
    }
    update();
  }

  async function remove(isForGood) {
    try {
      await unwatch(item, { remove: isForGood });
    } catch (error) {
      announce(error.message);
    }
  }

  function update() {
    element.classList.toggle("suspended", !item.isActive);
    pause.textContent = item.isActive ? "Suspend" : "Resume";
    fill(body, render(item));
    if (item.change) {
      body.classList.remove("news");
      void body.offsetWidth; // starts the animation again
      body.classList.add("news");
    }
    foot.textContent = `${count(item.changes)} ${item.changes === 1 ? "change" : "changes"} · seq ${count(item.subscription.seq)}`;
    fill(
      log,
      item.log.map(({ seq, change, at }) =>
        h("li", null, h("span", { class: "faint" }, `${at.toLocaleTimeString()}  ${seq}`), " ", summary(change)),
      ),
    );
    if (item.error) fill(fault, problem(item.error));
  }

  const names = Object.keys(item.subscription.params);
  const inputs = names.map((name) =>
    h("input", { class: "narrow", name, value: shown(item.subscription.params[name]) }),
  );
  const move = async (event) => {
    event.preventDefault();
    try {
      await item.subscription.patch(Object.fromEntries(names.map((name, at) => [name, readValue(inputs[at].value)])));
      fill(fault);
    } catch (error) {
      fill(fault, problem(error));
    }
  };
  const element = h(
    "article",
    { class: "card", "data-id": item.subscription.id },
    h(
      "pre",
      { class: "sql" },
      item.sql,
      item.notify ? h("span", { class: "faint" }, `  notify ${encode(item.notify)}`) : null,
      item.per === "transaction" ? h("span", { class: "faint" }, "  per transaction") : null,
    ),
    names.length
      ? h(
          "form",
          { class: "params line", onsubmit: move, "aria-label": "parameters" },
          names.map((name, at) => field(`:${name}`, inputs[at])),
          h("button", { class: "quiet" }, "Move"),
        )
      : null,
    body,
    fault,
    details,
    h(
      "footer",
      { class: "line" },
      h("span", { class: "faint" }, item.subscription.type),
      h(
        "span",
        { class: "end" },
        pause,
        h("button", { type: "button", class: "quiet", onclick: () => remove(false) }, item.durable ? "Hide" : "Stop"),
        item.durable ? h("button", { type: "button", class: "quiet", onclick: () => remove(true) }, "Delete") : null,
      ),
    ),
  );
  update();
  return { element, update };
}

const shown = (value) => (typeof value === "string" ? value : encode(value));

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
