/** Values of columns on an axis. */

const isNumber = (type) => /^(integer|bigint|double precision|numeric)/.test(type);
const isTime = (type) => type === "date" || type === "timestamptz";

/** Whether values of the type can be drawn on an axis. */
export const isDrawable = (type) => isNumber(type) || isTime(type);

/** A value as a number on the axis; null has no place. */
export function position(value, type) {
  if (value === null) return null;
  return isTime(type) ? Date.parse(value) : Number(value);
}

/** The value of the type nearest to a place on the axis. */
export function valueAt(number, type) {
  if (type === "date") return new Date(number).toISOString().slice(0, 10);
  if (type === "timestamptz") return new Date(number).toISOString();
  if (type === "integer" || type === "bigint") return Math.round(number);
  const scale = /numeric\(\d+,\s*(\d+)\)/.exec(type);
  return scale ? number.toFixed(Math.min(Number(scale[1]), 6)) : Number(number.toPrecision(6));
}

/** A linear scale from a domain to pixels, with its inverse and its ticks. */
export function linear([low, high], [from, to]) {
  const span = high - low || 1;
  const scale = (number) => from + ((number - low) / span) * (to - from);
  scale.invert = (pixel) => low + ((pixel - from) / (to - from)) * span;
  scale.domain = [low, high];
  scale.range = [from, to];
  scale.ticks = (wanted = 5) => {
    const rough = span / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step)
      found.push(Number(at.toPrecision(12)));
    return found;
  };
  return scale;
}

/** The span of some numbers, a little wider. */
export function extent(numbers, margin = 0.05) {
  const known = numbers.filter((number) => number !== null && Number.isFinite(number));
  if (!known.length) return [0, 1];
  let [low, high] = [known[0], known[0]];
  for (const number of known) [low, high] = [Math.min(low, number), Math.max(high, number)];
  const room = (high - low) * margin || Math.abs(high) * margin || 1;
  return [low - room, high + room];
}

const compact = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, notation: "compact" });

/** A tick as text. */
export function label(number, type = "integer") {
  return isTime(type) ? new Date(number).toISOString().slice(0, 10) : compact.format(number);
}
