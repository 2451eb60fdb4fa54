/** A small chart of the last two minutes: one or two lines, the newest value in words. */

import { h, s } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [320, 120, 4, 8, 104];
const KEPT = 120;

/** `series` are [name, list of numbers or nulls]; `marks` are places in time where something was set; `note` is shown beside the values. */
export function chart(title, unit, format, series, marks = [], note = "") {
  const all = series.flatMap(([, values]) => values).filter((value) => value !== null && Number.isFinite(value));
  all.sort((a, b) => a - b);
  const most = nice(all[Math.floor(0.97 * (all.length - 1))] || 1); // a lone peak is cut, so that the rest can be read
  const x = (at, length) => LEFT + ((WIDTH - LEFT - 4) * (KEPT - length + at)) / (KEPT - 1);
  const y = (value) => BOTTOM - (BOTTOM - TOP) * Math.min(1, value / most);
  const lines = series.map(([, values], number) => s("path", { class: `line${number}`, d: path(values, x, y) }));
  const now = series.map(([name, values]) => {
    const last = values.findLast((value) => value !== null && Number.isFinite(value));
    return h(
      "span",
      null,
      name ? `${name} ` : "",
      h("b", null, last === undefined ? "–" : format(last)),
      last === undefined || !unit ? "" : ` ${unit}`,
    );
  });
  const length = series[0][1].length;
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", null, h("span", { class: "title" }, title), now, note ? h("span", null, note) : null),
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title} over the last two minutes` },
      [0, 0.5, 1].map((part) =>
        s("line", { class: "grid", x1: LEFT, x2: WIDTH - 4, y1: y(most * part), y2: y(most * part) }),
      ),
      s("text", { x: LEFT, y: TOP + 10 }, format(most)), // on the left, where what is drawn is old
      s("text", { x: LEFT, y: HEIGHT - 3 }, "2 min ago"),
      s("text", { x: WIDTH - 4, y: HEIGHT - 3, "text-anchor": "end" }, "now"),
      marks
        .filter((at) => at >= 0)
        .map((at) => s("line", { class: "set", x1: x(at, length), x2: x(at, length), y1: TOP, y2: BOTTOM })),
      lines,
    ),
  );
}

/** Gaps where nothing was measured stay gaps; a lone value is a dot. */
function path(values, x, y) {
  let text = "";
  let isDown = false;
  values.forEach((value, at) => {
    if (value === null || !Number.isFinite(value)) isDown = false;
    else {
      text += `${isDown ? "L" : "M"}${x(at, values.length).toFixed(1)} ${y(value).toFixed(1)}${isDown ? "" : "h.1"}`;
      isDown = true;
    }
  });
  return text;
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= value);
}
