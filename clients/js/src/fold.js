/**
 * Folding: the answer before and a change give the answer after.
 *
 * One class a kind of answer, chosen by the one member that names it. Each holds its entries so that a change
 * costs the size of the change (and `result` one copy of the answer).
 */

import { OutOfStep } from "./errors.js";
import { encode, identity } from "./json.js";
import { comparison, plainDecimal, rowComparison } from "./order.js";

/**
 * The result after a change. `shape` is the `fold` of the server's answer: `key` names the columns by which rows and
 * groups are told apart (joined rows need none), `type` is the column's type of a DISTINCT, whose values are sorted as
 * the database does, and rows of a top-k are sorted by `order`.
 */
export function fold(result, change, shape = {}) {
  const answer = answerOf(result, shape);
  answer.apply(change);
  return answer.result();
}

/** The answer of this result, ready for changes. */
export function answerOf(result, shape = {}) {
  if ("values" in result) return new Values(result, shape);
  if ("rows" in result) return new Rows(result, shape, "rows");
  if ("groups" in result) return new Rows(result, shape, "groups");
  if ("items" in result) return new Items(result);
  return new Whole(result);
}

/** The answer after a change that tells all of it, else null: what is known without the answer before. */
export function wholeResult(change) {
  if (!("value" in change || "columns" in change) || "key" in change) return null;
  const { previous, ...whole } = change;
  return whole;
}

/** `{value}`, `{value, row}` and `{columns}`: a change tells all of the answer. */
class Whole {
  constructor(result) {
    this._result = result;
  }

  apply(change) {
    const isWhole = ["value", "columns"].some((name) => name in change && name in this._result);
    if (!isWhole) throw new OutOfStep(`the answer is ${show(this._result)}, the change ${show(change)}`);
    const names = Object.keys(this._result);
    this._result = Object.fromEntries(names.map((name) => [name, change[name] ?? null]));
  }

  result() {
    return this._result;
  }
}

/** `{values}`: distinct values. Invariant: they are strictly increasing in the order of their type, NULL last. */
class Values {
  constructor(result, { type }) {
    this._compare = comparison(type);
    this._values = [...result.values].sort(this._compare);
  }

  apply(change) {
    for (const value of change.remove ?? []) {
      const [at, isThere] = this._find(value);
      if (!isThere) throw new OutOfStep(`the value ${show(value)} is removed, but it is not in the answer`);
      this._values.splice(at, 1);
    }
    for (const value of change.add ?? []) {
      const [at, isThere] = this._find(value);
      if (isThere) throw new OutOfStep(`the value ${show(value)} is added, but it is already in the answer`);
      this._values.splice(at, 0, value);
    }
  }

  result() {
    return { values: [...this._values] };
  }

  _find(value) {
    let [low, high] = [0, this._values.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this._compare(this._values[middle], value) < 0) low = middle + 1;
      else high = middle;
    }
    return [low, low < this._values.length && this._compare(this._values[low], value) === 0];
  }
}

/**
 * `{rows}` and `{groups}`: told apart by their key, or joined rows, told apart as a whole. Rows keep their place and a new
 * one comes last; those of a top-k are sorted for each result.
 */
class Rows {
  constructor(result, shape, name) {
    this._identity = identityOf(shape);
    this._name = name;
    this._compare = shape.order?.length ? rowComparison(shape.order) : null;
    this._rows = new Map(result[name].map((row) => [this._identity(row), row]));
    if (this._rows.size !== result[name].length) throw new OutOfStep(`two ${name} of the answer have the same key`);
  }

  apply(change) {
    for (const row of change.remove ?? []) {
      if (!this._rows.delete(this._identity(row))) {
        throw new OutOfStep(`the row ${show(row)} is removed, but it is not in the answer`);
      }
    }
    for (const [verb, mustBeThere] of [
      ["update", true],
      ["add", false],
    ]) {
      for (const row of change[verb] ?? []) {
        const name = this._identity(row);
        if (this._rows.has(name) !== mustBeThere) {
          throw new OutOfStep(`${verb} of the row ${show(row)}, which is ${mustBeThere ? "not" : "already"} there`);
        }
        this._rows.set(name, row);
      }
    }
  }

  result() {
    const rows = [...this._rows.values()];
    return { [this._name]: this._compare ? rows.sort(this._compare) : rows };
  }
}

/**
 * What tells a row from the others, as a function to text: its key, or all of it where there is none. A decimal of a view
 * may have any scale, and its scale alone is no difference.
 */
export function identityOf({ key = [], columns = [] }) {
  if (!key.length) return identity;
  const decimals = new Set(columns.filter(({ type }) => type.split("(")[0] === "numeric").map(({ name }) => name));
  const valueOf = (row, column) => {
    if (!(column in row)) throw new OutOfStep(`the row ${show(row)} has no column ${column} of the key`);
    const value = row[column];
    return decimals.has(column) && value !== null ? plainDecimal(value) : value;
  };
  return (row) => identity(key.map((column) => valueOf(row, column)));
}

/**
 * `{items}`: values told one item at a time. An item whose value is told as null is no longer listed: a row
 * that disappears and one that becomes NULL are told alike.
 */
class Items {
  constructor(result) {
    this._items = new Map(result.items.map((item) => [identity(item.key), item]));
  }

  apply(change) {
    for (const told of change.items ?? [change]) {
      if (!("key" in told)) throw new OutOfStep(`the change ${show(change)} names no item`);
      if (told.value === null) this._items.delete(identity(told.key));
      else this._items.set(identity(told.key), { key: told.key, value: told.value });
    }
  }

  result() {
    return { items: [...this._items.values()] };
  }
}

function show(value) {
  const text = encode(value);
  return text.length <= 120 ? text : `${text.slice(0, 117)}...`;
}
