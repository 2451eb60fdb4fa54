/** EXPLAIN of an event, drawn: for every group it touches each plan with its costs, which one would be taken, and by which statistics. */

import { fill, field, h, problem, rough, tableOf } from "./dom.js";
import { client, maybe } from "./session.js";
import { parse, encode } from "./client/index.js";

const COSTS = [
  ["server_time", "server time, µs"],
  ["response_time", "response time, µs"],
  ["server_stress", "server stress, bytes"],
  ["bandwidth", "bandwidth, bytes"],
  ["affected", "affected"],
];

export function explainer() {
  const table = h("select", { name: "table", onchange: () => suggest() });
  const event = h("textarea", { rows: 3, spellcheck: "false", name: "event" });
  const analyze = h("input", { type: "checkbox", name: "analyze" });
  const outcome = h("div", { class: "plans", "aria-live": "polite" });
  let tables = [];

  async function fillTables() {
    tables = await client.tables().catch(() => []);
    fill(
      table,
      tables.map(({ name }) => h("option", { value: name }, name)),
    );
    await suggest();
  }

  /** An event that would be valid: a row that is there, as it is. */
  async function suggest() {
    const chosen = tables.find(({ name }) => name === table.value);
    if (!chosen) return;
    event.value = encode({
      op: "upsert",
      row: Object.fromEntries(chosen.columns.map(({ name, type }) => [name, sample(type)])),
    });
  }

  async function submit(submitted) {
    submitted.preventDefault();
    try {
      const body = { table: table.value, event: parse(event.value), ...(analyze.checked ? { analyze: true } : {}) };
      const answer = await maybe(client.request("POST", "/v1/explain", body));
      fill(
        outcome,
        answer === null
          ? h("p", { class: "notice" }, "This server does not explain events yet (POST /v1/explain).")
          : draw(answer),
      );
    } catch (error) {
      fill(
        outcome,
        problem(error instanceof SyntaxError ? new Error(`the event is not JSON: ${error.message}`) : error),
      );
    }
  }

  fillTables();
  const element = h(
    "form",
    { class: "explain", onsubmit: submit },
    h(
      "div",
      { class: "line" },
      field("Table", table),
      h("label", { class: "check" }, analyze, "measure it too, in a dry run"),
    ),
    field("Event", event),
    h("button", { class: "primary" }, "Explain"),
    outcome,
  );
  return { element };
}

function sample(type) {
  if (/^(integer|bigint)/.test(type)) return 30;
  if (type === "double precision") return 3.5;
  if (type.startsWith("numeric")) return "3.50";
  return (
    { boolean: true, date: "2024-12-31", timestamptz: "2024-12-31T12:00:00Z", bytea: "", jsonb: null }[type] ?? "AAA"
  );
}

/** The groups of an answer, whatever its outer form: each with its plans. */
export function groupsOf(answer) {
  const list = Array.isArray(answer) ? answer : (answer.groups ?? answer.spaces ?? []);
  return list.map((group) => ({
    name: group.group ?? group.name ?? group.space ?? "",
    type: group.type ?? "",
    order: group.order ?? null,
    arrangement: group.arrangement ?? null,
    plans: (group.plans ?? []).map((plan) => {
      const name = plan.plan ?? plan.name;
      return {
        name,
        estimated: plan.estimated ?? plan.estimates ?? plan,
        measured: plan.measured ?? plan.actual ?? null,
        cost: Number(plan.cost),
        statistic: plan.statistic ?? null,
        ways: plan.ways ?? [],
        isChosen: plan.chosen === true || group.chosen === name,
      };
    }),
  }));
}

function draw(answer) {
  const groups = groupsOf(answer);
  if (!groups.length) return h("p", null, "The event touches no group: no subscription would be notified.");
  return groups.map(({ name, type, plans, order, arrangement }) => {
    const most = Math.max(...plans.map(({ cost }) => cost).filter(Number.isFinite), 1e-12);
    return h(
      "section",
      { class: "plan-group" },
      h(
        "h3",
        null,
        h("code", null, String(name)),
        type && !String(name).startsWith(type) ? h("span", { class: "faint" }, ` ${type}`) : null,
      ),
      h(
        "div",
        { class: "scroll" },
        tableOf(
          [
            h("th", null, "plan"),
            h("th", null, "weighted cost"),
            COSTS.map(([, title]) => h("th", { class: "number", scope: "col" }, title)),
          ],
          plans.map((plan) => row(plan, most)),
        ),
      ),
      h(
        "ul",
        { class: "reasons faint" },
        reasons(plans, order, arrangement).map((line) => h("li", null, line)),
      ),
    );
  });
}

/** What the plans cost by each way of the network, what they were estimated by, when the group is evaluated, and how a join is arranged. */
function reasons(plans, order, arrangement) {
  const statistics = [...new Set(plans.map(({ statistic }) => statistic))].filter((one) => one !== null);
  const estimated = (by) => plans.filter(({ statistic }) => statistic === by).map(({ name }) => name);
  const lines = statistics.map(
    (one) => `${statistics.length === 1 ? "estimates" : estimated(one).join(", ")}: ${one}`,
  );
  for (const { name, ways } of plans.filter(({ ways }) => ways.length))
    lines.push(`${name} costs ${ways.map(({ way, cost }) => `${rough(cost)} (${way})`).join(" or ")}`);
  if (order !== null)
    lines.push(`ordered by ${rough(order.server_cost)} µs per subscription: ${order.statistic}`);
  return arrangement === null ? lines : lines.concat(arranged(arrangement));
}

/** The routing columns and partners of a join, and what chose them. */
export function arranged({ routing, partners }) {
  const columns = Object.entries(routing.columns).map(([table, column]) => `${table}.${column}`);
  const pairs = Object.entries(partners.tables).map(([table, partner]) => `${table} by ${partner}`);
  return [
    `routing columns ${columns.join(", ") || "none"}: ${routing.statistic}`,
    `reduced ${pairs.join(", ")}: ${partners.statistic}`,
  ];
}

function row({ name, estimated, measured, cost, isChosen }, most) {
  const bar = h("span", { class: "bar" });
  bar.style.width = `${Math.max(2, (100 * (Number.isFinite(cost) ? cost : 0)) / most)}%`;
  const figure = ([key]) => {
    const value = estimated[key];
    const real = measured?.[key];
    return h(
      "td",
      { class: "number" },
      value === undefined || value === null ? "–" : rough(Number(value)),
      real === undefined || real === null
        ? null
        : h("small", { class: "measured" }, ` measured ${rough(Number(real))}`),
    );
  };
  return h(
    "tr",
    { class: isChosen ? "chosen" : "" },
    h("td", null, name, isChosen ? h("b", null, " ✓ chosen") : null),
    h("td", { class: "cost" }, bar, h("span", null, Number.isFinite(cost) ? rough(cost) : "–")),
    COSTS.map(figure),
  );
}
