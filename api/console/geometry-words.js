/** The picture of an event in words, and its regions as a list. */

import { count, h } from "./dom.js";
import { text } from "./cells.js";

export function explain(picture, panel) {
  const best = picture.type === "range-min" ? "low" : "high";
  const extreme = picture.type === "range-min" ? "minimum" : "maximum";
  const { name } = picture.x;
  const key = Object.values(picture.key).map(text).join(", ");
  const at = (point) => `(${text(point[0])}, ${text(point[1])})`;
  const affected = panel.pieces.reduce((sum, piece) => sum + piece.affected, 0);
  const mar = panel.mar_before ?? panel.mar_after;
  const verb =
    panel.after === null
      ? `is deleted from ${at(panel.before)}`
      : panel.before === null
        ? `appears at ${at(panel.after)}`
        : `goes from ${at(panel.before)} to ${at(panel.after)}`;
  const where = mar && within(name, mar);
  return [
    h(
      "p",
      null,
      h("b", null, key),
      ` ${verb}. `,
      mar
        ? `No other row ${where} is as ${best}: that is its maximum affected range. So it is the ${extreme} of exactly the ranges that hold it and stay within. `
        : `A row at the same ${name} is as ${best}, so it is the ${extreme} of no subscription, before or after. `,
      panel.pieces.length
        ? `The event makes ${panel.pieces.length === 1 ? "one region, and so one message" : `${panel.pieces.length} regions, and so ${panel.pieces.length} messages`}, for ${count(affected)} of ${count(panel.points_in_all)} subscriptions.`
        : "The event changes no answer, so no message is sent.",
    ),
    panel.pieces.length
      ? h(
          "table",
          { class: "pieces" },
          h(
            "thead",
            null,
            h(
              "tr",
              null,
              ["", "subscriptions with", `new ${extreme}`, "row", "how many"].map((title) =>
                h("th", { scope: "col" }, title),
              ),
            ),
          ),
          h(
            "tbody",
            null,
            panel.pieces.map((piece, number) =>
              h(
                "tr",
                null,
                h("td", null, h("span", { class: `swatch c${number % 8}` })),
                h(
                  "td",
                  null,
                  piece.boxes.map((box) =>
                    h("div", null, h("code", null, `${side(box.lo, "lo")} and ${side(box.hi, "hi")}`)),
                  ),
                ),
                h("td", null, piece.value === null ? "none" : text(piece.value)),
                h("td", null, piece.row ?? ""),
                h("td", { class: "number" }, count(piece.affected)),
              ),
            ),
          ),
        )
      : null,
  ];
}

function within(name, [low, high]) {
  if (low === null && high === null) return "at all";
  if (low === null) return `with ${name} below ${text(high)}`;
  return high === null ? `with ${name} above ${text(low)}` : `with ${name} between ${text(low)} and ${text(high)}`;
}

function side({ from, to, from_open: fromOpen, to_open: toOpen }, name) {
  const left = from === null ? "" : `${text(from)} ${fromOpen ? "<" : "≤"} `;
  const right = to === null ? "" : ` ${toOpen ? "<" : "≤"} ${text(to)}`;
  return left || right ? `${left}${name}${right}` : `any ${name}`;
}
