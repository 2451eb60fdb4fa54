/**
 * A column's type as a line: where its values and the constants they are compared with lie.
 *
 * Invariant: for a row's value `v` and a parameter `p`, `place(v) <= constant(p)` exactly when the server finds `v <= p`.
 * Places are numbers and BigInts, which JavaScript compares exactly. A parameter the server would refuse is a RangeError.
 * `float(place)` is about where that is, and `beyond(float, upward)` a parameter there, or the next one outward that the
 * type can hold. Of numbers, `operand` reads a parameter within arithmetic, and values have `digits` after the point.
 */

import { Rational, ofDouble, rational } from "./rational.js";
import { decimalText, plainInteger } from "./terms.js";

const LARGEST = 2n ** 63n;
const DAY_MS = 86_400_000;
const EPOCH_DAY = 719_163; // of 1970-01-01, when 0001-01-01 is 1
const LAST_DAY = 3_652_059; // of 9999-12-31
const NUMERIC = /^numeric\(\s*\d+\s*,\s*(\d+)\s*\)$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
const MOMENT =
  /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?(Z|[+-]\d{2}(?::?\d{2})?)?)?$/;

/** The scale of a type; null for one whose values cannot be foretold (text, boolean, bytea, jsonb). */
export function scaleOf(type = "") {
  const digits = NUMERIC.exec(type)?.[1];
  if (digits !== undefined) return numericScale(Number(digits));
  return SCALES[type] ?? null;
}

function wrong(expected, value) {
  const shown = typeof value === "bigint" ? `${value}` : (JSON.stringify(value) ?? String(value));
  return new RangeError(`expected ${expected}, got ${shown.slice(0, 60)}`);
}

// -- numbers -------------------------------------------------------------------------------------------------
function finite(value) {
  if (typeof value === "bigint" || Number.isFinite(value)) return value;
  throw wrong("a number", value);
}

/** The number as JSON has it: 5 is an integer, 0.5 and 1e21 are decimals. */
function integerOperand(value) {
  const text = String(finite(value));
  return /^-?\d+$/.test(text) ? BigInt(text) : rational(text);
}

function exact(value) {
  if (typeof value !== "string") return rational(String(finite(value)));
  const found = rational(value);
  if (found === null) throw wrong("a number", value);
  return found;
}

const rounded = (place, upward) => (upward ? Math.ceil(place) : Math.floor(place));
const clamped = (value, least, most) => (value < least ? least : value > most ? most : value);

/** Places are twice the units of the last digit: odd ones lie between two values, where no value is. */
function numericScale(digits) {
  const unit = 10n ** BigInt(digits);
  const constant = (value) => {
    const scaled = exact(value).times(new Rational(unit));
    const below = scaled.floor();
    return 2n * below + (scaled.bottom === 1n ? 0n : 1n);
  };
  return {
    digits,
    place: constant,
    constant,
    operand: exact,
    float: (place) => new Rational(place, 2n * unit).toNumber(),
    beyond: (place, upward) => {
      const scaled = ofDouble(place).times(new Rational(unit));
      return decimalText(upward ? scaled.ceil() : scaled.floor(), digits);
    },
  };
}

const WHOLE = {
  digits: 0,
  place: (value) => value,
  constant: finite,
  operand: integerOperand,
  float: Number,
  beyond: (place, upward) => plainInteger(clamped(BigInt(rounded(place, upward)), -LARGEST, LARGEST - 1n)),
};

const DOUBLE = {
  digits: 0,
  place: Number,
  constant: (value) => Number(finite(value)),
  operand: (value) => {
    const found = Number(finite(value));
    if (!Number.isFinite(found)) throw new RangeError("the number is out of range for double precision");
    return found;
  },
  float: Number,
  beyond: (place) => place,
};

// -- times ---------------------------------------------------------------------------------------------------
const sent = (value) => (value instanceof Date ? value.toJSON() : value);

function day(given) {
  const value = sent(given);
  const ms = typeof value === "string" && DAY.test(value) ? Date.parse(`${value}T00:00:00Z`) : NaN;
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== value || value < "0001") {
    throw wrong("a date like 2024-12-31", value);
  }
  return EPOCH_DAY + ms / DAY_MS;
}

/** Microseconds since 1970, of the usual forms of ISO 8601. */
function moment(given) {
  const value = sent(given);
  const found = typeof value === "string" ? MOMENT.exec(value) : null;
  if (!found) throw wrong("a moment like 2024-12-31T23:59:59.5Z", value);
  const [, date, hours = "0", minutes = "0", seconds = "0", fraction = "", zone = "Z"] = found;
  const [, sign, zoneHours, zoneMinutes = "0"] = /^([+-])(\d{2}):?(\d{2})?$/.exec(zone) ?? [null, "+", "0"];
  const isTime = hours < 24 && minutes < 60 && seconds < 60 && zoneHours < 24 && zoneMinutes < 60;
  if (!isTime) throw wrong("a moment like 2024-12-31T23:59:59.5Z", value);
  const east = (60 * zoneHours + Number(zoneMinutes)) * (sign === "-" ? -1 : 1);
  const minute = (day(date) - EPOCH_DAY) * 1440 + 60 * hours + Number(minutes) - east;
  const micros = fraction.slice(0, 6).padEnd(6, "0");
  return BigInt(minute * 60 + Number(seconds)) * 1_000_000n + BigInt(micros);
}

const [FIRST, LAST] = [moment("0001-01-01"), moment("9999-12-31T23:59:59.999999")];

function momentText(micros) {
  const rest = ((micros % 1_000_000n) + 1_000_000n) % 1_000_000n;
  const text = new Date(Number((micros - rest) / 1000n)).toISOString().slice(0, 19);
  return `${text}${rest ? `.${String(rest).padStart(6, "0")}` : ""}+00:00`;
}

const SCALES = {
  integer: WHOLE,
  bigint: WHOLE,
  "double precision": DOUBLE,
  date: {
    place: day,
    constant: day,
    float: Number,
    beyond: (place, upward) => {
      const ordinal = clamped(rounded(place, upward), 1, LAST_DAY);
      return new Date((ordinal - EPOCH_DAY) * DAY_MS).toISOString().slice(0, 10);
    },
  },
  timestamptz: {
    place: moment,
    constant: moment,
    float: Number,
    beyond: (place, upward) => momentText(clamped(BigInt(rounded(place, upward)), FIRST, LAST)),
  },
};
