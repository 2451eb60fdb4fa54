/** Statistics: the run in force, what it changed, and what it says of tables, joins and groups. */

import { count, fill, h, problem, rough, tableOf } from "./dom.js";
import { client, maybe } from "./session.js";
import { histogram } from "./histogram.js";

const ROOT = "/v1/optimizer/statistics";
const ask = (path = "") => maybe(client.request("GET", ROOT + path));
const percent = (share) => `${rough(100 * share)} %`;

let chosen = null; // the name of a table

export function show(main) {
  const run = h("section");
  const tables = h("section");
  const joins = h("section");
  const groups = h("section");
  fill(
    main,
    h("h2", null, "Statistics"),
    h(
      "p",
      { class: "lead" },
      "What prosem stats refresh has computed from the event log, the subscriptions and the measurements: the optimizer estimates by it before it has measured anything itself.",
    ),
    run,
    tables,
    joins,
    groups,
  );
  load(run, tables, joins, groups).catch((error) => fill(run, problem(error)));
}

async function load(run, tables, joins, groups) {
  const inForce = await ask();
  fill(run, described(inForce));
  if (inForce.run === null) return;
  const [known, edges, spaces] = await Promise.all([ask("/tables"), ask("/joins"), ask("/groups")]);
  listTables(tables, known.tables);
  fill(joins, joined(edges.joins));
  fill(groups, grouped(spaces.groups));
}

function described({ run, created, job, rows, entries, stale, arrangements, estimate_errors: errors }) {
  const wrong = Object.entries(errors ?? {}).map(([metric, factor]) => `${metric} by a factor of ${rough(factor)}`);
  const error = wrong.length ? h("p", null, `Estimates were wrong lately (median): ${wrong.join(", ")}.`) : null;
  if (run === null)
    return [h("p", { class: "notice" }, "No run is in force. prosem stats refresh makes one."), error];
  const taken = Object.keys(entries);
  return [
    h(
      "p",
      { id: "run" },
      h("b", null, `Run ${run}`),
      ` of ${new Date(created).toLocaleString("en")}, by ${job}: `,
      `${count(rows?.event_log ?? 0)} events, ${count(rows?.subscription ?? 0)} subscriptions.`,
    ),
    h(
      "p",
      { id: "changed" },
      taken.length ? `Measurements are used for ${taken.join(", ")}.` : "No group has measurements.",
      stale.length
        ? ` Not used for ${stale.join(", ")}: the number of subscriptions has changed fourfold since then.`
        : "",
    ),
    arrangedBy(arrangements ?? []),
    error,
  ];
}

/** Joins as they are arranged, and what the run has changed of that. */
function arrangedBy(joins) {
  if (!joins.length) return null;
  const differs = (now, before) => before !== undefined && Object.keys(now).some((table) => now[table] !== before[table]);
  const shown = (pairs, join) => Object.entries(pairs).map(([table, one]) => table + join + one).join(", ") || "–";
  const cell = (now, before, join, statistic) =>
    h(
      "td",
      null,
      shown(now, join),
      differs(now, before) ? h("b", null, ` instead of ${shown(before, join)}`) : null,
      h("small", { class: "faint" }, ` ${statistic}`),
    );
  const line = ({ group, routing, partners, without_run: without }) =>
    h(
      "tr",
      null,
      h("td", null, h("code", null, group)),
      cell(routing.columns, without?.routing, ".", routing.statistic),
      cell(partners.tables, without?.partners, " by ", partners.statistic),
    );
  const titles = ["join", "routing columns", "reduced"].map((title) => h("th", { scope: "col" }, title));
  return h("div", { class: "scroll" }, tableOf(titles, joins.map(line), { class: "arrangements" }));
}

function listTables(section, tables) {
  const detail = h("div", { class: "histograms" });
  if (!tables.some(({ name }) => name === chosen)) chosen = tables[0]?.name ?? null;
  const choose = async (name) => {
    chosen = name;
    const table = tables.find((one) => one.name === name);
    for (const button of section.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.textContent === name));
    const path = (column) => `/tables/${encodeURIComponent(name)}/columns/${encodeURIComponent(column)}`;
    const columns = await Promise.all(table.columns.map((column) => ask(path(column.name))));
    if (chosen === name) fill(detail, columns.map(column));
  };
  fill(
    section,
    h("h3", null, "Columns"),
    h(
      "p",
      { class: "choices" },
      tables.map(({ name }) =>
        h("button", { type: "button", class: "quiet", onclick: () => choose(name) }, name),
      ),
    ),
    detail,
  );
  if (chosen !== null) choose(chosen);
}

function column(found) {
  const note =
    `${found.type}, ${rough(found.distinct_values)} values, changed by ${percent(found.update_rate)} of ` +
    `${count(found.events)} events` +
    (found.nulls ? `, ${percent(found.nulls / found.events)} NULL` : "");
  return histogram(found.name, found.histogram, found.hot_keys, note);
}

function joined(joins) {
  if (!joins.length) return null;
  const side = ({ table, columns }) => h("td", null, `${table} (${columns.join(", ")})`);
  const number = (value) => h("td", { class: "number" }, value);
  const line = (one) =>
    h(
      "tr",
      null,
      side(one),
      number(percent(one.event_share)),
      number(count(one.keys)),
      number(rough(one.rows_per_key)),
      number(rough(one.skew)),
    );
  const titles = ["side of a join", "events", "keys", "rows per key", "skew"];
  return [
    h("h3", null, "Joins"),
    h(
      "div",
      { class: "scroll" },
      tableOf(
        titles.map((title, at) => h("th", { scope: "col", class: at ? "number" : "" }, title)),
        joins.flatMap(({ r, s }) => [line(r), line(s)]),
        { class: "joins" },
      ),
    ),
  ];
}

function grouped(groups) {
  if (!groups.length) return null;
  return [
    h("h3", null, "Groups"),
    groups.map(({ name, sample_sql: sql, is_stale: isStale, dimensions }) =>
      h(
        "details",
        { class: "group" },
        h("summary", null, h("code", null, name), isStale ? " (has changed since)" : "", " ", h("code", null, sql)),
        h(
          "div",
          { class: "histograms" },
          dimensions.map((one) =>
            histogram(
              one.dimension,
              one.histogram,
              one.hot_keys,
              `${count(one.subscriptions)} subscriptions, ${rough(one.distinct_values)} values`,
            ),
          ),
        ),
      ),
    ),
  ];
}
