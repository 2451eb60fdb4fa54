/** Tables: what is there, a form and a CSV drop to publish, a form to create. */

import { announce, count, field, fill, h, problem } from "./dom.js";
import { client, emit, on, publish, watch } from "./session.js";
import { eventsOf, readCell } from "./csv.js";
import { quoted } from "./cells.js";
import { latest } from "./sampler.js";
import * as market from "./market.js";

const TYPES = [
  "boolean",
  "integer",
  "bigint",
  "double precision",
  "numeric(12,2)",
  "text",
  "date",
  "timestamptz",
  "jsonb",
  "bytea",
];
let chosen = null;

export function show(main) {
  const list = h("div", { class: "tables" });
  const detail = h("section", { "aria-live": "polite" });
  fill(
    main,
    h("div", { class: "columns" }, h("section", null, h("h2", null, "Tables"), list, creation(refresh)), detail),
  );

  async function refresh() {
    const tables = await client.tables();
    chosen = tables.find(({ name }) => name === chosen?.name) ?? tables[0] ?? null;
    fill(
      list,
      tables.length
        ? h(
            "table",
            null,
            h(
              "thead",
              null,
              h("tr", null, h("th", null, "name"), h("th", { class: "number" }, "rows"), h("th", null, "key")),
            ),
            h("tbody", null, tables.map(line)),
          )
        : [
            h("p", { class: "faint" }, "There is none yet."),
            h(
              "button",
              { type: "button", class: "primary", onclick: (event) => demo(event.target) },
              "Load the demo market",
            ),
          ],
    );
    fill(detail, chosen ? tableDetail(chosen, refresh) : null);
    counts();
  }

  async function demo(button) {
    button.disabled = true;
    await market.load().catch((error) => announce(error.message));
    refresh();
  }

  const line = (table) =>
    h(
      "tr",
      { class: table.name === chosen?.name ? "chosen" : "" },
      h(
        "td",
        null,
        h(
          "button",
          {
            type: "button",
            class: "link",
            "aria-pressed": String(table.name === chosen?.name),
            onclick: () => ((chosen = table), refresh()),
          },
          table.name,
        ),
      ),
      h("td", { class: "number", "data-rows": table.name }, "–"),
      h("td", null, table.primary_key.join(", ")),
    );

  function counts() {
    for (const { name, labels, value } of latest()?.metrics.parts ?? []) {
      if (name !== "prosem_rows") continue;
      const found = list.querySelector(`[data-rows="${CSS.escape(labels.table)}"]`);
      if (found) found.textContent = count(value);
    }
  }

  refresh().catch((error) => fill(list, problem(error)));
  const ends = [on("sample", counts), on("tables", refresh)];
  return () => ends.forEach((end) => end());
}

function tableDetail(table, refresh) {
  const outcome = h("div", { role: "status" });
  const report = (text) => fill(outcome, h("p", { class: "done" }, text));
  const failed = (error) => fill(outcome, problem(error));
  return [
    h("h2", null, table.name),
    h(
      "p",
      { class: "faint" },
      table.columns
        .map(({ name, type, nullable }) => `${name} ${type}${nullable === false ? " not null" : ""}`)
        .join(", "),
    ),
    h(
      "div",
      { class: "line" },
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () =>
            watch(`SELECT * FROM ${quoted(table.name)}`).then(() => (location.hash = "live"), failed),
        },
        "Watch its rows",
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => client.dropTable(table.name).then(() => (emit("tables"), refresh()), failed),
        },
        "Drop it",
      ),
    ),
    eventForm(table, report, failed),
    drop(table, report, failed),
    outcome,
  ];
}

/** One event, one field per column. An empty field is NULL; for an update, it is left as it is. */
function eventForm(table, report, failed) {
  const op = h(
    "select",
    { "aria-label": "operation" },
    ["upsert", "insert", "update", "delete"].map((name) => h("option", null, name)),
  );
  const inputs = table.columns.map(({ name, type }) => h("input", { name, placeholder: type, autocomplete: "off" }));
  const values = (wanted) =>
    Object.fromEntries(
      table.columns.flatMap(({ name, type }, at) =>
        wanted(name, inputs[at].value)
          ? [[name, readCell(inputs[at].value === "" ? null : inputs[at].value, type)]]
          : [],
      ),
    );
  const isKey = (name) => table.primary_key.includes(name);
  const event = () => {
    if (op.value === "delete") return { op: "delete", key: values(isKey) };
    if (op.value === "update")
      return { op: "update", key: values(isKey), set: values((name, typed) => !isKey(name) && typed !== "") };
    return { op: op.value, row: values(() => true) };
  };
  return h(
    "form",
    {
      class: "publish",
      onsubmit: async (submitted) => {
        submitted.preventDefault();
        try {
          const { last_seq: seq } = await publish(table.name, [event()]);
          report(`Committed as seq ${count(seq)}.`);
        } catch (error) {
          failed(error);
        }
      },
    },
    h("h3", null, "Publish an event"),
    h(
      "div",
      { class: "fields" },
      field("operation", op),
      table.columns.map(({ name }, at) => field(isKey(name) ? `${name} (key)` : name, inputs[at])),
    ),
    h("button", { class: "primary" }, "Publish"),
  );
}

/** A CSV file, dropped or chosen. */
function drop(table, report, failed) {
  const chooser = h("input", {
    type: "file",
    accept: ".csv,text/csv",
    "aria-label": "a CSV file",
    onchange: () => take(chooser.files[0]),
  });
  async function take(file) {
    if (!file) return;
    try {
      const events = eventsOf(await file.text(), table);
      if (!events.length) throw new Error("the file has no record below its first line");
      report(`Publishing ${count(events.length)} rows of ${file.name} …`);
      const answer = await client.publishMany(table.name, events);
      if (answer.errors)
        throw Object.assign(new Error(`${count(answer.count)} rows were committed, then: ${answer.errors[0].detail}`), {
          errors: answer.errors,
        });
      report(`Committed ${count(answer.count)} rows of ${file.name}, up to seq ${count(answer.last_seq)}.`);
    } catch (error) {
      failed(error);
    }
    chooser.value = "";
  }
  const area = h(
    "div",
    {
      class: "drop",
      ondragover: (event) => (event.preventDefault(), area.classList.add("over")),
      ondragleave: () => area.classList.remove("over"),
      ondrop: (event) => {
        event.preventDefault();
        area.classList.remove("over");
        take(event.dataTransfer.files[0]);
      },
    },
    h("p", null, "Drop a CSV file here, or choose one. Its first line names columns; each record is an upsert."),
    chooser,
  );
  return area;
}

function creation(refresh) {
  const name = h("input", { placeholder: "stocks", autocomplete: "off", required: true });
  const columns = h("textarea", {
    rows: 4,
    placeholder: "symbol text\nrisk integer\nper double precision",
    spellcheck: "false",
    required: true,
  });
  const key = h("input", { placeholder: "symbol", autocomplete: "off", required: true });
  const outcome = h("div");
  const create = async (event) => {
    event.preventDefault();
    try {
      const made = columns.value
        .split(/\n|,(?![^(]*\))/)
        .map((line) => line.trim())
        .filter(Boolean)
        .map((line) => {
          const [, column, type] = /^(\S+)\s+(.+)$/.exec(line) ?? [];
          if (!column) throw new Error(`“${line}” is not a name and a type, such as: risk integer`);
          return { name: column, type: type.trim() };
        });
      chosen = await client.createTable(
        name.value.trim(),
        made,
        key.value.split(",").map((part) => part.trim()),
      );
      fill(outcome);
      emit("tables");
      refresh();
    } catch (error) {
      fill(outcome, problem(error));
    }
  };
  return h(
    "details",
    { class: "create" },
    h("summary", null, "Create a table"),
    h(
      "form",
      { onsubmit: create },
      field("Name", name),
      field("Columns, one per line", columns, TYPES.join(", ")),
      field("Primary key", key),
      h("button", { class: "primary" }, "Create"),
      outcome,
    ),
  );
}
