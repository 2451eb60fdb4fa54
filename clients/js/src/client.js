/** The client: the calls of the contract, and one shared stream for all its subscriptions. */

import { condition } from "./conditions.js";
import { NotMonitorable, ProsemError } from "./errors.js";
import { encode } from "./json.js";
import { MonitoredSubscription, settingsOf } from "./monitored.js";
import { PinnedVariable, valuesOf } from "./pinned.js";
import { Publisher } from "./publisher.js";
import { outline, shapeOf } from "./query.js";
import { RawSubscription } from "./raw.js";
import { Redirects } from "./redirects.js";
import { registration } from "./registration.js";
import { Stream } from "./stream.js";
import { Subscription } from "./subscription.js";
import { Transport, path } from "./transport.js";

const NDJSON = "application/x-ndjson";
const BUILD_MS = 600_000; // a view over a million rows takes about half a minute

export class Client {
  /**
   * `url` is where the server is; in a browser, where the page came from unless it is named. It may be several addresses,
   * separated by commas: of a server and its standby, or of brokers. Calls that may be
   * repeated are, for up to `reconnectMs` after a lost connection and `busyMs` while the server answers 503 or 429 with
   * Retry-After (nothing was applied); the stream reconnects for as long as the client is open. With `followRedirects` a
   * subscription is attached at the broker that the server names for it, if there is one that can be reached.
   */
  constructor(url = globalThis.location?.origin ?? "http://127.0.0.1:8080", options = {}) {
    const { queueLimit = 1024, aliveMs, onState, followRedirects = true, ...rest } = options;
    this._transport = new Transport(url, rest);
    this._queueLimit = queueLimit;
    const backoff = this._transport.backoff();
    const openAt = (named) => this._transport.openSocket("/v1/stream", named);
    const redirects = followRedirects ? new Redirects(openAt, () => this.url) : null;
    this._stream = new Stream(() => openAt(null), { aliveMs, onState, backoff, redirects });
    this._definitions = new Map();
    this._subscriptions = new Set();
    this._publishers = new Set();
  }

  get url() {
    return this._transport.url;
  }

  /** Any other route of the server: the JSON (or text) of its answer. */
  request(method, where, body) {
    return this._transport.call(method, where, body, { repeatable: method === "GET" });
  }

  // -- tables ------------------------------------------------------------------------------------------------
  /** Make a table, or find an identical one. Columns as `{name: type}`, or in full. */
  createTable(name, columns, primaryKey) {
    const full = Array.isArray(columns)
      ? columns
      : Object.entries(columns).map(([column, type]) => ({ name: column, type }));
    this._definitions.delete(name);
    return this._transport.call("POST", "/v1/tables", { name, columns: full, primary_key: primaryKey });
  }

  async tables() {
    return (await this._transport.call("GET", "/v1/tables")).tables;
  }

  table(name) {
    return this._transport.call("GET", path("tables", name));
  }

  async dropTable(name) {
    this._definitions.delete(name);
    await this._transport.call("DELETE", path("tables", name));
  }

  // -- views -------------------------------------------------------------------------------------------------
  /** Make a view, or find an identical one; done when its rows are built, which may take long for large tables. */
  createView(name, sql, { timeoutMs = BUILD_MS } = {}) {
    this._definitions.delete(name);
    return this._transport.call("POST", "/v1/views", { name, sql }, { timeoutMs, repeatable: false });
  }

  /** All views, with what they use and what uses them. */
  async views() {
    return (await this._transport.call("GET", "/v1/views")).views;
  }

  view(name) {
    return this._transport.call("GET", path("views", name));
  }

  async dropView(name) {
    this._definitions.delete(name);
    await this._transport.call("DELETE", path("views", name));
  }

  // -- events ------------------------------------------------------------------------------------------------
  /** Commit events as one transaction, all or none, and once even if the connection breaks. */
  publish(table, events, { idempotencyKey = randomKey() } = {}) {
    const headers = { "Idempotency-Key": idempotencyKey };
    return this._transport.call("POST", path("tables", table, "events"), { events }, { headers });
  }

  /** Commit events of several tables as one transaction; each also names its `table`. */
  transact(events, { idempotencyKey = randomKey() } = {}) {
    const headers = { "Idempotency-Key": idempotencyKey };
    return this._transport.call("POST", "/v1/events", { events }, { headers });
  }

  /** Commit any number of events in batches; `errors` of the answer holds the first that was refused. */
  publishMany(table, events, { idempotencyKey = randomKey() } = {}) {
    const headers = { "Idempotency-Key": idempotencyKey };
    const lines = events.map((event) => `${encode(event)}\n`).join("");
    return this._transport.send("POST", path("tables", table, "events"), lines, { type: NDJSON, headers });
  }

  /** A stream of many requests under way at a time. */
  publisher({ inFlight = 256 } = {}) {
    const made = new Publisher(() => this._transport.openSocket("/v1/publish"), inFlight);
    this._publishers.add(made);
    return made;
  }

  // -- subscriptions -----------------------------------------------------------------------------------------
  /**
   * Subscribe. With `snapshot` the iteration starts with the present answer. Values may be pinned variables. With `per`
   * "transaction" it is notified at most once per request of a publisher. With `raw` it yields messages instead of changes.
   * With `monitor` (true, or its settings) parameters that move often cost few requests.
   */
  async subscribe(sql, params = {}, options = {}) {
    const { notify, id, durable = true, per, snapshot = false, raw = false, monitor = false } = options;
    const request = { sql, notify, id, durable, per };
    if (monitor) return this._monitored(request, params, { snapshot, raw, monitor: settingsOf(monitor) });
    const open = (values) => this._create(request, values);
    const began = await open(valuesOf(params));
    return this._opened({ open, began, params, snapshot, renewable: !durable }, raw ? RawSubscription : Subscription);
  }

  /**
   * Listen to a subscription that exists; with `after` (and the `result` then) from where it was left. Give the
   * `timeline` that `after` is of: if the server's database was restored since, a snapshot comes first where needed.
   */
  async attach(id, { after, timeline = null, result = null, snapshot = false } = {}) {
    const about = await this._transport.call("GET", path("subscriptions", id));
    const now = after === undefined ? await this.result(id) : { seq: after, timeline, result };
    const shape = about.fold ?? (await this._shape(about.sql, now.result));
    const began = { id, type: about.type, group: about.group, ...now, shape };
    return this._opened({ open: null, began, params: about.params ?? {}, snapshot, renewable: false });
  }

  /** Many subscriptions of one template: `rows` are `{id?, params}`. */
  subscribeMany(sql, rows, { notify, durable = true, per } = {}) {
    const body = { sql, notify, rows, durable, per };
    return this._transport.call("POST", "/v1/subscriptions/batch", body, { repeatable: false });
  }

  /** A page of subscriptions: `{group, type, limit, after}`. */
  async subscriptions(query = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    return (await this._transport.call("GET", `/v1/subscriptions?${new URLSearchParams(given)}`)).subscriptions;
  }

  /** The present answer of a subscription: `{id, seq, result}`. */
  result(id) {
    return this._transport.call("GET", path("subscriptions", id, "result"));
  }

  async deleteSubscription(id) {
    await this._transport.call("DELETE", path("subscriptions", id));
  }

  /** A value that parameters of several subscriptions share, sent when it is released. */
  pin(value) {
    return new PinnedVariable(value);
  }

  // -- operation ---------------------------------------------------------------------------------------------
  status() {
    return this._transport.call("GET", "/v1/status");
  }

  async types() {
    return (await this._transport.call("GET", "/v1/types")).types;
  }

  /** Close everything that was opened. Durable subscriptions stay at the server. */
  close() {
    for (const opened of [...this._subscriptions, ...this._publishers]) opened.close();
    this._stream.close();
  }

  // -- inside ------------------------------------------------------------------------------------------------
  async _create(request, params) {
    const body = Object.keys(params).length ? { ...request, params } : request;
    // not repeated after a lost connection: it may be there, under an unknown id
    const made = await this._transport.call("POST", "/v1/subscriptions", body, { repeatable: false });
    return { ...made, shape: made.fold ?? (await this._shape(request.sql, made.result)) };
  }

  async _monitored(request, params, { snapshot, raw, monitor }) {
    if (raw) throw new NotMonitorable("the update monitor folds rows itself; it has no raw mode");
    if (request.notify) throw new NotMonitorable("the update monitor needs rows, not a value notification");
    const found = condition(request.sql);
    const registered = registration(found, await this._definition(found.table));
    const open = async (values) => {
      const exact = registered.exact(values);
      return { ...(await this._create({ ...request, sql: registered.sql }, exact)), registered: exact };
    };
    const began = await open(valuesOf(params));
    const options = { open, began, params, snapshot, renewable: !request.durable };
    return this._opened({ ...options, monitor, registration: registered }, MonitoredSubscription);
  }

  _opened(options, Kind = Subscription) {
    const made = new Kind(this._calls(), this._stream, { ...options, limit: this._queueLimit });
    this._subscriptions.add(made);
    return made;
  }

  _calls() {
    return {
      patch: (id, body) => this._transport.call("PATCH", path("subscriptions", id), body),
      rules: async (type) => (await this.types()).find(({ name }) => name === type)?.rules,
      delete: (id) => this._transport.call("DELETE", path("subscriptions", id)),
      closed: (subscription) => this._subscriptions.delete(subscription),
    };
  }

  /** By what the answer is folded, where the server does not say it; asked of the server once a table, and only for rows and values. */
  async _shape(sql, result) {
    if (result !== null && !("rows" in result) && !("values" in result)) return {};
    const seen = outline(sql);
    if (seen.table === null) return {};
    try {
      return shapeOf(seen, await this._definition(seen.table));
    } catch (error) {
      if (error instanceof ProsemError && error.status === 404) return {};
      throw error;
    }
  }

  /** The definition of a table or view, asked of the server once. */
  async _definition(table) {
    if (!this._definitions.has(table)) this._definitions.set(table, await this.table(table));
    return this._definitions.get(table);
  }
}

/** Works also where a page was not loaded over TLS, unlike crypto.randomUUID. */
function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
