/** An answer as it is seen, with what the last change did to it marked: + added, − removed, ~ changed, and colour. */

import { identity } from "./client/json.js";
import { encode } from "./client/index.js";
import { h, s } from "./dom.js";

const MOST_ROWS = 60;

/** A value of a table as text. */
export function text(value) {
  if (value === null || value === undefined) return "NULL";
  return typeof value === "object" ? encode(value) : String(value);
}

/** A double that was: six digits are enough. */
const brief = (value) =>
  typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : text(value);

const cell = (value, mark) =>
  h("td", { class: [value === null ? "null" : "", mark ?? ""].join(" ").trim() || undefined }, text(value));

/** The element of an item's answer. */
export function render(item) {
  const { result } = item;
  if (!result) return h("p", { class: "faint" }, "unknown until the next change");
  if ("rows" in result) return renderRows(item);
  if ("values" in result) return renderValues(item);
  if ("items" in result) return renderItems(item);
  return renderValue(item);
}

function renderValue({ result, previous, change, values }) {
  const before = change ? (change.previous ?? previous?.value) : undefined;
  const rose = Number(result.value) > Number(before);
  return h(
    "div",
    { class: "value" },
    h(
      "p",
      { class: ["figure", change ? "changed" : "", text(result.value).length > 11 ? "long" : ""].join(" ") },
      result.value === null ? h("span", { class: "null" }, "no row") : text(result.value),
      change && before !== undefined
        ? h(
            "small",
            { class: "before" },
            h("span", { "aria-hidden": "true" }, rose ? "▲ " : "▼ "),
            h("del", null, brief(before)),
          )
        : null,
    ),
    sparkline(values),
    result.row
      ? h(
          "p",
          { class: "faint row" },
          Object.entries(result.row).map(([name, value]) => h("span", null, `${name} `, h("b", null, text(value)))),
        )
      : null,
  );
}

/** The last values as a line. */
function sparkline(values) {
  if (values.length < 2) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = values.map((value, at) => {
    const x = (100 * at) / (values.length - 1);
    return `${x.toFixed(1)},${(22 - (20 * (value - low)) / (high - low || 1)).toFixed(1)}`;
  });
  return s(
    "svg",
    {
      class: "spark",
      viewBox: "0 0 100 24",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `the last ${values.length} values, ${low} to ${high}`,
    },
    s("polyline", { points: points.join(" ") }),
  );
}

function renderValues({ result, change }) {
  const added = new Set((change?.add ?? []).map(identity));
  const gone = (change?.remove ?? []).map((value) =>
    h("li", { class: "removed" }, h("span", { class: "mark" }, "−"), h("del", null, text(value))),
  );
  const there = result.values.map((value) =>
    added.has(identity(value))
      ? h("li", { class: "added" }, h("span", { class: "mark" }, "+"), text(value))
      : h("li", null, text(value)),
  );
  return h("ul", { class: "values" }, there.length ? there : h("li", { class: "faint" }, "no value"), gone);
}

/** Rows of a filter, or of a join (then each row holds one of every table). */
function renderRows({ result, previous, change }) {
  const isJoin = result.rows
    .concat(change?.remove ?? [])
    .some((row) => Object.values(row).some((part) => part && typeof part === "object" && !Array.isArray(part)));
  const flat = (row) =>
    isJoin
      ? Object.fromEntries(
          Object.entries(row).flatMap(([table, part]) =>
            Object.entries(part).map(([name, value]) => [`${table}.${name}`, value]),
          ),
        )
      : row;
  const names = Object.keys(flat(result.rows[0] ?? change?.remove?.[0] ?? {}));
  const added = new Set((change?.add ?? []).map(identity));
  const updated = new Map((change?.update ?? []).map((row) => [identity(row), row]));
  const keys = updated.size ? guessKey(previous?.rows ?? []) : [];
  const before = new Map(
    updated.size ? (previous?.rows ?? []).map((row) => [identity(keys.map((name) => row[name])), row]) : [],
  );
  const ranked = (row) => (added.has(identity(row)) ? 0 : updated.has(identity(row)) ? 1 : 2);
  const shown = [...result.rows].sort((a, b) => ranked(a) - ranked(b)).slice(0, MOST_ROWS);
  const isNew = (row, name) => {
    const old = before.get(identity(keys.map((column) => row[column])));
    return old !== undefined && identity(old[name] ?? null) !== identity(row[name] ?? null);
  };
  const line = (row, kind, sign) =>
    h(
      "tr",
      { class: kind },
      h("td", { class: "mark" }, sign),
      names.map((name) => cell(flat(row)[name] ?? null, kind === "updated" && isNew(row, name) ? "changed" : "")),
    );
  const removed = (change?.remove ?? [])
    .slice(0, MOST_ROWS)
    .map((row) => line(isJoin ? row : whole(row, previous), "removed", "−"));
  const kinds = [
    ["added", "+"],
    ["updated", "~"],
    ["", ""],
  ];
  const there = shown.map((row) => line(row, ...kinds[ranked(row)]));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "rows" },
    names.length
      ? h(
          "table",
          null,
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              h("th", { class: "mark" }),
              names.map((name) => h("th", { scope: "col" }, name)),
            ),
          ),
          h("tbody", null, removed, there),
        )
      : h("p", { class: "faint" }, "no row"),
    h(
      "p",
      { class: "faint" },
      result.rows.length > MOST_ROWS
        ? `${MOST_ROWS} of ${result.rows.length} rows`
        : `${result.rows.length} ${result.rows.length === 1 ? "row" : "rows"}`,
    ),
  );
}

/** A row that was removed is named by its key; what it was stands in the answer before. */
function whole(gone, previous) {
  const key = Object.keys(gone);
  return (
    previous?.rows?.find((row) => key.every((name) => identity(row[name] ?? null) === identity(gone[name]))) ?? gone
  );
}

/** Without the table's definition: the first columns that tell all rows apart. */
function guessKey(rows) {
  const names = Object.keys(rows[0] ?? {});
  for (let size = 1; size <= names.length; size += 1) {
    const key = names.slice(0, size);
    if (new Set(rows.map((row) => identity(key.map((name) => row[name])))).size === rows.length) return key;
  }
  return names;
}

function renderItems({ result, change }) {
  const told = new Map(
    (change?.items ?? (change ? [change] : []))
      .filter((item) => "key" in item)
      .map((item) => [identity(item.key), item]),
  );
  const line = (item) => {
    const news = told.get(identity(item.key));
    return h(
      "tr",
      { class: news ? "updated" : "" },
      h("td", { class: "mark" }, news ? "~" : ""),
      h("td", null, Object.values(item.key).map(text).join(", ")),
      cell(item.value, news ? "changed" : ""),
    );
  };
  const sorted = [...result.items].sort((a, b) => told.has(identity(b.key)) - told.has(identity(a.key)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "items" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, h("th", { class: "mark" }), h("th", null, "item"), h("th", null, "value"))),
      h("tbody", null, sorted.slice(0, MOST_ROWS).map(line)),
    ),
  );
}

/** A change in one line. */
export function summary(change) {
  if (change === null) return "a fresh answer";
  if ("value" in change && !("key" in change)) return `→ ${text(change.value)}`;
  if ("key" in change) return `${Object.values(change.key).map(text).join(", ")} → ${text(change.value)}`;
  const parts = [
    ["+", change.add],
    ["−", change.remove],
    ["~", change.update],
  ];
  return (
    parts
      .filter(([, list]) => list?.length)
      .map(([sign, list]) => `${sign}${list.length}`)
      .join("  ") || "a change"
  );
}
