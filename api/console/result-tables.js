/** Answers that are tables: rows, joined rows, ordered rows of a top-k, groups. Marks: + added, − removed, ~ changed. */

import { cell } from "./cells.js";
import { count, h } from "./dom.js";
import { identityOf } from "./client/fold.js";
import { identity } from "./client/json.js";
import { rowComparison } from "./client/order.js";

const MOST_ROWS = 60;
const SIGNS = { added: "+", updated: "~", removed: "−", "": "" };

/** Rows of a filter, or of a join (then each row holds one of every table). Those that changed come first. */
export function renderRows(item) {
  const { result, change } = item;
  const isJoin = item.subscription.type === "select-join";
  const marks = isJoin ? joinedMarks(change) : marksOf(item, "rows");
  const rank = { added: 0, updated: 1, "": 2 };
  const shown = [...result.rows].sort((a, b) => rank[marks.kind(a)] - rank[marks.kind(b)]).slice(0, MOST_ROWS);
  const flat = isJoin ? flatten : (row) => row;
  const names = namesOf(item, flat(shown[0] ?? marks.removed[0] ?? {}), isJoin);
  const line = (row, kind) => lineOf(flat(row), { names, kind, isNew: (name) => marks.isNew(row, name) });
  return framed("rows", names, {
    lines: [
      marks.removed.slice(0, MOST_ROWS).map((row) => line(row, "removed")),
      shown.map((row) => line(row, marks.kind(row))),
    ].flat(),
    note: amount(result.rows.length, "row"),
  });
}

/** The rows of a top-k in their order, each with its rank; an arrow says that its own change moved it. */
export function renderRanked(item) {
  const { result, previous } = item;
  const marks = marksOf(item, "rows");
  const names = namesOf(item, result.rows[0] ?? marks.removed[0] ?? {});
  const places = new Map((item.change ? (previous?.rows ?? []) : []).map((row, at) => [marks.key(row), at]));
  const lines = result.rows.slice(0, MOST_ROWS).map((row, at) => {
    const [kind, was] = [marks.kind(row), places.get(marks.key(row))];
    const moved = kind === "updated" && was !== at ? h("small", null, was > at ? "▲" : "▼") : null;
    const first = h("td", { class: "rank" }, count(at + 1), moved);
    return lineOf(row, { names, kind, first, isNew: (name) => marks.isNew(row, name) });
  });
  const gone = marks.removed.map((row) => lineOf(row, { names, kind: "removed", first: h("td", { class: "rank" }) }));
  return framed("the first rows, in order", names, {
    lines: [...lines, ...gone],
    first: h("th", { class: "rank", scope: "col" }, "#"),
    note: amount(result.rows.length, "row"),
  });
}

/** Groups by their key, in the order of the key. */
export function renderGroups(item) {
  const { result } = item;
  const { key = [], columns = [] } = item.subscription.fold;
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  const order = key.map((column) => ({ column, type: types.get(column), descending: false, nulls_first: false }));
  const marks = marksOf(item, "groups");
  const names = namesOf(item, result.groups[0] ?? marks.removed[0] ?? {});
  const sorted = [...result.groups, ...marks.removed].sort(rowComparison(order));
  const gone = new Set(marks.removed);
  const line = (row) => {
    const kind = gone.has(row) ? "removed" : marks.kind(row);
    return lineOf(row, { names, kind, keys: key, isNew: (name) => marks.isNew(row, name) });
  };
  return framed("groups", names, {
    lines: sorted.slice(0, MOST_ROWS).map(line),
    keys: key,
    note: amount(result.groups.length, "group"),
  });
}

/** What the last change did to keyed rows: the kind of each, what was removed, and whether a column is new. */
function marksOf({ change, previous, subscription }, name) {
  const { fold } = subscription;
  const key = identityOf(fold.key?.length ? fold : { key: guessKey(previous?.[name] ?? []) });
  const kinds = new Map([
    ...(change?.add ?? []).map((row) => [key(row), "added"]),
    ...(change?.update ?? []).map((row) => [key(row), "updated"]),
  ]);
  const before = new Map(change ? (previous?.[name] ?? []).map((row) => [key(row), row]) : []);
  return {
    key,
    kind: (row) => kinds.get(key(row)) ?? "",
    removed: (change?.remove ?? []).map((row) => before.get(key(row)) ?? row), // named by its key alone
    isNew(row, column) {
      const old = before.get(key(row));
      return old !== undefined && identity(old[column] ?? null) !== identity(row[column] ?? null);
    },
  };
}

/** Joined rows come and go as a whole. */
function joinedMarks(change) {
  const added = new Set((change?.add ?? []).map(identity));
  const kind = (row) => (added.has(identity(row)) ? "added" : "");
  return { kind, removed: change?.remove ?? [], isNew: () => false };
}

/** Of a server that does not say the key: the first columns that identify all rows. */
function guessKey(rows) {
  const names = Object.keys(rows[0] ?? {});
  for (let size = 1; size <= names.length; size += 1) {
    const key = names.slice(0, size);
    if (new Set(rows.map((row) => identity(key.map((name) => row[name])))).size === rows.length) return key;
  }
  return names;
}

const flatten = (row) =>
  Object.fromEntries(
    Object.entries(row).flatMap(([table, part]) =>
      Object.entries(part).map(([name, value]) => [`${table}.${name}`, value]),
    ),
  );

function namesOf({ subscription }, row, isJoin = false) {
  const { columns } = subscription.fold;
  return columns && !isJoin ? columns.map(({ name }) => name) : Object.keys(row);
}

function lineOf(row, { names, kind, first, keys = [], isNew = () => false }) {
  return h(
    "tr",
    { class: kind },
    h("td", { class: "mark" }, SIGNS[kind]),
    first,
    names.map((name) => {
      const made = cell(row[name] ?? null, kind === "updated" && isNew(name) ? "changed" : "");
      if (keys.includes(name)) made.classList.add("key");
      return made;
    }),
  );
}

function framed(label, names, { lines, note, first, keys = [] }) {
  const head = names.map((name) => h("th", { scope: "col", class: keys.includes(name) ? "key" : undefined }, name));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    lines.length
      ? h(
          "table",
          null,
          h("thead", null, h("tr", null, h("th", { class: "mark" }), first, head)),
          h("tbody", null, lines),
        )
      : null,
    h("p", { class: "faint" }, note),
  );
}

function amount(size, noun) {
  const whole = `${count(size)} ${noun}${size === 1 ? "" : "s"}`;
  return size === 0 ? `no ${noun}` : size > MOST_ROWS ? `${MOST_ROWS} of ${whole}` : whole;
}
