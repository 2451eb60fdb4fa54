/**
 * A live page of the rows of a table or a view: the first ones by its key.
 *
 * It is a top-k subscription, so a page costs what it shows and not what the table holds.
 */

import { fill, h, problem } from "./dom.js";
import { client } from "./session.js";
import { quoted } from "./cells.js";
import { renderRanked } from "./result-tables.js";

const SIZES = [25, 100, 400, 1000]; // the largest is the most that LIMIT takes

/**
 * `{element, ready, close}`: `ready` gives its subscription once there is one, and `close` is done when the server has it
 * no more.
 */
export function liveRows(relation) {
  const body = h("div", { class: "body" });
  const more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => grow() }, "More rows");
  const element = h("div", { class: "live-rows" }, body, more);
  let subscription = null;
  let size = 0;
  let changing = Promise.resolve(); // one change of the subscription at a time

  const change = (action) => (changing = changing.then(action).catch((error) => void fill(body, problem(error))));
  const stop = () => subscription?.delete().catch(() => {}); // it ends with the page in any case
  const [name, key] = [quoted(relation.name), quoted(relation.primary_key[0])];
  const columns = relation.columns.map((column) => quoted(column.name)).join(", ");
  const query = () => `SELECT ${columns} FROM ${name} ORDER BY ${key} LIMIT ${SIZES[size]}`;

  async function start() {
    const made = await client.subscribe(query(), {}, { durable: false });
    await stop();
    subscription = made;
    follow(made);
  }

  async function follow(made) {
    const item = { subscription: made, result: made.result, previous: null, change: null };
    draw(item);
    try {
      for await (const { result, change: news } of made) {
        Object.assign(item, { previous: item.result, result, change: news });
        draw(item);
      }
    } catch (error) {
      if (made === subscription) fill(body, problem(error));
    }
  }

  function draw(item) {
    if (item.subscription !== subscription && subscription !== null) return;
    fill(body, renderRanked(item));
    more.hidden = item.result.rows.length < SIZES[size] || size === SIZES.length - 1;
  }

  function grow() {
    size += 1;
    change(start);
  }

  change(start);
  return {
    element,
    ready: () => changing.then(() => subscription),
    close: () =>
      change(async () => {
        await stop();
        subscription = null;
      }),
  };
}
