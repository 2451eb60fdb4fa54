/** How often would it have fired: a backtest of the query in the form, before one subscribes. */

import { announce, count, fill, h, problem, rough } from "./dom.js";
import { client } from "./session.js";

const SINCE = "30d";
const POLL_MS = 500;

/** A button and the place of its report; `given` says what the form holds. */
export function backtester(given) {
  const report = h("div", { class: "backtest", "aria-live": "polite" });
  const button = h("button", { type: "button", class: "quiet", onclick: () => ask() }, "How often in the last 30 days?");
  let latest = 0; // an older question is not shown any more

  async function ask() {
    const mine = ++latest;
    const { sql, params, notify, per } = given();
    const asked = { sql, params, per, since: SINCE, ...(notify ? { notify } : {}) };
    try {
      let job = await client.request("POST", "/v1/backtests", asked);
      while (job.state === "queued" || job.state === "running") {
        if (mine !== latest) return cancel(job.id);
        fill(report, working(job));
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        job = await client.request("GET", `/v1/backtests/${job.id}`);
      }
      if (mine !== latest) return;
      if (job.state !== "done") throw new Error(job.error ?? job.state);
      fill(report, shown(job.result));
      announce(`${job.result.notifications} notifications`);
    } catch (error) {
      if (mine === latest) fill(report, problem(error));
    }
  }

  return { button, report };
}

/** The step at hand, with a bar of the tasks that are done of it. */
function working({ steps, progress }) {
  return h(
    "p",
    { class: "faint" },
    `${steps.at(-1) ?? "waiting"} … `,
    progress
      ? [
          h("progress", { max: progress.total, value: progress.done }),
          ` ${progress.done} of ${progress.total} tasks`,
        ]
      : null,
  );
}

const cancel = (id) => client.request("DELETE", `/v1/backtests/${id}`).catch(() => null);

function shown({ notifications, days, until, per_day: perDay, per_hour: perHour }) {
  const times = notifications === 1 ? "once" : `${count(notifications)} times`;
  return [
    h(
      "p",
      { id: "fired" },
      `It would have fired ${times} in ${rough(days)} days up to ${new Date(until).toLocaleString("en")}: `,
      h("b", null, `${rough(notifications / days)} per day`),
      ".",
    ),
    bars(
      "per day",
      perDay.map((one) => [one.day, one.notifications]),
    ),
    bars(
      "per hour of the day (UTC)",
      perHour.map((one) => [String(one.hour).padStart(2, "0"), one.notifications]),
    ),
  ];
}

function bars(title, rows) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map(([, notified]) => notified));
  return h(
    "details",
    null,
    h("summary", null, title),
    h(
      "dl",
      { class: "bars" },
      rows.map(([label, notified]) => [
        h("dt", null, label),
        h("dd", null, h("meter", { min: 0, max: most, value: notified, "aria-label": label }), ` ${count(notified)}`),
      ]),
    ),
  );
}
