/** How PostgreSQL orders the values of a column, as JSON carries them; NULL comes last. */

/** The comparison of a column's values; `type` is the one of its definition, such as `numeric(12,2)`. */
export function comparison(type) {
  const compare = ORDERS[(type ?? "").split("(")[0]] ?? natural;
  return (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return compare(a, b);
  };
}

/** The comparison of rows by several columns: `{column, descending, nulls_first, type}` in their precedence. */
export function rowComparison(order) {
  const parts = order.map((one) => ({ ...one, compare: comparison(one.type) }));
  return (a, b) => {
    for (const { column, descending, nulls_first, compare } of parts) {
      const [left, right] = [a[column], b[column]];
      const isNull = left === null || right === null;
      const found = compare(left, right) * ((isNull ? nulls_first : descending) ? -1 : 1);
      if (found) return found;
    }
    return 0;
  };
}

function natural(a, b) {
  if (typeof a === "string" && typeof b === "string") return byCodePoint(a, b);
  return (a > b) - (a < b); // numbers and BigInts compare with each other exactly
}

/** JavaScript compares UTF-16 units, where a surrogate comes before U+E000 to U+FFFF; PostgreSQL does not. */
function byCodePoint(a, b) {
  const end = Math.min(a.length, b.length);
  let at = 0;
  while (at < end && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  if (at === end) return Math.sign(a.length - b.length);
  const lift = (unit) => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit);
  return Math.sign(lift(a.charCodeAt(at)) - lift(b.charCodeAt(at)));
}

/** Two decimals of any size, digit by digit. */
function byDecimal(a, b) {
  const [left, right] = [decimal(a), decimal(b)];
  if (left.negative !== right.negative) return left.negative ? -1 : 1;
  const sign = left.negative ? -1 : 1;
  if (left.whole.length !== right.whole.length) return sign * Math.sign(left.whole.length - right.whole.length);
  const width = Math.max(left.fraction.length, right.fraction.length);
  const [x, y] = [left, right].map((part) => part.whole + part.fraction.padEnd(width, "0"));
  return sign * ((x > y) - (x < y));
}

function decimal(value) {
  const [, sign, whole, fraction = ""] = /^(-?)0*(\d*)\.?(\d*)$/.exec(String(value)) ?? [null, "", String(value)];
  return { negative: sign === "-" && /[1-9]/.test(whole + fraction), whole, fraction };
}

/** A decimal without the zeros that say only its scale: 1.00, 1.0 and 1 are one value. */
export function plainDecimal(value) {
  const { negative, whole, fraction } = decimal(value);
  const rest = fraction.replace(/0+$/, "");
  return `${negative ? "-" : ""}${whole || "0"}${rest && "."}${rest}`;
}

/** A Date has milliseconds, a timestamptz microseconds: the fraction is compared by itself. */
function byMoment(a, b) {
  const [left, right] = [moment(a), moment(b)];
  return left[0] - right[0] || (left[1] > right[1]) - (left[1] < right[1]);
}

function moment(text) {
  const fraction = /\.(\d+)/.exec(text)?.[1] ?? "";
  return [Date.parse(text.replace(/\.\d+/, "")), fraction.padEnd(6, "0")];
}

function byBytes(a, b) {
  const [left, right] = [atob(a), atob(b)]; // one unit a byte
  return (left > right) - (left < right);
}

const ORDERS = { numeric: byDecimal, timestamptz: byMoment, bytea: byBytes };
