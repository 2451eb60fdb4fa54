/**
 * A query as the update monitor registers it: every end of a range is a parameter of its own.
 *
 *     x BETWEEN :pos - :reach AND :pos + :reach   →   x BETWEEN :end_1 AND :end_2
 *     x = :at                                     →   x BETWEEN :end_1 AND :end_2
 *
 * These are the generated variables of [Parametric] 7.3, and the two variables by which its figure 11 approximates an
 * equality. A parameter that is an end already, and nothing else, keeps its name; so a query of such ends is registered
 * as it is.
 */

import { NotMonitorable, ProsemError } from "./errors.js";
import { Limit, Limits } from "./held.js";
import { scaleOf } from "./scales.js";
import { TermError, evaluate, given, parametersOf, settled } from "./terms.js";

/**
 * The text to register, the ends in it, and their values for the parameters of the user.
 *
 * Invariant: the registered text with `exact(params)` has the answer of the user's text with `params`.
 */
export class Registration {
  constructor(sql, origins, consumed) {
    this.sql = sql;
    this.limits = new Limits(origins.map(({ limit }) => limit));
    this._origins = origins; // `{limit, term}`: where the value of each end comes from
    this._consumed = consumed; // parameters of the user that the registered text no longer has
  }

  /** The parameters to register; ProsemError as the server would answer if it had these of the user. */
  exact(params) {
    const found = Object.fromEntries(Object.entries(params).filter(([name]) => !this._consumed.has(name)));
    for (const origin of this._origins) {
      const [first] = parametersOf(origin.term);
      const { parameter } = origin.limit.end;
      try {
        if (parameter !== first) found[parameter] = valueOf(origin, params);
        origin.limit.constant(found);
      } catch (error) {
        if (!(error instanceof TermError) && !(error instanceof RangeError)) throw error;
        const name = error instanceof TermError ? error.parameter : first;
        const detail = Object.hasOwn(params, name) ? `:${name}: ${error.message}` : error.message;
        throw new ProsemError(422, "bad-input", detail, [{ at: `/params/${name}`, detail }]);
      }
    }
    return found;
  }
}

/** What is sent for an end: as it was given, or computed and rounded inward to what the column holds. */
function valueOf({ limit: { end, scale }, term }, params) {
  if (term.name !== undefined) return given(params, term.name);
  const found = evaluate(term, params, scale.operand);
  return found === null ? null : settled(found, scale.digits, end.isLower !== end.isOpen);
}

/** How a query over this table is registered; NotMonitorable if none of its ends can be foretold. */
export function registration({ sql, selected, comparisons, uses }, definition) {
  const types = new Map(definition.columns.map(({ name, type }) => [name, type]));
  const taken = comparisons
    .map((one) => ({ one, scale: scaleOf(types.get(one.column)) }))
    .filter(({ one, scale }) => scale && (scale.operand || one.term.name !== undefined));
  if (!taken.length) {
    const shown = comparisons.map(({ column }) => `${column} (${types.get(column) ?? "no such column"})`).join(", ");
    throw new NotMonitorable(
      `the update monitor needs a range over numbers or times, not over ${shown}; arithmetic is of numbers`,
    );
  }
  const needed = new Set([...definition.primary_key, ...taken.map(({ one }) => one.column)]);
  const missing = selected === null ? [] : [...needed].filter((name) => !selected.includes(name)).sort();
  if (missing.length) {
    throw new NotMonitorable(
      `the update monitor needs ${missing.join(", ")} among the selected columns: rows are told apart by their key ` +
        "and checked by the columns of the range",
    );
  }
  const names = freshNames(uses);
  const made = taken.map(({ one, scale }) => ({ one, scale, ends: endsOf(one, uses, names) }));
  const origins = made.flatMap(({ one, scale, ends }) =>
    ends.map((end) => ({ limit: new Limit(end, scale), term: one.term })),
  );
  const text = made
    .sort((a, b) => b.one.start - a.one.start)
    .reduce((before, { one, ends }) => before.slice(0, one.start) + textOf(one, ends) + before.slice(one.stop), sql);
  const here = new Map();
  for (const name of taken.flatMap(({ one }) => parametersOf(one.term))) here.set(name, (here.get(name) ?? 0) + 1);
  const kept = new Set(origins.map(({ limit }) => limit.end.parameter));
  const consumed = [...here].filter(([name, count]) => count === uses.get(name) && !kept.has(name));
  return new Registration(text, origins, new Set(consumed.map(([name]) => name)));
}

function* freshNames(uses) {
  for (let n = 1; ; n += 1) if (!uses.has(`end_${n}`)) yield `end_${n}`;
}

function endsOf({ column, sign, term }, uses, names) {
  const fresh = () => names.next().value;
  if (sign === "=") {
    return [true, false].map((isLower) => ({ column, parameter: fresh(), isLower, isOpen: false }));
  }
  const isOwn = term.name !== undefined && uses.get(term.name) === 1;
  const parameter = isOwn ? term.name : fresh();
  return [{ column, parameter, isLower: sign[0] === ">", isOpen: sign.length === 1 }];
}

function textOf({ sign, source }, ends) {
  const [first, second] = ends.map(({ parameter }) => `:${parameter}`);
  return sign === "=" ? `${source} BETWEEN ${first} AND ${second}` : first;
}
