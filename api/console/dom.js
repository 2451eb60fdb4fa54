/** Elements from code. Text is always set as text, so nothing that came from a table is ever read as HTML. */

const SVG = "http://www.w3.org/2000/svg";

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** An HTML element. */
export const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);

/** An SVG element. */
export const s = (tag, attributes, ...children) => make(document.createElementNS(SVG, tag), attributes, children);

/** Put these children in the place of what was there. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** A count, with separators. */
export const count = (value) => whole.format(value);

/** A measured number, three digits. */
export const rough = (value) => (Number.isFinite(value) ? short.format(value) : "–");

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) [value, at] = [value / 1000, at + 1];
  return `${rough(value)} ${units[at]}`;
}

/** Announce something to readers of the screen. */
export function announce(text) {
  document.getElementById("announce").textContent = text;
}

/** A field with its label. */
export function field(label, control, note) {
  return h("label", { class: "field" }, h("span", null, label), control, note ? h("small", null, note) : null);
}

/** A table of rows under the cells of its head. */
export function tableOf(titles, rows, attributes) {
  return h("table", attributes, h("thead", null, h("tr", null, titles)), h("tbody", null, rows));
}

/** What an error says, with the marked line of a query if there is one. */
export function problem(error) {
  const where = error.errors?.[0]?.at;
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("p", null, error.detail ?? error.message),
    where ? h("p", { class: "faint" }, `at ${where}`) : null,
    error.highlight ? h("pre", null, error.highlight) : null,
  );
}

/** Call at most once in a while, with the last arguments. */
export function later(ms, action) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), ms);
  };
}
