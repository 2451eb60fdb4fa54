/** The two planes of the geometry: rows (x, y), and subscriptions (lo, hi). */

import { s } from "./dom.js";
import { extent, label, linear, position, valueAt } from "./scale.js";
import { text } from "./cells.js";

const [WIDTH, HEIGHT] = [520, 420];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, WIDTH - 14, 30, HEIGHT - 40];

function axes(xs, ys, xName, yName, types) {
  return s(
    "g",
    { class: "axes" },
    xs
      .ticks()
      .map((tick) => [
        s("line", { x1: xs(tick), x2: xs(tick), y1: TOP, y2: BOTTOM }),
        s("text", { x: xs(tick), y: BOTTOM + 16, "text-anchor": "middle" }, label(tick, types[0])),
      ]),
    ys
      .ticks()
      .map((tick) => [
        s("line", { x1: LEFT, x2: RIGHT, y1: ys(tick), y2: ys(tick) }),
        s("text", { x: LEFT - 6, y: ys(tick) + 4, "text-anchor": "end" }, label(tick, types[1])),
      ]),
    s("text", { class: "name", x: RIGHT, y: HEIGHT - 6, "text-anchor": "end" }, xName),
    s("text", { class: "name", x: LEFT, y: 16 }, yName),
  );
}

function frame(title, description, ...children) {
  return s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}. ${description}` },
    children,
  );
}

/** The rows, the event's way, its maximum affected range, and the rows that become the extreme of some subscription. */
export function drawRows(picture, panel, { move }) {
  const { x, y } = picture;
  const place = ([atX, atY]) => [position(atX, x.type), position(atY, y.type)];
  const points = panel.rows.map(place);
  const [before, after] = [panel.before && place(panel.before), panel.after && place(panel.after)];
  const all = [...points, before, after].filter(Boolean);
  const xs = linear(extent(all.map(([at]) => at)), [LEFT, RIGHT]);
  const ys = linear(extent(all.map(([, at]) => at)), [BOTTOM, TOP]);
  const clamp = (number, scale) => Math.min(Math.max(number, Math.min(...scale.range)), Math.max(...scale.range));
  const end = (value, scale, open) => clamp(value === null ? open : scale(position(value, x.type)), scale);

  const band = (mar, at, kind) =>
    mar && at
      ? s(
          "g",
          { class: `mar ${kind}` },
          s("rect", {
            x: end(mar[0], xs, LEFT),
            y: TOP,
            width: Math.max(1, end(mar[1], xs, RIGHT) - end(mar[0], xs, LEFT)),
            height: BOTTOM - TOP,
          }),
          s("line", { x1: end(mar[0], xs, LEFT), x2: end(mar[1], xs, RIGHT), y1: ys(at[1]), y2: ys(at[1]) }),
          s(
            "text",
            {
              x: (end(mar[0], xs, LEFT) + end(mar[1], xs, RIGHT)) / 2,
              y: kind === "was" ? TOP + 12 : TOP + 26,
              "text-anchor": "middle",
            },
            kind === "was" ? "Mar before" : "Mar after",
          ),
        )
      : null;
  const byKey = new Map(panel.rows.map((row, at) => [row[2].map(text).join(", "), points[at]]));
  const exposed = panel.pieces.map(({ row, value }, number) => {
    const at = byKey.get(row);
    if (!at || row === Object.values(picture.key).map(text).join(", ")) return null;
    return s(
      "g",
      null,
      s("circle", { class: `exposed c${number % 8}`, cx: xs(at[0]), cy: ys(at[1]), r: 5.5 }),
      s("text", { class: "tag", x: xs(at[0]) + 8, y: ys(at[1]) + 4 }, text(value)),
    );
  });
  const drawing = frame(
    "Rows",
    `${panel.rows.length} rows by ${x.name} and ${y.name}`,
    axes(xs, ys, x.name, y.name, [x.type, y.type]),
    band(panel.mar_before, before, "was"),
    band(panel.mar_after, after, "becomes"),
    s(
      "g",
      { class: "rows" },
      points.map(([atX, atY], at) =>
        s(
          "circle",
          { cx: xs(atX), cy: ys(atY), r: 2.6 },
          s(
            "title",
            null,
            `${panel.rows[at][2].map(text).join(", ")}: ${text(panel.rows[at][0])}, ${text(panel.rows[at][1])}`,
          ),
        ),
      ),
    ),
    exposed,
    before && after
      ? s("line", { class: "way", x1: xs(before[0]), y1: ys(before[1]), x2: xs(after[0]), y2: ys(after[1]) })
      : null,
    before ? s("circle", { class: "event was", cx: xs(before[0]), cy: ys(before[1]), r: 6 }) : null,
    after ? s("circle", { class: "event becomes", cx: xs(after[0]), cy: ys(after[1]), r: 6 }) : null,
  );
  drawing.classList.add("movable");
  drawing.addEventListener("click", (click) => {
    const box = drawing.getBoundingClientRect();
    const [px, py] = [
      ((click.clientX - box.left) / box.width) * WIDTH,
      ((click.clientY - box.top) / box.height) * HEIGHT,
    ];
    if (px >= LEFT && px <= RIGHT && py >= TOP && py <= BOTTOM)
      move([valueAt(xs.invert(px), x.type), valueAt(ys.invert(py), y.type)]);
  });
  return drawing;
}

/** The subscriptions as points, and the event's regions. There is none below the diagonal: lo ≤ hi. */
export function drawSpace(picture, panel) {
  const { type, name } = picture.x;
  const numbers = [
    ...panel.rows.map(([at]) => position(at, type)),
    ...panel.points.flatMap(([lo, hi]) => [position(lo, type), position(hi, type)]),
  ];
  const domain = extent(numbers);
  const [xs, ys] = [linear(domain, [LEFT, RIGHT]), linear(domain, [BOTTOM, TOP])];
  const at = (value, scale, open) => (value === null ? open : scale(position(value, type)));
  const regions = panel.pieces.flatMap((piece, number) =>
    piece.boxes.map(({ lo, hi }) => {
      const [x1, x2] = [at(lo.from, xs, LEFT), at(lo.to, xs, RIGHT)];
      const [y1, y2] = [at(hi.to, ys, TOP), at(hi.from, ys, BOTTOM)];
      const [width, height] = [Math.max(1.5, x2 - x1), Math.max(1.5, y2 - y1)];
      const isRoomy = width > 34 && height > 16;
      return s(
        "g",
        { class: `region c${number % 8}` },
        s(
          "rect",
          { x: x1, y: y1, width, height },
          s("title", null, `new value ${text(piece.value)}, ${piece.affected} subscriptions`),
        ),
        isRoomy
          ? s(
              "text",
              { x: x1 + width / 2, y: y1 + height / 2 + 4, "text-anchor": "middle" },
              piece.value === null ? "none" : text(piece.value),
            )
          : null,
      );
    }),
  );
  const points = panel.points.map(([lo, hi, id, piece]) =>
    s(
      "circle",
      {
        class: piece === null ? "" : `affected c${piece % 8}`,
        cx: at(lo, xs, LEFT),
        cy: at(hi, ys, TOP),
        r: piece === null ? 2.2 : 3.4,
      },
      s("title", null, `${id}: ${text(lo)} to ${text(hi)}`),
    ),
  );
  return frame(
    "Subscriptions",
    `${panel.points_in_all} points, ${panel.pieces.length} regions`,
    axes(xs, ys, `lo(${name})`, `hi(${name})`, [type, type]),
    s("polygon", { class: "below", points: `${LEFT},${BOTTOM} ${RIGHT},${BOTTOM} ${RIGHT},${TOP}` }),
    s("text", { class: "below", x: RIGHT - 10, y: BOTTOM - 10, "text-anchor": "end" }, "lo > hi: none"),
    regions,
    s("g", { class: "points" }, points),
  );
}
