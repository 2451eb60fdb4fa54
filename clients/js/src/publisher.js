/**
 * A publisher's stream: many requests under way on one WebSocket, answered in order.
 *
 * It wins over single calls where each waits for its commit. It loses on a bad line: what was under way when
 * the connection broke is neither repeated nor known, since a stream carries no idempotency keys.
 */

import { Closed, ConnectionLost, ProsemError } from "./errors.js";
import { encode, parse } from "./json.js";

export class Publisher {
  constructor(openSocket, inFlight = 256) {
    this._openSocket = openSocket;
    this._inFlight = inFlight;
    this._waiting = []; // requests not yet answered, in the order they were sent
    this._blocked = []; // calls that wait for room
    this._opening = null;
    this._socket = null;
    this._tag = 0;
    this._isClosed = false;
  }

  /** Send events as one transaction; its seqs, or the refusal. Waits first while too many are under way. */
  async publish(table, events) {
    while (this._waiting.length >= this._inFlight) await new Promise((done) => this._blocked.push(done));
    const socket = await this._connected();
    this._tag += 1;
    const text = encode({ table, events, tag: this._tag });
    return new Promise((done, fail) => {
      this._waiting.push({ tag: this._tag, count: events.length, done, fail });
      socket.send(text);
    });
  }

  /** Close the socket; what is not answered fails with ConnectionLost. */
  close() {
    this._isClosed = true;
    this._socket?.close();
  }

  _connected() {
    if (this._isClosed) throw new Closed("the publisher was closed by its user");
    this._opening ??= this._open().catch((error) => {
      this._opening = null;
      throw error;
    });
    return this._opening;
  }

  async _open() {
    const socket = await this._openSocket();
    this._socket = socket;
    socket.onmessage = ({ data }) => this._answered(parse(data));
    socket.onerror = () => {};
    socket.onclose = () => {
      this._opening = this._socket = null;
      const error = new ConnectionLost("the publisher's stream ended; whether the request was applied is unknown");
      for (const request of this._waiting.splice(0)) request.fail(error);
      this._wake();
    };
    return socket;
  }

  _answered(answer) {
    const { count, done, fail } = this._waiting.shift();
    if ("error" in answer) fail(ProsemError.ofProblem(answer.error));
    else done({ first_seq: answer.first_seq, last_seq: answer.last_seq, count });
    this._wake();
  }

  _wake() {
    for (const done of this._blocked.splice(0)) done();
  }
}
