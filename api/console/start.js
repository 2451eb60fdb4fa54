/** The first page: a market that moves, four live answers, why no other subscription was notified, and a form to try. */

import { announce, count, fill, h, problem } from "./dom.js";
import { on, relations, watch, watched } from "./session.js";
import { cardOf } from "./cards.js";
import { composer } from "./compose.js";
import { ticker } from "./ticker.js";
import { why } from "./why.js";
import * as market from "./market.js";

const QUIET_MS = 2_000;
const WHY_MS = 1_500; // a sentence that changes more often cannot be read

let isOpening = null; // the tour's subscriptions are opened once per page load

export function show(main) {
  const body = h("div");
  fill(main, body);
  let leave = null;
  let isLeft = false;

  async function choose() {
    let tables;
    try {
      tables = await relations();
    } catch (error) {
      if (error.status !== 401) fill(body, problem(error)); // without a key the dialog asks for one
      return;
    }
    if (isLeft) return;
    leave?.();
    leave = null;
    if (!tables.length) fill(body, welcome(choose));
    else if (market.isDemo(tables)) leave = tour(body);
    else location.replace("#live");
  }

  choose();
  return () => {
    isLeft = true;
    leave?.();
  };
}

/** A server without tables. */
function welcome(refresh) {
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
      "Subscribe to a SQL query, and be notified of every change of its answer, exactly once and in order. This server has no tables yet.",
    ),
    h(
      "ol",
      { class: "steps" },
      h(
        "li",
        null,
        h("b", null, "A table. "),
        h("a", { href: "#tables" }, "Create one"),
        ", or load the demo: 300 stocks whose prices move, and 400 subscriptions.",
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

async function openTour() {
  const opened = [];
  for (const one of [...market.TOUR].reverse()) {
    opened.push(await watch(one.sql, one.params, { title: one.title }));
  }
  return opened;
}

/** The demo's market. */
function tour(body) {
  const cards = h("div", { class: "cards" });
  const figures = h("p", { class: "lead", id: "notified", "aria-live": "off" });
  const moves = ticker();
  const move = h("button", { type: "button", class: "quiet", id: "move", hidden: true });
  move.addEventListener("click", () => market.toggle().catch((error) => announce(error.message)));
  const { form, use } = composer();
  const made = new Map();
  const opened = performance.now();
  let seen = 0;
  let movedAt = performance.now();

  fill(
    body,
    h("h1", { class: "greeting" }, "Answers that stay right."),
    figures,
    h(
      "div",
      { class: "tour" },
      h("section", { "aria-label": "Live answers" }, cards),
      h(
        "aside",
        null,
        h("section", { "aria-label": "The market" }, h("h2", null, "The market"), moves.element, move),
        h(
          "section",
          { class: "try", "aria-label": "Try your own" },
          h("h2", null, "Try your own"),
          h(
            "p",
            { class: "line" },
            market.TOUR.map(({ name, sql, params }) =>
              h("button", { type: "button", class: "link", onclick: () => use(sql, params) }, name),
            ),
          ),
          form,
        ),
      ),
    ),
  );

  function arrange() {
    for (const [item, card] of made) {
      if (watched.includes(item)) continue;
      card.element.remove();
      clearTimeout(card.timer);
      made.delete(item);
    }
    for (const item of [...watched].reverse()) {
      if (made.has(item)) continue;
      const note = h("p", { class: "why faint" });
      const card = { ...cardOf(item, { title: item.title, note }), note, timer: 0 };
      made.set(item, card);
      cards.prepend(card.element);
      explain(item, card);
    }
  }

  /** The sentence of the last change, at most once in a while. */
  function explain(item, card) {
    if (card.timer) return;
    const say = () =>
      why(item)
        .then((sentence) => fill(card.note, sentence))
        .catch(() => {}) // the strip at the top says that the server is gone
        .finally(() => (card.timer = 0));
    card.timer = setTimeout(say, item.change ? WHY_MS : 0);
  }

  function updated(item) {
    const card = made.get(item);
    card?.update();
    if (card) explain(item, card);
  }

  function sampled() {
    for (const card of made.values()) card.tick();
    const events = moves.events();
    if (events !== seen) movedAt = performance.now();
    seen = events;
    const isMovedElsewhere = !market.isMoving() && performance.now() - movedAt < QUIET_MS && events > 0;
    move.hidden = isMovedElsewhere || performance.now() - opened < QUIET_MS;
    move.textContent = market.isMoving() ? "Stop the market" : "Let the market move";
    const notified = [...made.keys()].reduce((sum, item) => sum + item.changes, 0);
    figures.textContent = events
      ? `${count(events)} events since this page opened, ${count(notified)} notifications: an answer is sent only if it changed.`
      : "Each card is a SQL query. An answer is sent only if it changed.";
  }

  const ends = [on("watched", arrange), on("updated", updated), on("sample", sampled), on("market", sampled)];
  isOpening ??= openTour();
  isOpening.then(arrange, (error) => {
    isOpening = null;
    fill(cards, problem(error));
  });
  arrange();
  sampled();
  return () => {
    for (const end of ends) end();
    for (const card of made.values()) clearTimeout(card.timer);
    moves.close();
  };
}
