/** Exact fractions of BigInts, for arithmetic over decimals. Invariant: the denominator is positive. */

const DECIMAL = /^([+-]?)(\d*)(?:\.(\d*))?(?:e([+-]?\d+))?$/i;
const MAX_DIGITS = 10_000; // as at the server
const SIGNIFICANT = 800; // more digits than decide how a double is rounded

export class Rational {
  constructor(top, bottom = 1n) {
    this.top = bottom < 0n ? -top : top;
    this.bottom = bottom < 0n ? -bottom : bottom;
  }

  plus(other) {
    return reduced(this.top * other.bottom + other.top * this.bottom, this.bottom * other.bottom);
  }

  minus(other) {
    return this.plus(new Rational(-other.top, other.bottom));
  }

  times(other) {
    return reduced(this.top * other.top, this.bottom * other.bottom);
  }

  over(other) {
    return reduced(this.top * other.bottom, this.bottom * other.top);
  }

  floor() {
    const whole = this.top / this.bottom;
    return whole * this.bottom > this.top ? whole - 1n : whole;
  }

  ceil() {
    return -new Rational(-this.top, this.bottom).floor();
  }

  /** The nearest double. */
  toNumber() {
    const scaled = this.top * 10n ** BigInt(SIGNIFICANT);
    const isExact = scaled % this.bottom === 0n;
    return Number(`${scaled / this.bottom}${isExact ? "" : "1"}e-${SIGNIFICANT + (isExact ? 0 : 1)}`);
  }
}

/** The number that a decimal text is, or null. */
export function rational(text) {
  const [, sign, whole, fraction = "", exponent = "0"] = DECIMAL.exec(text.trim()) ?? [];
  if (whole === undefined || whole + fraction === "") return null;
  const shift = Number(exponent) - fraction.length;
  if (Math.abs(shift) > MAX_DIGITS || text.length > MAX_DIGITS) {
    throw new RangeError("the number has too many digits; 10,000 are supported");
  }
  const digits = BigInt(`${whole}${fraction}`) * (sign === "-" ? -1n : 1n);
  return shift < 0 ? reduced(digits, 10n ** BigInt(-shift)) : new Rational(digits * 10n ** BigInt(shift));
}

/** The number that a finite double is, exactly. */
export function ofDouble(number) {
  let bottom = 1n;
  let top = number;
  while (!Number.isInteger(top)) {
    top *= 2;
    bottom *= 2n;
  }
  return new Rational(BigInt(top), bottom);
}

function reduced(top, bottom) {
  let [a, b] = [top < 0n ? -top : top, bottom < 0n ? -bottom : bottom];
  while (b) [a, b] = [b, a % b];
  return new Rational(top / (a || 1n), bottom / (a || 1n));
}
