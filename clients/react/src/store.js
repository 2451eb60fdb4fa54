/** The answers of one provider: one subscription per query and parameters, shared by all components that show it. */

import { Client, encode } from "prosem-client";

const GRACE_MS = 1_000; // strict mode and suspense drop components for a moment: what they used is kept for as long
const isBrowser = typeof window !== "undefined";

export const LOADING = Object.freeze({
  status: "loading",
  result: null,
  change: null,
  seq: null,
  error: null,
});

export const keyOf = (sql, params, { notify, per, monitor } = {}) =>
  encode([sql, params, notify ?? null, per ?? "event", monitor ?? false]);

/** One answer. Invariant: `state` is replaced, never changed, whenever what a component shows changes. */
class Entry {
  constructor(store, key, sql, params, options) {
    this.store = store;
    this.key = key;
    this.state = LOADING;
    this.users = 0;
    this._listeners = new Set();
    this._isClosed = false;
    this.subscribe = (listener) => {
      this._listeners.add(listener);
      return () => this._listeners.delete(listener);
    };
    this.read = () => this.state;
    this.ready = isBrowser ? this._open(sql, params, options) : Promise.resolve();
  }

  async _open(sql, params, { notify, per, monitor } = {}) {
    try {
      this._subscription = await this.store.client.subscribe(sql, params, { notify, per, monitor, durable: false });
    } catch (error) {
      this._set({ ...this.state, status: "error", error });
      return;
    }
    if (this._isClosed) return this._subscription.close();
    const { result, seq } = this._subscription;
    this._set({ status: "live", result, change: null, seq, error: null });
    this._follow();
  }

  async _follow() {
    try {
      for await (const { result, change, seq } of this._subscription)
        this._set({ status: "live", result, change, seq, error: null });
    } catch (error) {
      this._set({ ...this.state, status: "error", error });
    }
  }

  /** The same subscription with other parameters; the answer of the ones before is shown until the server has moved it. */
  async move(params) {
    await this.ready;
    if (!this._subscription || this._isClosed) return;
    try {
      await this._subscription.patch(params);
    } catch (error) {
      this._set({ ...this.state, status: "error", error });
    }
  }

  get isMovable() {
    return this.users <= 1 && this.state.status !== "error";
  }

  close() {
    this._isClosed = true;
    this._subscription?.close(); // the server ends it: it is not durable, and this was its stream
  }

  _set(state) {
    this.state = Object.freeze(state);
    for (const listener of this._listeners) listener();
  }
}

export class AnswerStore {
  /** With `client` an own client is used, which is not closed. */
  constructor({ client, url, ...options }) {
    this._isOwn = !client;
    this.client = client ?? new Client(url, options);
    this._entries = new Map();
    this._timers = new Map();
    this._users = 0;
  }

  /** The answer of a query; it ends after a while unless it is retained. */
  get(sql, params, options) {
    const key = keyOf(sql, params, options);
    let found = this._entries.get(key);
    if (!found) {
      found = new Entry(this, key, sql, params, options);
      this._entries.set(key, found);
      found.ready.then(() => found.users || this._expire(found)); // not while a component suspends for it
    }
    return found;
  }

  retain(entry) {
    entry.users += 1;
    this._cancel(entry);
  }

  release(entry) {
    entry.users -= 1;
    if (entry.users === 0) this._expire(entry);
  }

  /** What a component shows after its parameters changed: its entry, moved, if no other component shows it. */
  moved(entry, sql, params, options) {
    const key = keyOf(sql, params, options);
    if (key === entry.key) return entry;
    const isSameQuery = keyOf(sql, {}, options) === keyOf(...this._queryOf(entry));
    if (!isSameQuery || !entry.isMovable || this._entries.has(key)) return this.get(sql, params, options);
    this._entries.delete(entry.key);
    entry.key = key;
    this._entries.set(key, entry);
    entry.move(params);
    return entry;
  }

  /** A provider uses this store; the function it gets ends that. */
  open() {
    this._users += 1;
    clearTimeout(this._closing);
    return () => {
      this._users -= 1;
      if (this._users === 0) this._closing = setTimeout(() => this._close(), GRACE_MS);
    };
  }

  _queryOf({ key }) {
    const [sql, , notify, per, monitor] = JSON.parse(key);
    return [sql, {}, { notify, per, monitor }];
  }

  _close() {
    for (const entry of this._entries.values()) entry.close();
    this._entries.clear();
    if (this._isOwn) this.client.close();
  }

  _expire(entry) {
    if (!isBrowser) return;
    const end = () => {
      this._timers.delete(entry);
      if (entry.users > 0) return;
      if (this._entries.get(entry.key) === entry) this._entries.delete(entry.key);
      entry.close();
    };
    this._cancel(entry);
    this._timers.set(entry, setTimeout(end, GRACE_MS));
  }

  _cancel(entry) {
    clearTimeout(this._timers.get(entry));
    this._timers.delete(entry);
  }
}
