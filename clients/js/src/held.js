/**
 * The rows of a wider range, of which the exact range shows some.
 *
 * Rows are folded as they are told; `show` moves the exact range over them. A row's place in each column stands in a
 * sorted list, so a moved end looks only at the rows it has passed, instead of all rows for every assignment.
 */

import { OutOfStep } from "./errors.js";
import { encode, identity } from "./json.js";

/** An end of the range, `{column, parameter, isLower, isOpen}` as it is registered, with the scale of its column. */
export class Limit {
  constructor(end, scale) {
    this.end = end;
    this.scale = scale;
  }

  /** Where the parameters put the end, null for NULL; RangeError if it has no place in the column. */
  constant(params) {
    const value = params[this.end.parameter] ?? null;
    return value === null ? null : this.scale.constant(value);
  }

  /** Whether a value at this place satisfies the end; a NULL on either side never does. */
  admits(place, constant) {
    if (place === null || constant === null) return false;
    if (place < constant) return !this.end.isLower;
    return place > constant ? this.end.isLower : !this.end.isOpen;
  }

  /** Whether the end at `wide` lets through all that the end at `exact` does. */
  reaches(wide, exact) {
    if (exact === null || wide === null) return exact === null;
    return this.end.isLower ? wide <= exact : wide >= exact;
  }
}

/** All ends of a query that are checked here. */
export class Limits {
  constructor(limits) {
    this.all = limits;
    this.names = new Set(limits.map(({ end }) => end.parameter));
  }

  /** Where the parameters put the ends. */
  constants(params) {
    return this.all.map((limit) => limit.constant(params));
  }

  /** Where a row lies in the column of each end. */
  places(row) {
    return this.all.map(({ end, scale }) => (row[end.column] === null ? null : scale.place(row[end.column])));
  }

  /** Whether a row at these places is in the range. */
  admit(places, constants) {
    return this.all.every((limit, at) => limit.admits(places[at], constants[at]));
  }

  /** Whether the wide range holds the exact one. */
  reach(wide, exact) {
    return exact.includes(null) || this.all.every((limit, at) => limit.reaches(wide[at], exact[at]));
  }
}

/**
 * The rows of the wider range by identity, those shown, and how what is shown differs from what was told.
 *
 * Invariant: `_shown` has exactly the rows that the ends at `_constants` admit, and `_told` what the user last saw of
 * every row touched since.
 */
export class HeldRows {
  constructor(limits, { key, identityOf, rows, constants }) {
    this._limits = limits;
    this._key = key;
    this._identityOf = identityOf;
    this._constants = constants;
    this._rows = new Map(); // by identity: {row, places, number}
    this._shown = new Map();
    this._told = new Map();
    this._sorted = limits.all.map(() => []); // of each end: [place, number, identity]
    this._numbers = 0;
    for (const row of rows) this._add(identityOf(row), row);
    this._told.clear();
  }

  /** Fold a change of the wider answer. */
  apply(change) {
    for (const row of change.remove ?? []) this._drop(this._identityOf(row), row);
    for (const row of change.update ?? []) {
      const name = this._identityOf(row);
      this._drop(name, row);
      this._add(name, row);
    }
    for (const row of change.add ?? []) {
      const name = this._identityOf(row);
      if (this._rows.has(name)) throw new OutOfStep(`the row ${encode(row)} is added, but it is already in the answer`);
      this._add(name, row);
    }
  }

  /** Move the exact range. */
  show(constants) {
    const before = this._constants;
    this._constants = constants;
    const isAll = before.includes(null) || constants.includes(null);
    const passed = new Set(isAll ? this._rows.keys() : constants.flatMap((to, at) => this._between(at, before[at], to)));
    for (const name of passed) {
      const { row, places } = this._rows.get(name);
      this._setShown(name, this._limits.admit(places, constants) ? row : null);
    }
  }

  /** What differs from what was last told, as a change; null if nothing does. */
  take() {
    const change = { add: [], remove: [], update: [] };
    for (const [name, before] of this._told) {
      const after = this._shown.get(name) ?? null;
      if (before === null && after !== null) change.add.push(after);
      else if (before !== null && after === null) {
        change.remove.push(Object.fromEntries(this._key.map((column) => [column, before[column]])));
      } else if (identity(before) !== identity(after)) change.update.push(after);
    }
    this._told.clear();
    return change.add.length || change.remove.length || change.update.length ? change : null;
  }

  /** The exact answer. */
  result() {
    return { rows: [...this._shown.values()] };
  }

  _add(name, row) {
    this._numbers += 1;
    const [places, number] = [this._limits.places(row), this._numbers];
    this._rows.set(name, { row, places, number });
    places.forEach((place, at) => {
      if (place !== null) this._sorted[at].splice(position(this._sorted[at], place, number), 0, [place, number, name]);
    });
    if (this._limits.admit(places, this._constants)) this._setShown(name, row);
  }

  _drop(name, row) {
    const held = this._rows.get(name);
    if (!held) throw new OutOfStep(`the row ${encode(row)} is removed or updated, but it is not in the answer`);
    this._rows.delete(name);
    held.places.forEach((place, at) => {
      if (place !== null) this._sorted[at].splice(position(this._sorted[at], place, held.number), 1);
    });
    this._setShown(name, null);
  }

  _setShown(name, row) {
    const before = this._shown.get(name) ?? null;
    if (before === row) return;
    if (!this._told.has(name)) this._told.set(name, before);
    if (row === null) this._shown.delete(name);
    else this._shown.set(name, row);
  }

  /** The rows from one place of a column to another, both included. */
  _between(at, one, other) {
    const [low, high] = one < other ? [one, other] : [other, one];
    const places = this._sorted[at];
    return places.slice(position(places, low, 0), position(places, high, Infinity)).map(([, , name]) => name);
  }
}

/** Where an entry stands, or would stand, in a sorted list. */
function position(places, place, number) {
  let [low, high] = [0, places.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const [there, its] = places[middle];
    if (there < place || (!(there > place) && its < number)) low = middle + 1;
    else high = middle;
  }
  return low;
}
