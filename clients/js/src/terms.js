/**
 * Arithmetic over parameters as the server computes it: `:pos - :reach`, `(:lo + :hi) / 2`.
 *
 * Numbers have the server's three kinds: an integer is a BigInt, a numeric a Rational, a double a number. A literal is an
 * integer or a numeric by its look, a parameter has the kind of its column; integer / integer truncates toward zero,
 * numerics are exact, and one double makes the operation an IEEE one.
 *
 * A term is `{value}`, `{name}` (a parameter) or `{op, left, right}`.
 */

import { Rational, rational } from "./rational.js";
import { isSign } from "./tokens.js";

const MAX_OPERATORS = 100; // of a term that is read here
const LITERAL_DIGITS = 300;
const MAX_BITS = 8192n; // of a numerator or denominator, as at the server
const OUT_OF_RANGE = "the result of the arithmetic is out of range for double precision";

/** A term has no value with these parameters; `parameter` is the one to blame. */
export class TermError extends Error {
  constructor(parameter, detail) {
    super(detail);
    this.parameter = parameter;
  }
}

// -- reading -------------------------------------------------------------------------------------------------
/** The term that the tokens are; null if they are anything else, such as a cast or a text. */
export function readTerm(tokens) {
  if (tokens.filter(({ kind }) => kind === "sign").length > MAX_OPERATORS) return null;
  const found = sum(tokens, 0);
  return found && found.at === tokens.length ? found.term : null;
}

/** The names of its parameters from left to right, as often as they stand there. */
export function parametersOf(term) {
  if (term.name !== undefined) return [term.name];
  return term.op ? [...parametersOf(term.left), ...parametersOf(term.right)] : [];
}

const sum = (tokens, at) => chain(tokens, at, "+-", product);
const product = (tokens, at) => chain(tokens, at, "*/", factor);

function chain(tokens, at, signs, part) {
  let found = part(tokens, at);
  while (found && tokens[found.at]?.kind === "sign" && signs.includes(tokens[found.at].text)) {
    const right = part(tokens, found.at + 1);
    found = right && { term: { op: tokens[found.at].text, left: found.term, right: right.term }, at: right.at };
  }
  return found;
}

function factor(tokens, at) {
  const token = tokens[at];
  if (isSign(token, "-")) {
    const found = factor(tokens, at + 1);
    return found && { term: negative(found.term), at: found.at };
  }
  if (isSign(token, "(")) {
    const found = sum(tokens, at + 1);
    return found && isSign(tokens[found.at], ")") ? { ...found, at: found.at + 1 } : null;
  }
  if (token?.kind === "parameter") return { term: { name: token.text }, at: at + 1 };
  if (token?.kind !== "number" || token.text.length > LITERAL_DIGITS) return null;
  const value = token.text.includes(".") ? rational(token.text) : BigInt(token.text);
  return { term: { value }, at: at + 1 };
}

function negative(term) {
  if (term.value === undefined) return { op: "-", left: { value: 0n }, right: term };
  const { value } = term;
  return { value: typeof value === "bigint" ? -value : new Rational(-value.top, value.bottom) };
}

// -- computing -----------------------------------------------------------------------------------------------
/**
 * Its value with these parameters, null if one is NULL; TermError if the server would refuse them. `operand` reads a
 * parameter as a number of the column's kind.
 */
export function evaluate(term, params, operand) {
  const [first] = parametersOf(term);
  let result;
  try {
    result = walk(term, params, operand);
  } catch (error) {
    if (error instanceof RangeError) throw new TermError(first, error.message);
    throw error;
  }
  if (typeof result === "number" && !Number.isFinite(result)) throw new TermError(first, OUT_OF_RANGE);
  return result;
}

/** A parameter's value; TermError if it is missing. */
export function given(params, name) {
  if (!Object.hasOwn(params, name) || params[name] === undefined) {
    throw new TermError(name, `the parameter :${name} is missing`);
  }
  return params[name];
}

/** A value as it is sent for a column of so many digits after the point, rounded to them where it must be. */
export function settled(value, digits, upward) {
  if (typeof value === "number") return value;
  const scaled = exactly(value).times(new Rational(10n ** BigInt(digits)));
  const units = upward ? scaled.ceil() : scaled.floor();
  return digits ? decimalText(units, digits) : plainInteger(units);
}

/** `units` · 10^-digits as text. */
export function decimalText(units, digits) {
  const text = String(units < 0n ? -units : units).padStart(digits + 1, "0");
  const sign = units < 0n ? "-" : "";
  return digits ? `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}` : sign + text;
}

/** A number where it is exact, else a BigInt. */
export const plainInteger = (units) => (Number.isSafeInteger(Number(units)) ? Number(units) : units);

function walk(term, params, operand) {
  if (term.value !== undefined) return term.value;
  if (term.name !== undefined) {
    const value = given(params, term.name);
    try {
      return value === null ? null : operand(value);
    } catch (error) {
      if (error instanceof RangeError) throw new TermError(term.name, error.message);
      throw error;
    }
  }
  const left = walk(term.left, params, operand);
  const right = walk(term.right, params, operand);
  return left === null || right === null ? null : apply(term.op, left, right);
}

function apply(op, left, right) {
  if (op === "/" && (typeof right === "object" ? right.top === 0n : !right)) throw new RangeError("division by zero");
  if (typeof left === "number" || typeof right === "number") return DOUBLES[op](double(left), double(right));
  const areIntegers = typeof left === "bigint" && typeof right === "bigint";
  const result = areIntegers ? INTEGERS[op](left, right) : RATIONALS[op](exactly(left), exactly(right));
  const { top, bottom } = exactly(result);
  if ((top < 0n ? -top : top) >> MAX_BITS || bottom >> MAX_BITS) {
    throw new RangeError("the result of the arithmetic has too many digits");
  }
  return result;
}

const exactly = (value) => (typeof value === "bigint" ? new Rational(value) : value);

function double(value) {
  const found = typeof value === "object" ? value.toNumber() : Number(value);
  if (typeof value !== "number" && !Number.isFinite(found)) throw new RangeError(OUT_OF_RANGE);
  return found;
}

// a quotient of BigInts truncates toward zero
const NATIVE = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b };
const [DOUBLES, INTEGERS] = [NATIVE, NATIVE];
const RATIONALS = {
  "+": (a, b) => a.plus(b),
  "-": (a, b) => a.minus(b),
  "*": (a, b) => a.times(b),
  "/": (a, b) => a.over(b),
};
