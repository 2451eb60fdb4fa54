/**
 * Calls and sockets to one server: what is repeated, and how a refusal becomes an error.
 *
 * A call is repeated when the server was busy (503 or 429 with Retry-After: nothing was applied) and after a lost
 * connection if carrying it out twice equals once. `reconnectMs` bounds the attempts after lost connections, `busyMs`
 * those after 429 and 503: a server that recovers or has a full backlog is waited for. Of several addresses (a server
 * and its standby, or brokers) the next one is used when one does not answer, or answers 503: a standby does, until it
 * has taken over.
 */

import { Backoff } from "./backoff.js";
import { ConnectionLost, ProsemError } from "./errors.js";
import { encode, parse } from "./json.js";

const NAMED_MS = 5000; // that a broker which was named may take to answer

/** A path of the contract; names and ids may hold any character. */
export const path = (...parts) => ["/v1", ...parts.map(encodeURIComponent)].join("/");

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

export class Transport {
  constructor(url, { apiKey = "", headers = {}, timeoutMs = 30_000, reconnectMs = 10_000, busyMs = 120_000, fetch, WebSocket } = {}) {
    this._urls = url.split(",").map((one) => one.trim().replace(/\/+$/, ""));
    this.timeoutMs = timeoutMs;
    this.reconnectMs = reconnectMs;
    this.busyMs = busyMs;
    this._apiKey = apiKey;
    this._headers = apiKey ? { ...headers, Authorization: `Bearer ${apiKey}` } : headers;
    this._fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this._WebSocket = WebSocket;
  }

  /** The address in use. */
  get url() {
    return this._urls[0];
  }

  /** Waits between attempts; of several addresses one may serve at any moment, so they are short. */
  backoff() {
    return this._urls.length === 1 ? new Backoff() : new Backoff(100, 1000);
  }

  /** Use the next address from now on, unless another call has seen to that already. */
  _failOver(failed) {
    if (this._urls.length > 1 && this.url === failed) this._urls.push(this._urls.shift());
  }

  /** The JSON of a 2xx answer; throws ProsemError if the server refuses, ConnectionLost if none answers. */
  call(method, where, body, options) {
    const content = body === undefined ? undefined : encode(body);
    return this.send(method, where, content, { type: "application/json", ...options });
  }

  /** The same for a body that is already text. */
  async send(method, where, content, { type, headers = {}, repeatable = true, timeoutMs = this.timeoutMs } = {}) {
    const began = Date.now();
    const backoff = this.backoff();
    let heard = began; // when an address last answered
    let lost = 0;
    let wasLost = false;
    const sent = { ...this._headers, ...headers, ...(content === undefined ? {} : { "Content-Type": type }) };
    for (;;) {
      const used = this.url;
      let problem, waitMs;
      let until = began + this.busyMs;
      try {
        const signal = AbortSignal.timeout(timeoutMs);
        const response = await this._fetch(used + where, { method, headers: sent, body: content, signal });
        const text = await response.text();
        if (response.ok) return text === "" ? {} : read(text, response);
        if (method === "DELETE" && wasLost && response.status === 404) return {}; // the lost attempt has done it
        problem = ProsemError.ofProblem(read(text, response), response.status);
        waitMs = retryAfterMs(response);
        if (response.status === 503 && waitMs !== undefined && this._urls.length > 1) {
          this._failOver(used);
          waitMs = Math.min(waitMs, backoff.nextMs());
        }
        heard = Date.now();
        lost = 0;
      } catch (error) {
        if (error instanceof ProsemError) throw error;
        problem = new ConnectionLost(`${method} ${used}${where} was not answered: ${reason(error)}`);
        const neverLeft = error?.cause?.code === "ECONNREFUSED"; // a browser does not tell
        wasLost ||= !neverLeft;
        lost += 1;
        this._failOver(used);
        waitMs = repeatable || neverLeft ? backoff.nextMs() : undefined;
        until = lost >= this._urls.length ? heard + this.reconnectMs : Infinity; // each is tried
      }
      if (waitMs === undefined || Date.now() + waitMs > until) throw problem;
      await sleep(waitMs);
    }
  }

  /** A WebSocket that is open; ConnectionLost if it cannot be had at present. `named`: the address of a broker that was named. */
  async openSocket(where, named = null) {
    const Socket = this._WebSocket ?? globalThis.WebSocket ?? (await nodeSocket());
    const used = named ?? this.url;
    const timeoutMs = named === null ? this.timeoutMs : Math.min(this.timeoutMs, NAMED_MS);
    const socket = new Socket(`ws${used.slice("http".length)}${where}`);
    return new Promise((done, fail) => {
      const refuse = (why) => {
        clearTimeout(timer);
        this._failOver(used);
        fail(new ConnectionLost(`${where} cannot be opened: ${why}`));
      };
      const timer = setTimeout(() => {
        refuse(`no answer within ${timeoutMs} ms`);
        socket.close();
      }, timeoutMs);
      socket.onopen = () => {
        clearTimeout(timer);
        // A browser's WebSocket sends no headers, and an address is kept in logs: the key goes first.
        if (this._apiKey) socket.send(encode({ op: "authenticate", key: this._apiKey }));
        done(socket);
      };
      socket.onerror = () => refuse("the connection failed");
      socket.onclose = () => refuse("the connection was closed");
    });
  }
}

/** Node.js has a WebSocket of its own from version 22 on. */
async function nodeSocket() {
  if (typeof process === "undefined" || !process.versions?.node) {
    throw new ProsemError(0, "no-websocket", "there is no WebSocket here; give its class as the option WebSocket");
  }
  return (await import("./node-socket.js")).NodeSocket;
}

function read(text, response) {
  if (!(response.headers.get("content-type") ?? "").includes("json")) return text;
  try {
    return parse(text);
  } catch {
    throw new ProsemError(response.status, "protocol", `the answer is no JSON: ${text.slice(0, 200)}`);
  }
}

function retryAfterMs(response) {
  const wait = response.headers.get("retry-after") ?? "";
  return (response.status === 503 || response.status === 429) && /^[\d.]+$/.test(wait)
    ? 1000 * Number(wait)
    : undefined;
}

function reason(error) {
  return error?.cause?.message || error?.message || String(error);
}
