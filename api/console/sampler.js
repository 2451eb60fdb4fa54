/** Once a second: what the server's counters have gained. All charts and the strip at the top are made from it. */

import { client, emit, latencies, maybe } from "./session.js";

const KEPT = 120;
const PERIOD_MS = 1000;
export const samples = [];

/** The metrics of a Prometheus text: sums over all labels, and the parts of those with labels. */
export function readMetrics(text) {
  const found = new Map();
  const parts = [];
  for (const line of text.split("\n")) {
    if (!line || line[0] === "#") continue;
    const [, name, labels = "", value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (name === undefined) continue;
    found.set(name, (found.get(name) ?? 0) + Number(value));
    if (labels) parts.push({ name, labels: readLabels(labels), value: Number(value) });
  }
  return { get: (name) => found.get(name) ?? 0, has: (name) => found.has(name), parts };
}

function readLabels(text) {
  const found = {};
  for (const [, name, value] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    found[name] = value.replace(/\\(.)/g, (_, char) => (char === "n" ? "\n" : char));
  }
  return found;
}

/** What happened between two readings. */
export function difference(before, after, seconds) {
  const gained = (name) => after.metrics.get(name) - before.metrics.get(name);
  const rate = (name) => (after.metrics.has(name) ? Math.max(0, gained(name)) / seconds : null);
  const events = after.metrics.has("prosem_events_total") ? gained("prosem_events_total") : gained("prosem_seq");
  const commits = gained("prosem_commits_total");
  const messages = gained("prosem_outbox_messages_total");
  return {
    events: events / seconds,
    changes: rate("prosem_changes_total"),
    commit: commits > 0 ? (1000 * gained("prosem_commit_seconds_total")) / commits : null,
    stress: events > 0 ? messages / events : null,
    stressBytes: events > 0 ? (after.out - before.out) / events : null,
    bandwidth: (after.bytes - before.bytes) / seconds,
    cpu: (100 * gained("prosem_process_cpu_seconds_total")) / seconds,
  };
}

/** What is seen without the server's metrics (by a key that is not the operator's, or through a broker). */
function ofStatus(status) {
  const rows = Object.values(status.tables).reduce((sum, count) => sum + Number(count ?? 0), 0);
  const found = new Map([
    ["prosem_seq", Number(status.seq)],
    ["prosem_rows", rows],
    ["prosem_subscriptions", status.subscriptions.total],
    ["prosem_attached", status.subscriptions.attached ?? 0],
    ["prosem_backlog", status.backlog],
  ]);
  return { get: (name) => found.get(name) ?? 0, has: (name) => found.has(name), parts: [] };
}

let last = null;

async function sample() {
  const [text, network] = await Promise.all([
    maybe(client.request("GET", "/metrics")),
    maybe(client.request("GET", "/v1/network")),
  ]);
  let metrics = text === null ? null : readMetrics(text);
  if (!metrics?.has("prosem_process_peak_memory_bytes") || !metrics.has("prosem_commits_total"))
    metrics = ofStatus(await client.request("GET", "/v1/status"));
  const bytes = (network?.links ?? []).reduce((sum, link) => sum + Number(link.bytes ?? 0), 0);
  const out = (network?.links ?? []).reduce(
    (sum, { from, bytes = 0 }) => sum + (from === "server" ? Number(bytes) : 0),
    0,
  );
  const now = { at: performance.now(), metrics, bytes, out, network };
  if (last) {
    const made = difference(last, now, (now.at - last.at) / 1000);
    const seen = latencies.splice(0).sort((a, b) => a - b);
    made.latency = seen.length ? seen[seen.length >> 1] : null;
    samples.push(made);
    if (samples.length > KEPT) samples.shift();
  }
  last = now;
  emit("sample", { ...now, gained: samples.at(-1) ?? null });
}

/** Sample for as long as the page is seen. */
export async function run() {
  for (;;) {
    if (document.visibilityState === "visible") {
      try {
        await sample();
        emit("reachable", true);
      } catch (error) {
        last = null;
        if (error.status === 401) emit("refused");
        emit("reachable", error.status === 401);
      }
    }
    await new Promise((done) => setTimeout(done, PERIOD_MS));
  }
}

export const latest = () => last;
