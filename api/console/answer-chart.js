/** The chart of an answer: a number over the last minute, or bars where the answer is groups, ranked rows or items. */

import { h, s } from "./dom.js";
import { brief, text } from "./cells.js";

const SPAN_MS = 60_000;
const MOST_POINTS = 600;
const MOST_BARS = 8;
const [WIDTH, HEIGHT, TOP, BOTTOM, RIGHT] = [320, 60, 8, 54, 274];
const [BAR, LABEL, VALUE] = [15, 74, 62]; // height of a bar, width of its label and of its value

const numeric = (value) =>
  value !== null && typeof value !== "boolean" && value !== "" && Number.isFinite(Number(value));

/** What of an answer is drawn over time: `[name, number]`, or null where bars say more. */
export function measure(item) {
  const { result } = item;
  if (!result || "groups" in result || "items" in result) return null;
  if ("rows" in result) return item.subscription.fold.order ? null : ["rows", result.rows.length];
  if ("values" in result) return ["values", result.values.length];
  if ("columns" in result) {
    const found = Object.entries(result.columns).find(([, value]) => numeric(value));
    return found ? [found[0], Number(found[1])] : null;
  }
  return numeric(result.value) ? ["value", Number(result.value)] : null;
}

/** Remember the number of an answer; what is older than the chart is dropped, except for the value it starts with. */
export function remember(item, at = performance.now()) {
  const found = measure(item);
  item.history.push({ at, value: found ? found[1] : null });
  while (item.history.length > MOST_POINTS || item.history[1]?.at < at - SPAN_MS) item.history.shift();
}

/** The element, or null where there is nothing to draw. */
export function answerChart(item, now = performance.now()) {
  const { result } = item;
  if (!result) return null;
  if ("groups" in result) return groupBars(item);
  if ("items" in result)
    return bars(result.items.map(({ key, value }) => [Object.values(key).map(text).join(", "), value]));
  if ("rows" in result && item.subscription.fold.order) return rankedBars(item);
  return measure(item) ? line(item, now) : null;
}

function groupBars({ result, subscription }) {
  const key = subscription.fold.key ?? [];
  const column = result.groups[0] && Object.keys(result.groups[0]).findLast((name) => !key.includes(name));
  if (column === undefined) return null;
  const label = (group) => key.map((name) => text(group[name])).join(", ");
  const sorted = [...result.groups].sort((a, b) => (label(a) < label(b) ? -1 : 1));
  return bars(
    sorted.map((group) => [label(group), group[column]]),
    column,
  );
}

function rankedBars({ result, subscription }) {
  const { column } = subscription.fold.order[0];
  const named = result.rows[0] && Object.keys(result.rows[0]).find((name) => name !== column);
  return bars(
    result.rows.map((row, at) => [named ? text(row[named]) : `${at + 1}`, row[column]]),
    column,
  );
}

/** Horizontal bars from zero. */
function bars(pairs, column = "value") {
  const shown = pairs.filter(([, value]) => numeric(value)).slice(0, MOST_BARS);
  if (!shown.length) return null;
  const most = Math.max(...shown.map(([, value]) => Math.abs(Number(value)))) || 1;
  const room = WIDTH - LABEL - VALUE;
  const words = shown.map(([label, value]) => `${label} ${brief(value)}`).join(", ");
  return figure(
    { class: "bars", height: shown.length * (BAR + 4), label: `${column}: ${words}` },
    shown.map(([label, value], at) => {
      const y = at * (BAR + 4);
      return [
        s("text", { class: "label", x: LABEL - 8, y: y + 12, "text-anchor": "end" }, label.slice(0, 11)),
        s("rect", { x: LABEL, y, width: Math.max(1, (room * Math.abs(Number(value))) / most), height: BAR, rx: 2 }),
        s("text", { x: WIDTH, y: y + 12, "text-anchor": "end" }, brief(Number(value))),
      ];
    }),
  );
}

/** Steps: an answer holds until the next change. */
function line(item, now) {
  const points = item.history.filter(({ value }) => value !== null);
  if (!points.length) return null;
  const values = points.map(({ value }) => value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (at) => Math.max(0, RIGHT * (1 - (now - at) / SPAN_MS)).toFixed(1);
  const y = (value) =>
    (high === low ? (TOP + BOTTOM) / 2 : BOTTOM - ((BOTTOM - TOP) * (value - low)) / (high - low)).toFixed(1);
  const last = values.at(-1);
  const path = points.map(({ at, value }, number) => `${number ? `H${x(at)}V` : `M${x(at)} `}${y(value)}`).join("");
  const [name] = measure(item);
  const label = `${name} over the last minute: now ${brief(last)}, lowest ${brief(low)}, highest ${brief(high)}`;
  return figure(
    { class: "over-time", height: HEIGHT, label },
    s("path", { class: "area", d: `${path}H${RIGHT}V${HEIGHT}H${x(points[0].at)}Z` }),
    s("path", { class: "steps-line", d: `${path}H${RIGHT}` }),
    s("circle", { cx: RIGHT, cy: y(last), r: 3 }),
    high === low
      ? s("text", { x: RIGHT + 9, y: Number(y(last)) + 4 }, brief(last))
      : [s("text", { x: RIGHT + 9, y: TOP + 4 }, brief(high)), s("text", { x: RIGHT + 9, y: BOTTOM + 4 }, brief(low))],
  );
}

function figure({ class: name, height, label }, ...children) {
  return h(
    "figure",
    { class: `answer-chart ${name}` },
    s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label }, children),
  );
}
