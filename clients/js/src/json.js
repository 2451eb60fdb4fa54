/**
 * JSON without lost digits.
 *
 * A `bigint` column travels as a JSON number of up to 64 bits, and a JavaScript number holds 53. So a whole
 * number that a number would round is read as a BigInt, every other one as a number; a BigInt is written as
 * digits. `numeric` travels as text both ways and stays text. Doubles are exact in either notation.
 *
 * Invariant: encode(parse(text)) has the values of text, digit by digit, for whole numbers and strings.
 */

// A string that no other text can hold by chance stands for a BigInt inside JSON.parse and JSON.stringify.
const MARK = `bigint-${Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("")}:`;
const MAYBE_LONG = /\d{16}/;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

/** The value of a JSON text. Texts without a run of sixteen digits take the engine's own way at full speed. */
export function parse(text) {
  if (!MAYBE_LONG.test(text)) return JSON.parse(text);
  let found = false;
  const marked = text.replace(TOKEN, (token) => {
    if (token[0] === '"' || !/^-?\d+$/.test(token) || Number.isSafeInteger(Number(token))) return token;
    found = true;
    return `"${MARK}${token}"`;
  });
  if (!found) return JSON.parse(text);
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/** JSON text: BigInt as digits, Date in ISO 8601, bytes in base64. NaN and infinities are refused here. */
export function encode(value) {
  let found = false;
  const text = JSON.stringify(value, function (name, given) {
    const raw = this[name];
    if (raw instanceof Uint8Array) return base64(raw);
    if (typeof given === "bigint") {
      found = true;
      return `${MARK}${given}`;
    }
    if (typeof given === "number" && !Number.isFinite(given)) {
      throw new TypeError(`${given} has no form in JSON; send null, or leave it out`);
    }
    return given;
  });
  return found ? text.replace(MARKED, "$1") : text;
}

/** The same text for equal values, whatever the order of their members: what tells two rows apart. */
export function identity(value) {
  if (Array.isArray(value)) return `[${value.map(identity).join()}]`;
  if (value === null || typeof value !== "object") return encode(value) ?? "null";
  return `{${Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${identity(value[name])}`)
    .join()}}`;
}

function base64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
