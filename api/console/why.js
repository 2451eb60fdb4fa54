/** Why no other subscription was notified: one sentence of the last change, from the optimizer's decisions. */

import { client, maybe } from "./session.js";
import { count } from "./dom.js";

const described = new Map(); // by id: {region, subscriptions}

/** What the group of a subscription sends, asked once. */
async function groupOf(item) {
  const { id, params } = item.subscription;
  if (!described.has(id)) {
    const asked = { sql: item.sql, params, ...(item.notify ? { notify: item.notify } : {}) };
    described.set(id, await maybe(client.request("POST", "/v1/describe", asked)));
  }
  return described.get(id);
}

/** The sentence, or null where the server does not show its decisions to this key. */
export async function why(item) {
  const about = await groupOf(item);
  if (!about) return null;
  const region = about.messages[0].region.replaceAll("<=", "≤").replace(" AND ", " and ");
  const others = Math.max(0, about.subscriptions - 1);
  if (!item.change) return others ? `No event since this page opened was in its region: ${region}.` : null;
  const { seq } = item.subscription;
  const group = encodeURIComponent(item.subscription.group);
  const found = await maybe(client.request("GET", `/v1/optimizer/decisions?limit=200&group=${group}`));
  const decision = found?.decisions.find((one) => one.seq === seq);
  const sent = decision?.actual.messages ?? 1;
  const became = `Event ${count(seq)} became ${sent === 1 ? "one message" : `${count(sent)} messages`}`;
  const affected = decision?.estimates?.[decision.plan]?.affected;
  const reached =
    affected > 0 && about.subscriptions > 1
      ? ` (about ${count(Math.min(about.subscriptions, Math.round(affected)))} of ${count(about.subscriptions)})`
      : "";
  return `${became} to ${/[<>=]/.test(region) ? `the region ${region}` : `the ${region}`}${reached}; no other subscription was looked at.`;
}
