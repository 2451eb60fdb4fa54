/** The form that writes a subscription: what it would become is shown while it is written. */

import { announce, field, fill, h, later, problem } from "./dom.js";
import { client, maybe, watch } from "./session.js";
import { text } from "./cells.js";
import { backtester } from "./backtest.js";

const NOTIFY = [
  ["", "every change"],
  ["change", "when it moved by"],
  ["percent", "when it moved by percent"],
  ["factor", "when it moved by a factor of"],
];

const NOTIFIED = /^(value|notified-aggregate|range-(min|max|count|sum|avg))$/; // types that take a condition

let draft = { sql: "", params: {}, notify: "", size: "", per: "event" };

/** A parameter as it is typed: JSON if it is, else text. */
export function readValue(typed) {
  const trimmed = typed.trim();
  if (/^-?\d{16,}$/.test(trimmed)) return BigInt(trimmed);
  try {
    return JSON.parse(trimmed);
  } catch {
    return typed;
  }
}

export function composer() {
  const sql = h("textarea", {
    id: "sql",
    rows: 4,
    spellcheck: "false",
    autocapitalize: "off",
    placeholder: "SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi",
    value: draft.sql,
    oninput: () => changed(),
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        submit();
      }
    },
  });
  const params = h("div", { class: "params" });
  const size = h("input", { "aria-label": "how much", class: "narrow", value: draft.size, oninput: () => changed() });
  const notify = h(
    "select",
    { value: draft.notify, onchange: () => changed() },
    NOTIFY.map(([value, label]) => h("option", { value }, label)),
  );
  notify.value = draft.notify;
  const notice = h("div", { class: "notify", hidden: true }, field("Notify me", notify), size);
  const durable = h("input", { type: "checkbox" });
  const isPerTransaction = draft.per === "transaction";
  const perTransaction = h("input", { type: "checkbox", checked: isPerTransaction, onchange: () => changed() });
  const outcome = h("div", { class: "outcome" });
  const becomes = h("section", { class: "becomes", "aria-label": "What it becomes", "aria-live": "polite" });
  const inputs = new Map();
  const past = backtester(() => ({ ...given(), per: draft.per }));

  function given() {
    const values = {};
    for (const [name, input] of inputs) {
      const isUsed = new RegExp(`:${name}(?!\\w)`).test(sql.value); // what the query before had is not sent
      if (isUsed && input.value !== "") values[name] = readValue(input.value);
    }
    const rule =
      notify.value && size.value !== "" && !notice.hidden ? { [notify.value]: readValue(size.value) } : undefined;
    return { sql: sql.value.trim(), params: values, notify: rule };
  }

  const describe = later(200, async () => {
    const asked = given();
    if (!asked.sql) return fill(becomes, introduction());
    try {
      const found = await maybe(client.request("POST", "/v1/describe", asked));
      if (sql.value.trim() !== asked.sql) return;
      if (found === null)
        return fill(becomes, h("p", { class: "faint" }, "This server does not describe queries (POST /v1/describe)."));
      offer(found);
      fill(becomes, description(found));
    } catch (error) {
      if (sql.value.trim() === asked.sql) fill(becomes, problem(error));
    }
  });

  function offer(found) {
    notice.hidden = !NOTIFIED.test(found.type);
    size.hidden = notify.value === "";
    for (const name of [...inputs.keys()]) if (!found.parameters.includes(name)) inputs.delete(name);
    for (const name of found.parameters) {
      if (inputs.has(name)) continue;
      inputs.set(
        name,
        h("input", { class: "narrow", name, value: draft.params[name] ?? "", oninput: () => changed() }),
      );
    }
    const wanted = found.parameters.join();
    if (params.dataset.names === wanted) return; // what is being typed in stays where it is
    params.dataset.names = wanted;
    if ([...inputs.values()].some((input) => input.value !== "")) describe(); // now with the values of an example
    fill(
      params,
      found.parameters.map((name) => field(`:${name}`, inputs.get(name))),
    );
  }

  function changed() {
    size.hidden = notify.value === "";
    draft = {
      sql: sql.value,
      params: { ...draft.params, ...Object.fromEntries([...inputs].map(([name, input]) => [name, input.value])) },
      notify: notify.value,
      size: size.value,
      per: perTransaction.checked ? "transaction" : "event",
    };
    describe();
  }

  async function submit() {
    const { sql: query, params: values, notify: rule } = given();
    try {
      await watch(query, values, { notify: rule, durable: durable.checked, per: draft.per });
      fill(outcome);
      announce("The subscription was started");
    } catch (error) {
      fill(outcome, problem(error));
    }
  }

  /** Put an example into the form. */
  function use(query, values = {}) {
    sql.value = query;
    draft.params = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, String(value)]));
    for (const [name, input] of inputs) input.value = draft.params[name] ?? "";
    changed();
    sql.focus();
  }

  describe();
  const form = h(
    "form",
    {
      class: "compose",
      onsubmit: (event) => {
        event.preventDefault();
        submit();
      },
    },
    h(
      "div",
      { class: "write" },
      field("Subscription, in SQL", sql),
      params,
      notice,
      h(
        "div",
        { class: "line" },
        h("button", { class: "primary", title: "Ctrl Enter" }, "Start"),
        h("label", { class: "check" }, durable, "keep it when this page closes"),
        h("label", { class: "check" }, perTransaction, "one change per transaction"),
        past.button,
      ),
      outcome,
      past.report,
    ),
    becomes,
  );
  return { form, use };
}

function introduction() {
  return [
    h("h3", null, "What it becomes"),
    h(
      "p",
      { class: "faint" },
      "As you write, this side shows the type of the query, the group it joins, and the stateless filter it is reformulated into: what lets one message reach all affected subscriptions, however many there are.",
    ),
  ];
}

/** A description: type, group, filter, plan, messages. */
function description(found) {
  const term = (name, ...value) => [h("dt", null, name), h("dd", null, ...value)];
  const others = found.subscriptions === 1 ? "1 subscription" : `${found.subscriptions} subscriptions`;
  return [
    h("h3", null, "What it becomes"),
    h(
      "dl",
      { class: "terms" },
      term("Type", h("code", { id: "described-type" }, found.type)),
      term(
        "Group",
        h("code", null, found.group),
        h("span", { class: "faint" }, found.subscriptions ? ` with ${others}` : " (new)"),
      ),
      term("Filter", h("div", { id: "described-filter" }, filter(found))),
      term(
        "Plans",
        found.plans.join(", "),
        found.plans.length > 1 ? h("span", { class: "faint" }, " (chosen for each event)") : null,
      ),
      term(
        "Messages",
        found.messages.map((message) =>
          h(
            "p",
            null,
            h("code", null, message.name),
            " to ",
            h("i", null, message.region),
            h("br"),
            h("span", { class: "faint" }, message.payload),
          ),
        ),
      ),
      term("On arrival", found.update),
    ),
  ];
}

/** The place of the subscription as a condition on messages. */
export function filter({ place, missing, messages }) {
  if (missing.length) {
    return h("span", { class: "faint" }, `give ${missing.map((name) => `:${name}`).join(" and ")} to see it`);
  }
  if (place?.nowhere) return "no row can ever satisfy it: it is never notified";
  if (place?.any) return conjunctions(place.any);
  const region = messages[0]?.region ?? "";
  const equal = Object.entries(place?.equal ?? {}).map(([name, value]) => `${name} = ${text(value)}`);
  const ranges = Object.entries(place?.point ?? {}).map(([name, [lo, hi]]) => ({
    name,
    lo: lo === null ? "−∞" : text(lo),
    hi: hi === null ? "∞" : text(hi),
  }));
  const point = ranges.map(({ name, lo, hi }) => `lo(${name}) = ${lo}, hi(${name}) = ${hi}`).join(", ");
  const isNested = ranges.length === 1 && region === "L < lo <= l AND r <= hi < R";
  if (!point && !equal.length)
    return h("span", { class: "faint" }, place?.point ? "every message of the group" : region);
  return [
    point ? h("p", null, "the point ", h("code", null, point)) : null,
    equal.length ? h("p", null, "among messages with ", h("code", null, equal.join(" and "))) : null,
    isNested ? h("p", null, "so: ", h("code", null, `L < ${ranges[0].lo} ≤ l  and  r ≤ ${ranges[0].hi} < R`)) : null,
  ];
}

function conjunctions(any) {
  return any.map((conjunction, at) => {
    const parts = Object.entries(conjunction).map(([name, extent]) => `${name} ${extent}`);
    return h("p", null, at ? h("b", null, "or ") : null, h("code", null, parts.join(" and ") || "every row"));
  });
}
