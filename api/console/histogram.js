/** An equi-depth histogram as it is read: bars of equal width, and the values that fill whole buckets in words. */

import { h, rough, s } from "./dom.js";

const [WIDTH, HEIGHT, TOP, BOTTOM] = [320, 96, 6, 78];
const BARS = 40;

/** `bounds` part the values into runs of equal size; null where the type has no order. */
export function histogram(title, bounds, hotKeys, note) {
  const numbers = bounds?.map(asNumber);
  const isDrawn = numbers?.every(Number.isFinite);
  return h(
    "figure",
    { class: "histogram" },
    h("figcaption", null, h("span", { class: "title" }, title), h("span", null, note)),
    isDrawn ? drawn(title, bounds, shares(numbers)) : bounds ? h("p", { class: "faint" }, ends(bounds)) : null,
    hotKeys.length ? frequent(hotKeys) : null,
  );
}

/** The share of the values in each of so many intervals of equal width; those of a run are taken to lie evenly in it. */
export function shares(bounds, bars = BARS) {
  const found = new Array(bars).fill(0);
  const [first, last] = [bounds[0], bounds.at(-1)];
  const each = 1 / (bounds.length - 1);
  const place = (value) => (last > first ? ((value - first) / (last - first)) * bars : 0);
  for (let at = 1; at < bounds.length; at++) {
    const [low, high] = [place(bounds[at - 1]), place(bounds[at])];
    if (high <= low) {
      found[Math.min(bars - 1, Math.floor(low))] += each;
      continue;
    }
    for (let bar = Math.floor(low); bar < Math.min(bars, Math.ceil(high)); bar++) {
      const overlap = Math.min(high, bar + 1) - Math.max(low, bar);
      found[bar] += (each * overlap) / (high - low);
    }
  }
  return found;
}

function drawn(title, bounds, found) {
  const most = Math.max(...found);
  const width = WIDTH / found.length;
  const bar = (share, at) => {
    const height = ((BOTTOM - TOP) * share) / most;
    return s("rect", { x: at * width, y: BOTTOM - height, width: width - 1, height });
  };
  return s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}: ${ends(bounds)}` },
    found.map(bar),
    s("text", { x: 0, y: HEIGHT - 4 }, String(bounds[0])),
    s("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, String(bounds.at(-1))),
  );
}

function frequent(hotKeys) {
  return h(
    "p",
    { class: "hot-keys" },
    "hot: ",
    hotKeys
      .slice(0, 5)
      .map(({ value, share }, at) => [at ? ", " : "", h("code", null, String(value)), ` ≥ ${rough(100 * share)} %`]),
  );
}

const ends = (bounds) => `from ${bounds[0]} to ${bounds.at(-1)}, half of them up to ${bounds[bounds.length >> 1]}`;

/** Numbers, numerics (texts), booleans and moments; NaN for what has no distances. */
function asNumber(value) {
  if (typeof value !== "string") return Number(value);
  const number = value.trim() === "" ? NaN : Number(value);
  return Number.isFinite(number) ? number : /^\d{4}-\d\d-\d\d/.test(value) ? Date.parse(value) : NaN;
}
