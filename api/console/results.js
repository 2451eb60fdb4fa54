/** An answer as it is seen, with what the last change did to it marked: + added, − removed, ~ changed, and colour. */

import { before, cell, shortened, text } from "./cells.js";
import { identity } from "./client/json.js";
import { h } from "./dom.js";
import { renderGroups, renderRanked, renderRows } from "./result-tables.js";

const MOST_ITEMS = 60;

/** The element of an item's answer. */
export function render(item) {
  const { result } = item;
  if (!result) return h("p", { class: "faint" }, "unknown until the next change");
  if ("rows" in result) return item.subscription.fold.order ? renderRanked(item) : renderRows(item);
  if ("groups" in result) return renderGroups(item);
  if ("columns" in result) return renderColumns(item);
  if ("values" in result) return renderValues(item);
  if ("items" in result) return renderItems(item);
  return renderValue(item);
}

function renderValue({ result, previous, change }) {
  const was = change ? (change.previous ?? previous?.value) : undefined;
  return h(
    "div",
    { class: "value" },
    h(
      "p",
      {
        class: ["figure", change ? "changed" : "", shortened(result.value).length > 11 ? "long" : ""].join(" "),
        title: text(result.value),
      },
      result.value === null ? h("span", { class: "null" }, "no row") : shortened(result.value),
      was !== undefined ? before(was, result.value) : null,
    ),
    result.row
      ? h(
          "p",
          { class: "faint row" },
          Object.entries(result.row).map(([name, value]) => h("span", null, `${name} `, h("b", null, text(value)))),
        )
      : null,
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

/** Several aggregates: each under its name, with the value before where it changed. */
function renderColumns({ result, previous, change }) {
  const isNew = (name) =>
    change !== null && previous !== null && identity(previous.columns[name]) !== identity(result.columns[name]);
  return h(
    "dl",
    { class: "named" },
    Object.entries(result.columns).map(([name, value]) =>
      h(
        "div",
        { class: isNew(name) ? "changed" : undefined },
        h("dt", null, name),
        h(
          "dd",
          null,
          h("span", { class: value === null ? "null" : undefined, title: text(value) }, shortened(value)),
          isNew(name) ? before(previous.columns[name], value) : null,
        ),
      ),
    ),
  );
}

function renderItems({ result, change }) {
  const changed = new Map(
    (change?.items ?? (change ? [change] : []))
      .filter((item) => "key" in item)
      .map((item) => [identity(item.key), item]),
  );
  const line = (item) => {
    const update = changed.get(identity(item.key));
    return h(
      "tr",
      { class: update ? "updated" : "" },
      h("td", { class: "mark" }, update ? "~" : ""),
      h("td", null, Object.values(item.key).map(text).join(", ")),
      cell(item.value, update ? "changed" : ""),
    );
  };
  const sorted = [...result.items].sort((a, b) => changed.has(identity(b.key)) - changed.has(identity(a.key)));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": "items" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, h("th", { class: "mark" }), h("th", null, "item"), h("th", null, "value"))),
      h("tbody", null, sorted.slice(0, MOST_ITEMS).map(line)),
    ),
  );
}

/** A change in one line. */
export function summary(change) {
  if (change === null) return "a fresh answer";
  if ("value" in change && !("key" in change)) return `→ ${text(change.value)}`;
  if ("columns" in change)
    return Object.entries(change.columns)
      .map(([name, value]) => `${name} → ${text(value)}`)
      .join("  ");
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
