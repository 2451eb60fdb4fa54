/** Views: the graph of tables and views, definitions, live rows, what uses what; a form to create one. */

import { announce, count, field, fill, h, problem } from "./dom.js";
import { client, emit, maybe, on, relations, watch } from "./session.js";
import { drawGraph } from "./view-graph.js";
import { latest } from "./sampler.js";
import { liveRows } from "./live-rows.js";
import { quoted } from "./cells.js";

let chosen = null; // a name

export function show(main) {
  const graph = h("div", { class: "uses" });
  const list = h("div", { class: "tables" });
  const detail = h("section", { class: "relation-detail" });
  const form = creation(async (name) => {
    await close();
    chosen = name;
    emit("tables");
  });
  let known = [];
  let open = null; // the detail that is shown: {name, update, close}
  let isLeft = false;

  fill(
    main,
    h("h2", null, "Views"),
    h(
      "p",
      { class: "lead" },
      "A view is a table that follows others: joins, expressions and groups, kept up to date with every event. Subscriptions take it wherever they take a table.",
    ),
    graph,
    h("div", { class: "columns" }, h("section", null, list, form.element), detail),
  );

  async function refresh() {
    known = await relations();
    if (isLeft) return;
    const views = known.filter(({ sql }) => sql !== undefined);
    if (!known.some(({ name }) => name === chosen)) chosen = (views[0] ?? known[0])?.name ?? null;
    form.offer(known, views.length === 0);
    fill(list, known.length ? listed(known, choose) : nothing());
    fill(graph, views.length ? drawGraph(known, chosen, choose) : null);
    counts();
    const found = known.find(({ name }) => name === chosen);
    if (open?.name === chosen) return open.update(known);
    await close();
    if (!found || isLeft) return fill(detail);
    open = detailOf(found, known, { choose, drop });
    fill(detail, open.element);
  }

  async function close() {
    const closing = open;
    open = null;
    await closing?.close();
  }

  async function drop(name) {
    await close(); // the subscription of the rows shown here must not keep the view
    try {
      await client.dropView(name);
      announce(`The view ${name} was dropped`);
      emit("tables");
    } catch (error) {
      await refresh();
      open?.failed(error);
    }
  }

  function choose(name) {
    chosen = name;
    refresh().catch(failed);
  }

  /** Rows by name, from the counters of the last second. */
  function counts() {
    const counted = new Map(known.filter(({ rows }) => rows !== undefined).map(({ name, rows }) => [name, rows]));
    for (const { name, labels, value } of latest()?.metrics.parts ?? [])
      if (name === "prosem_rows") counted.set(labels.table, value);
    for (const [name, value] of counted) {
      const found = list.querySelector(`[data-rows="${CSS.escape(name)}"]`);
      if (found) found.textContent = value === null ? "–" : count(value);
      const drawn = graph.querySelector(`[data-count="${CSS.escape(name)}"]`);
      if (drawn) drawn.textContent = value === null ? "" : ` · ${count(value)} ${value === 1 ? "row" : "rows"}`;
    }
  }

  let subscriptions = null; // their number, as last seen
  function sampled({ metrics }) {
    counts();
    const now = metrics.get("prosem_subscriptions");
    if (now !== subscriptions) open?.update(known).catch(failed);
    subscriptions = now;
  }

  const failed = (error) => fill(detail, problem(error));
  refresh().catch(failed);
  const ends = [on("sample", sampled), on("tables", () => refresh().catch(failed))];
  return () => {
    isLeft = true;
    ends.forEach((end) => end());
    close();
  };
}

function nothing() {
  return h("p", { class: "faint" }, "There is no table yet. ", h("a", { href: "#tables" }, "Create one"), " first.");
}

function listed(known, choose) {
  const line = ({ name, sql, uses }) =>
    h(
      "tr",
      { class: name === chosen ? "chosen" : "" },
      h(
        "td",
        null,
        h(
          "button",
          { type: "button", class: "link", "aria-pressed": String(name === chosen), onclick: () => choose(name) },
          name,
        ),
      ),
      h("td", null, sql === undefined ? "table" : "view"),
      h("td", { class: "number", "data-rows": name }, "–"),
      h("td", null, uses?.join(", ") ?? ""),
    );
  return h(
    "table",
    null,
    h(
      "thead",
      null,
      h("tr", null, h("th", null, "name"), h("th"), h("th", { class: "number" }, "rows"), h("th", null, "uses")),
    ),
    h("tbody", null, known.map(line)),
  );
}

/** A table or a view: definition, columns, dependents, rows. `update` keeps the rows that are shown. */
function detailOf(relation, known, { choose, drop }) {
  const { name, sql, columns, primary_key: key } = relation;
  const outcome = h("div", { class: "outcome" });
  const users = h("div", { class: "users" });
  const rows = liveRows(relation);
  const failed = (error) => fill(outcome, problem(error));

  async function update(all) {
    const own = await rows.ready();
    fill(users, await dependents(relation, all, own?.group, choose));
  }

  update(known).catch(failed);
  const element = h(
    "div",
    null,
    h("h2", null, name),
    sql === undefined ? null : h("pre", { class: "definition" }, sql),
    h(
      "div",
      { class: "line" },
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => watch(`SELECT * FROM ${quoted(name)}`).then(() => (location.hash = "live"), failed),
        },
        "Watch its rows",
      ),
      sql === undefined
        ? h("a", { href: "#tables" }, "publish to it")
        : h("button", { type: "button", class: "quiet", onclick: () => drop(name) }, "Drop it"),
    ),
    outcome,
    h("h3", null, "Columns"),
    h(
      "p",
      { class: "column-list" },
      columns.map((one) =>
        h(
          "span",
          null,
          h("b", null, one.name),
          ` ${one.type}`,
          key.includes(one.name) ? h("small", null, " key") : null,
          one.nullable === false && !key.includes(one.name) ? h("small", null, " not null") : null,
        ),
      ),
    ),
    h("h3", null, "Used by"),
    users,
    h("h3", null, "Rows"),
    rows.element,
  );
  return { name, element, update, failed, close: rows.close };
}

/**
 * What uses a table or a view: views, and of a view also the groups of subscriptions. The rows shown on this page are a
 * subscription too, of the group `own`, and do not count.
 */
async function dependents({ name, sql }, known, own, choose) {
  const [view, answer] = await Promise.all([
    sql === undefined ? null : maybe(client.view(name)),
    sql === undefined ? null : maybe(client.request("GET", "/v1/groups")),
  ]);
  const views = view?.used_by.views ?? known.filter(({ uses }) => uses?.includes(name)).map((one) => one.name);
  const groups = (answer?.groups ?? [])
    .filter(({ group }) => view?.used_by.groups.includes(group))
    .map((one) => ({ ...one, subscriptions: one.subscriptions - (one.group === own) }))
    .filter(({ subscriptions }) => subscriptions > 0);
  if (!views.length && !groups.length) return h("p", { class: "faint" }, "Nothing.");
  return h(
    "ul",
    { class: "users" },
    views.map((view) =>
      h("li", null, "the view ", h("button", { type: "button", class: "link", onclick: () => choose(view) }, view)),
    ),
    groups.map(({ group, example, template, subscriptions }) =>
      h(
        "li",
        null,
        `${count(subscriptions)} ${subscriptions === 1 ? "subscription" : "subscriptions"} of `,
        h("code", null, group),
        h("pre", { class: "faint" }, example ?? template),
      ),
    ),
  );
}

/** The form that creates a view. */
function creation(created) {
  const name = h("input", { placeholder: "totals", autocomplete: "off", required: true });
  const sql = h("textarea", { rows: 5, spellcheck: "false", autocapitalize: "off", required: true });
  const button = h("button", { class: "primary" }, "Create");
  const outcome = h("div");
  const create = async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(outcome, h("p", { class: "faint" }, "Building its rows …"));
    try {
      const made = await client.createView(name.value.trim(), sql.value.trim());
      fill(outcome, h("p", { class: "done" }, `The view ${made.name} is kept up to date from now on.`));
      name.value = sql.value = "";
      await created(made.name);
    } catch (error) {
      fill(outcome, problem(error));
    }
    button.disabled = false;
  };
  const element = h(
    "details",
    { class: "create" },
    h("summary", null, "Create a view"),
    h("form", { onsubmit: create }, field("Name", name), field("Definition, in SQL", sql), button, outcome),
  );
  let isOffered = false;
  return {
    element,
    /** An example that fits the tables; the form is open while there is no view. */
    offer(known, isFirst) {
      sql.placeholder = example(known) ?? "SELECT sector, COUNT(*) AS n FROM stocks GROUP BY sector";
      if (isFirst && known.length && !isOffered) element.open = true;
      isOffered = true;
    },
  };
}

/** A definition over one of the tables: groups by a column that is no key. */
export function example(known) {
  for (const { name, columns, primary_key: key } of known) {
    const group = columns.find((one) => one.type === "text" && !(key.length === 1 && key[0] === one.name));
    const number = columns.find((one) => /^(integer|bigint|double|numeric)/.test(one.type) && !key.includes(one.name));
    if (!group || !number) continue;
    const [g, y] = [quoted(group.name), quoted(number.name)];
    return `SELECT ${g}, COUNT(*) AS n, MAX(${y}) AS high\nFROM ${quoted(name)}\nGROUP BY ${g}`;
  }
  return null;
}
