/** Keys: what the key in use may do; for admins, the keys of the tenant, a form to create one, and revocation. */

import { announce, field, fill, h, problem, tableOf } from "./dom.js";
import { client, maybe, useKey } from "./session.js";

const ROLES = [
  ["subscriber", "subscribes and reads"],
  ["publisher", "creates tables and publishes"],
  ["admin", "all of these, and manages keys"],
  ["metrics", "reads /metrics, nothing else"],
  ["broker", "joins as a broker, nothing else"],
];
const LIMITS = ["subscriptions", "events_per_second", "sockets", "frame_bytes", "comparisons", "webhooks"];

export function show(main) {
  const mine = h("section");
  const list = h("section");

  async function refresh() {
    try {
      const caller = await client.request("GET", "/v1/whoami");
      fill(mine, h("h2", null, "Your access"), described(caller));
      const found = await maybe(client.request("GET", "/v1/keys"));
      fill(
        list,
        h("h2", null, "Keys"),
        found === null ? h("p", { class: "notice" }, "Keys are managed by admins.") : table(found.keys, refresh),
        found === null ? null : creation(caller, refresh),
      );
    } catch (error) {
      if (error.status !== 401) fill(list, problem(error)); // without a key the dialog asks for one
    }
  }

  fill(main, h("h1", { class: "unseen" }, "Keys"), h("div", { class: "columns" }, mine, list));
  refresh();
}

const predicate = (columns) =>
  Object.entries(columns)
    .map(([column, values]) => `${column} IN (${values.join(", ")})`)
    .join(" AND ");
const rowsOf = ({ rows }) =>
  Object.entries(rows)
    .map(([table, columns]) => `${table}: ${predicate(columns)}`)
    .join("; ");
const limitsOf = ({ limits }) =>
  Object.entries(limits)
    .map(([name, limit]) => `${name} ${limit}`)
    .join(", ");

function described(caller) {
  const term = (name, value) => [h("dt", null, name), h("dd", null, value)];
  return [
    h(
      "p",
      null,
      caller.open
        ? "This server has no keys: every process on its machine has full access, other machines have none. The first key ends this: from then on every request needs one."
        : `The key ${caller.name} (number ${caller.key}).`,
    ),
    h(
      "dl",
      { class: "terms" },
      term("Tenant", caller.tenant),
      term("Roles", caller.roles.join(", ")),
      term("Rows", rowsOf(caller) || "all"),
      term("Limits", limitsOf(caller) || "none"),
    ),
  ];
}

function table(keys, refresh) {
  if (!keys.length) return h("p", { class: "faint" }, "There are none.");
  const fault = h("div");
  const revoke = async ({ key, name }) => {
    try {
      await client.request("DELETE", `/v1/keys/${key}`);
      announce(`The key ${name} was revoked`);
      await refresh();
    } catch (error) {
      fill(fault, problem(error));
    }
  };
  return [
    fault,
    h(
      "div",
      { class: "scroll" },
      tableOf(
        ["number", "name", "tenant", "roles", "restricted to", ""].map((name) => h("th", null, name)),
        keys.map((one) =>
          h(
            "tr",
            { class: one.revoked ? "removed" : "", "data-key": one.key },
            h("td", null, String(one.key)),
            h("td", null, one.name),
            h("td", null, one.tenant),
            h("td", null, one.roles.join(", ")),
            h("td", { class: "faint" }, [rowsOf(one), limitsOf(one)].filter(Boolean).join("; ")),
            h(
              "td",
              { class: "mark" },
              one.revoked
                ? "revoked"
                : h(
                    "button",
                    {
                      type: "button",
                      class: "quiet",
                      "aria-label": `Revoke ${one.name}`,
                      onclick: () => revoke(one),
                    },
                    "Revoke",
                  ),
            ),
          ),
        ),
      ),
    ),
  ];
}

function creation(caller, refresh) {
  const name = h("input", { placeholder: "dashboard" });
  const tenant = h("input", { value: caller.tenant });
  const roles = ROLES.map(([role, what]) => [
    role,
    what,
    h("input", { type: "checkbox", checked: role === (caller.open ? "admin" : "subscriber") }),
  ]);
  const rows = h("textarea", { rows: 2, placeholder: "stocks: sector = 'tech'", spellcheck: "false" });
  const limits = LIMITS.map((limit) => [limit, h("input", { class: "narrow", inputmode: "numeric" })]);
  const outcome = h("div", { "aria-live": "polite" });

  function asked() {
    const lines = rows.value.split("\n").filter((line) => line.trim());
    const given = limits
      .filter(([, input]) => input.value !== "")
      .map(([limit, input]) => [limit, Number(input.value)]);
    return {
      name: name.value.trim(),
      tenant: tenant.value.trim(),
      roles: roles.filter(([, , box]) => box.checked).map(([role]) => role),
      ...(lines.length
        ? {
            rows: Object.fromEntries(
              lines.map((line) => [line.slice(0, line.indexOf(":")).trim(), line.slice(line.indexOf(":") + 1).trim()]),
            ),
          }
        : {}),
      ...(given.length ? { limits: Object.fromEntries(given) } : {}),
    };
  }

  async function submit(event) {
    event.preventDefault();
    try {
      const made = await client.request("POST", "/v1/keys", asked());
      fill(
        outcome,
        h(
          "div",
          { class: "done" },
          h("p", null, "The key, shown this once: ", h("code", { id: "new-key" }, made.secret)),
          h("button", { type: "button", class: "quiet", onclick: () => useKey(made.secret) }, "Use it in this console"),
        ),
      );
      if (!caller.open) await refreshKeeping();
    } catch (error) {
      fill(outcome, problem(error));
    }
  }

  /** The list is drawn again, and the secret stays readable. */
  async function refreshKeeping() {
    const said = [...outcome.childNodes];
    await refresh();
    fill(document.getElementById("key-outcome"), said);
    document.querySelector("details.create").open = true;
  }

  outcome.id = "key-outcome";
  return h(
    "details",
    { class: "create" },
    h("summary", null, "Create a key"),
    h(
      "form",
      { onsubmit: submit },
      field("Name", name),
      field("Tenant", tenant),
      h(
        "fieldset",
        null,
        h("legend", null, "Roles"),
        roles.map(([role, what, box]) => h("label", { class: "check" }, box, h("b", null, role), what)),
      ),
      field("Rows", rows, "one table per line; empty: all rows"),
      h(
        "fieldset",
        null,
        h("legend", null, "Limits; empty: none"),
        h(
          "div",
          { class: "fields" },
          limits.map(([limit, input]) => field(limit, input)),
        ),
      ),
      h("button", { class: "primary" }, "Create"),
      outcome,
    ),
  );
}
