/** What all parts of the console share: the client, the subscriptions that are watched, and the listeners to them. */

import { Client } from "./client/index.js";
import { remember } from "./answer-chart.js";

const listeners = new Map();

/** Listen to an event: "state", "watched", "updated", "tables", "sample", "reachable", "refused", "market", "theme". Returns a function that ends it. */
export function on(name, action) {
  if (!listeners.has(name)) listeners.set(name, new Set());
  listeners.get(name).add(action);
  return () => listeners.get(name).delete(action);
}

export function emit(name, value) {
  for (const action of listeners.get(name) ?? []) {
    try {
      action(value);
    } catch (error) {
      reportError(error); // one part's fault is not another's
    }
  }
}

const KEY = "prosem-key"; // kept as long as the tab is open, and nowhere else
export const apiKey = sessionStorage.getItem(KEY) ?? "";
export const client = new Client(location.origin, { apiKey, followRedirects: false, onState: (state) => emit("state", state) });

/** Use another key from now on: everything is asked anew with it. */
export function useKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
  location.reload();
}

/** The subscriptions that are shown, newest first. */
export const watched = [];

const LOG = 30;
const sent = new Map(); // seqs of events published here, with the time they left
const seen = new Map(); // seqs of changes, with the time they came: it may be before the answer to the publisher
const KEPT = 5_000;
export const latencies = []; // ms from publishing an event here to its change being seen here

/** Publish, and remember when, so that the latency of its changes is known. */
export async function publish(table, events, { by } = {}) {
  const start = performance.now();
  const answer = await (by ? by.publish(table, events) : client.publish(table, events));
  for (let seq = answer.first_seq; seq <= answer.last_seq; seq += 1) {
    keep(sent, seq, start);
    if (seen.has(seq)) latencies.push(seen.get(seq) - start);
  }
  return answer;
}

function keep(times, seq, time) {
  times.set(seq, time);
  if (times.size > KEPT) times.delete(times.keys().next().value);
}

/** Subscribe, and show it. */
export async function watch(sql, params, options = {}) {
  const subscription = await client.subscribe(sql, params, { durable: false, ...options });
  const { notify, per = "event", durable = false, title } = options;
  return show(subscription, { sql, notify, per, durable, title });
}

/** Show a subscription that exists. */
export async function watchExisting(about) {
  const known = watched.find((item) => item.subscription.id === about.id);
  if (known) return known;
  const subscription = await client.attach(about.id);
  return show(subscription, { sql: about.sql, notify: about.notify, per: about.per, durable: about.durable });
}

function show(subscription, about) {
  const item = {
    ...about,
    subscription,
    result: subscription.result,
    previous: null,
    change: null,
    changes: 0,
    isActive: true,
    error: null,
    log: [],
    history: [],
  };
  remember(item);
  watched.unshift(item);
  emit("watched", item);
  follow(item);
  return item;
}

async function follow(item) {
  try {
    for await (const update of item.subscription) {
      item.previous = item.result;
      item.result = update.result;
      item.change = update.change;
      item.changes += update.snapshot ? 0 : 1;
      item.log.unshift({ seq: update.seq, change: update.change, at: new Date() });
      item.log.length = Math.min(item.log.length, LOG);
      remember(item);
      const now = performance.now();
      if (sent.has(update.seq)) latencies.push(now - sent.get(update.seq));
      else keep(seen, update.seq, now);
      emit("updated", item);
    }
  } catch (error) {
    item.error = error;
    emit("updated", item);
  }
}

/** Show it no longer; what is durable stays at the server. */
export function unwatch(item, { remove = false } = {}) {
  watched.splice(watched.indexOf(item), 1);
  const done = remove ? item.subscription.delete() : item.subscription.close();
  emit("watched", null);
  return done;
}

/** Tables, then views: all that FROM takes. A view has `sql`; a server of an earlier version has none. */
export async function relations() {
  const [tables, views] = await Promise.all([client.tables(), maybe(client.views())]);
  return [...tables, ...(views ?? [])];
}

/** What a route answers, or null if the server does not have it (404), or not for this key (403): the console says so. */
export async function maybe(request) {
  try {
    return await request;
  } catch (error) {
    if ([403, 404, 405].includes(error.status)) return null;
    throw error;
  }
}
