/** The card of a watched subscription: its query, its parameters, its answer with a chart, its changes. */

import { announce, count, field, fill, h, problem } from "./dom.js";
import { unwatch } from "./session.js";
import { readValue } from "./compose.js";
import { answerChart } from "./answer-chart.js";
import { encode } from "./client/index.js";
import { render, summary } from "./results.js";

/** One watched subscription: `{element, update, tick}`; `title` and `note` are shown above and below its answer. */
export function cardOf(item, { title = null, note = null } = {}) {
  const body = h("div", { class: "body" });
  const chart = h("div", { class: "drawn" });
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

  /** Draw the chart again: time has passed. */
  function tick() {
    fill(chart, answerChart(item));
  }

  function update() {
    element.classList.toggle("suspended", !item.isActive);
    pause.textContent = item.isActive ? "Suspend" : "Resume";
    fill(body, render(item));
    tick();
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
    title ? h("h3", null, title) : null,
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
    chart,
    note,
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
  return { element, update, tick };
}

const shown = (value) => (typeof value === "string" ? value : encode(value));
