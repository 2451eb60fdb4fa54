/** Values as text, and cells of tables. */

import { encode } from "./client/index.js";
import { h } from "./dom.js";

/** A value of a table as text. */
export function text(value) {
  if (value === null || value === undefined) return "NULL";
  return typeof value === "object" ? encode(value) : String(value);
}

/** A double that was: six digits are enough. */
export const brief = (value) =>
  typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : shortened(value);

/** A number with many digits, shortened for a large figure; all of them are in the tooltip. */
export function shortened(value) {
  const full = text(value);
  const isLong = full.length > 11 && /^-?\d+\.\d+$/.test(full);
  return isLong ? String(Number(Number(full).toPrecision(8))) : full;
}

/** A cell; `mark` is a class, such as "changed". */
export const cell = (value, mark) =>
  h("td", { class: [value === null ? "null" : "", mark ?? ""].join(" ").trim() || undefined }, text(value));

/** Where a value came from: an arrow, and the value before. */
export function before(value, now) {
  const rose = Number(now) > Number(value);
  return h(
    "small",
    { class: "before" },
    h("span", { "aria-hidden": "true" }, rose ? "▲ " : "▼ "),
    h("del", null, brief(value)),
  );
}

/** The name of a table or a column as SQL has it. */
export const quoted = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
