/** The geometry of a range-min (or max) event: choose a row, move it, and see which subscriptions that affects, and why. */

import { count, field, fill, h, later, problem } from "./dom.js";
import { client, maybe, on, relations } from "./session.js";
import { drawRows, drawSpace } from "./geometry-drawing.js";
import { isDrawable, position, valueAt } from "./scale.js";
import { explain } from "./geometry-words.js";
import { text } from "./cells.js";

let chosenGroup = null;

export function show(main) {
  const group = h("select", {
    "aria-label": "group",
    onchange: () => start(group.value).catch((error) => fill(words, problem(error))),
  });
  const row = h("select", { "aria-label": "row", onchange: () => pick(row.value) });
  const [x, y] = [
    h("input", { class: "narrow", oninput: () => typed() }),
    h("input", { class: "narrow", oninput: () => typed() }),
  ];
  const [xLabel, yLabel] = [field("x", x), field("y", y)];
  const [rows, space, words] = [h("div", { class: "plot" }), h("div", { class: "plot" }), h("div", { class: "words" })];
  const controls = h(
    "div",
    { class: "line controls" },
    field("Group", group),
    field("Row", row),
    xLabel,
    yLabel,
    h(
      "span",
      { class: "end" },
      h("button", { type: "button", onclick: () => shift(-1) }, "Make it best"),
      h("button", { type: "button", onclick: () => shift(1) }, "Make it worse"),
      h("button", { type: "button", onclick: () => remove() }, "Delete it"),
    ),
  );
  const body = h("div", null, controls, h("div", { class: "plots" }, rows, space), words);
  fill(
    main,
    h("h2", null, "Geometry of an event"),
    h(
      "p",
      { class: "lead" },
      "A range minimum is a point (lo, hi). An event affects a few regions of that plane, and all subscriptions in a region get the same new answer. So the server sends one message per region and never looks at a subscription. Move a row and see.",
    ),
    body,
  );

  let event = null; // {op, key, set?}
  let picture = null;

  async function begin() {
    const { groups } = await client.request("GET", "/v1/groups");
    const fit = groups.filter(({ type, subscriptions }) => /^range-(min|max)$/.test(type) && subscriptions > 0);
    if (!fit.length) return fill(body, nothing());
    fill(
      group,
      fit.map((one) =>
        h(
          "option",
          { value: one.group },
          `${one.template.replace(/default\.|#\d+|'/g, "")} · ${count(one.subscriptions)}`,
        ),
      ),
    );
    const known =
      fit.find((one) => one.group === chosenGroup) ??
      fit.reduce((best, one) => (one.subscriptions > best.subscriptions ? one : best));
    group.value = known.group;
    await start(known.group);
  }

  /** Begin with a row that is the minimum of some subscription, made worse: the case with several regions. */
  async function start(name) {
    chosenGroup = name;
    for (const { id } of await client.subscriptions({ group: name, limit: 20 })) {
      const { result } = await client.result(id);
      if (!result.row) continue;
      const about = await probe(name, result.row);
      if (!about) return;
      event = { op: "update", key: about.key, set: {} };
      picture = about;
      return shift(1);
    }
    fill(words, h("p", { class: "faint" }, "No subscription of this group has a row in its range."));
  }

  /** The picture of a row that stays as it is. */
  async function probe(name, record) {
    const { groups } = await client.request("GET", "/v1/groups");
    const { example } = groups.find((one) => one.group === name);
    const { tables } = await client.request("POST", "/v1/describe", { sql: example });
    const { primary_key: columns } = (await relations()).find((one) => one.name === tables[0]);
    const key = Object.fromEntries(columns.map((column) => [column, record[column]]));
    return ask({ op: "update", key, set: {} }, name);
  }

  async function ask(wanted, name = chosenGroup) {
    try {
      const found = await maybe(client.request("POST", "/v1/geometry", { group: name, event: wanted }));
      if (found === null)
        fill(words, h("p", { class: "faint" }, "This server does not draw events (POST /v1/geometry)."));
      return found;
    } catch (error) {
      fill(rows);
      fill(space);
      fill(words, problem(error));
      return null;
    }
  }

  async function draw() {
    const asked = event;
    const found = await ask(asked);
    if (found === null || asked !== event) return;
    picture = found;
    const panel = found.panels[0];
    if (!isDrawable(found.x.type) || !isDrawable(found.y.type)) {
      fill(
        words,
        h(
          "p",
          null,
          `A picture needs numbers, dates or moments on both axes; ${found.x.name} is ${found.x.type} and ${found.y.name} is ${found.y.type}.`,
        ),
      );
      return;
    }
    if (!panel)
      return fill(
        words,
        h("p", null, "The row has a NULL where the group needs a value, so the event affects no subscription."),
      );
    names(found);
    fill(rows, drawRows(found, panel, { move: (to) => moveTo(to) }));
    fill(space, drawSpace(found, panel));
    fill(words, explain(found, panel));
  }

  const typed = later(150, () => moveTo([x.value, y.value]));

  /** The fields and the list of rows as the picture has them. */
  function names(found) {
    const panel = found.panels[0];
    xLabel.firstChild.textContent = found.x.name;
    yLabel.firstChild.textContent = found.y.name;
    const [atX, atY] = panel.after ?? panel.before;
    if (document.activeElement !== x) x.value = text(atX);
    if (document.activeElement !== y) y.value = text(atY);
    const sorted = [...panel.rows].sort((a, b) => position(a[1], found.y.type) - position(b[1], found.y.type));
    if (found.type === "range-max") sorted.reverse();
    const current = JSON.stringify(Object.values(found.key).map(String));
    const options = sorted
      .slice(0, 300)
      .map(([rx, ry, key]) =>
        h(
          "option",
          { value: JSON.stringify(key.map(String)) },
          `${key.map(text).join(", ")}  (${text(rx)}, ${text(ry)})`,
        ),
      );
    if (!options.some((option) => option.value === current))
      options.unshift(h("option", { value: current }, Object.values(found.key).map(text).join(", ")));
    fill(row, options);
    row.value = current;
  }

  function pick(chosen) {
    const found = picture.panels[0].rows.find(([, , key]) => JSON.stringify(key.map(String)) === chosen);
    if (!found) return;
    event = {
      op: "update",
      key: Object.fromEntries(Object.keys(picture.key).map((name, at) => [name, found[2][at]])),
      set: {},
    };
    ask(event).then((about) => {
      if (!about) return;
      picture = about;
      shift(1);
    });
  }

  function moveTo([toX, toY]) {
    if (!picture) return;
    const cast = (value, type) => (/^(integer|bigint|double)/.test(type) ? Number(value) : String(value));
    const set = { [picture.x.name]: cast(toX, picture.x.type), [picture.y.name]: cast(toY, picture.y.type) };
    event = { op: "update", key: event.key, set };
    draw();
  }

  /** Below all rows, or far above: better (−1) or worse (1) than it is. */
  function shift(direction) {
    const panel = picture?.panels[0];
    if (!panel) return draw();
    const [atX] = panel.before ?? panel.after;
    const ys = panel.rows.map(([, at]) => position(at, picture.y.type));
    let [low, high] = [Infinity, -Infinity];
    for (const at of ys) [low, high] = [Math.min(low, at), Math.max(high, at)];
    const isUp = direction > 0 === (picture.type === "range-min");
    const to = isUp ? low + (high - low) * 0.75 : low - (high - low) * 0.03;
    moveTo([text(atX), valueAt(to, picture.y.type)]);
  }

  function remove() {
    event = { op: "delete", key: event.key };
    draw();
  }

  begin().catch((error) => fill(body, problem(error)));
  return on("theme", () => picture && draw());
}

function nothing() {
  return h(
    "p",
    { class: "notice" },
    "There is no group of range minima or maxima yet. ",
    h("a", { href: "#live" }, "Start one"),
    ", such as ",
    h("code", null, "SELECT MIN(per) FROM stocks WHERE risk BETWEEN 20 AND 40"),
    ".",
  );
}
