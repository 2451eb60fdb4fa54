/** A live answer: told changes in order, folded as they are consumed. */

import { Closed, ProsemError } from "./errors.js";
import { Feed } from "./feed.js";
import { wholeResult } from "./fold.js";
import { follow, valuesOf } from "./pinned.js";
import { resolved, Versions } from "./versions.js";

/**
 * Asynchronously iterable: its changes, as `{id, seq, timeline, change, result, snapshot}`.
 *
 * Invariant: `result` is the answer at `seq`, the seq of the last change consumed. The stream survives lost
 * connections and restarts of the server; where what was missed is no longer retained, one item is a
 * `snapshot`. A subscription that is not durable ends with its connection and is then made anew (its `id` may
 * change), which is told as a snapshot too.
 */
export class Subscription {
  constructor(calls, stream, options) {
    const { open, began, params, limit, snapshot, renewable } = options;
    this._calls = calls;
    this._stream = stream;
    this._open = open;
    this._limit = limit;
    this._startsWithSnapshot = snapshot;
    this._isRenewable = renewable;
    this._isActive = true;
    this._isClosed = false;
    this._params = params;
    this._moving = Promise.resolve(); // the last parametric update that was sent
    this._waiting = null; // the one that will be sent after it
    follow(this, {}, params);
    this._prepare(options);
    this._adopt(began);
  }

  get id() {
    return this._began.id;
  }

  get type() {
    return this._began.type;
  }

  get group() {
    return this._began.group;
  }

  /** How its answers are folded, as the server says it: `key`, `order`, `type`, `columns`. */
  get fold() {
    return this._began.shape ?? {};
  }

  /** The last seq consumed: give it to `attach(id, {after, timeline})` to go on from here later. */
  get seq() {
    return this._seq;
  }

  /** The timeline that `seq` is of: after a restore of the server's database there is another one. */
  get timeline() {
    return this._timeline;
  }

  /** The answer as of `seq`; null while it is unknown, after an `attach` with `after` alone. */
  get result() {
    return resolved(this._result);
  }

  /** The parameters as the server has them. */
  get params() {
    return valuesOf(this._params);
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  /** The next change, as iterators give it. One consumer at a time. */
  async next() {
    if (this._isClosed) return { value: undefined, done: true };
    if (this._startsWithSnapshot && this._result !== null) {
      this._startsWithSnapshot = false;
      return { value: this._item(null), done: false };
    }
    try {
      return { value: await this._step(), done: false };
    } catch (error) {
      if (error instanceof Closed) return { value: undefined, done: true };
      if (!(error instanceof ProsemError) || error.status !== 404 || !this._isRenewable) throw error;
      return { value: await this._renew(), done: false };
    }
  }

  /** Call back with every change instead of iterating; the function it returns closes the subscription. */
  listen(changed, failed = reportLater) {
    const follow = async () => {
      for (;;) {
        const { value, done } = await this.next();
        if (done) return;
        changed(value);
      }
    };
    follow().catch(failed);
    return () => this.close();
  }

  /** A `for await` that is left early closes the subscription. */
  async return(value) {
    this.close();
    return { value, done: true };
  }

  /**
   * Set parameters (values or pinned variables); done when the server has moved the subscription. If the answer
   * differs, the change comes in the stream. While a request is under way only the last values count.
   */
  patch(params) {
    const after = { ...this._params, ...params };
    follow(this, this._params, after);
    this._params = after;
    return this._follow();
  }

  /** Be told nothing until `resume()`. */
  suspend() {
    return this._setActive(false);
  }

  /** Be told again; a change takes the answer to the present one, if it differs. */
  resume() {
    return this._setActive(true);
  }

  /** Stop listening. A durable subscription stays at the server. */
  close() {
    if (this._isClosed) return;
    this._isClosed = true;
    follow(this, this._params, {});
    this._stream.leave(this._feed);
    this._feed.end(new Closed());
    this._calls.closed(this);
  }

  /** Remove it from the server, and close. */
  async delete() {
    this.close();
    await this._calls.delete(this.id);
  }

  // -- inside ------------------------------------------------------------------------------------------------
  /** What a kind of subscription has besides, before its first answer. */
  _prepare() {}

  _adopt(began) {
    this._began = began;
    this._seq = began.seq;
    this._timeline = began.timeline ?? null;
    this._setResult(began.result);
    this._feed = this._feedOf(began);
    this._stream.listen(this._feed);
  }

  _feedOf(began) {
    return new Feed(began.id, began.seq, this._limit, this._timeline);
  }

  async _renew() {
    const began = await this._open(this.params);
    if (this._isClosed) throw new Closed();
    this._adopt(began);
    if (!this._isActive) await this._setActive(false);
    return this._item(null);
  }

  async _step() {
    return this._consume(await this._frame());
  }

  async _frame() {
    for (;;) {
      const frame = this._feed.pop();
      if (frame) return frame;
      if (!this._feed.isWanted) this._stream.listen(this._feed); // all that was kept of an overflow is consumed
      await this._feed.news();
    }
  }

  _consume({ seq, payload, isSnapshot, timeline }) {
    this._seq = seq;
    this._timeline = timeline;
    if (isSnapshot) this._setResult(payload);
    else if (this._versions === null) this._setResult(wholeResult(payload));
    else this._guarded(() => (this._result = this._versions.fold(payload)));
    return this._item(isSnapshot ? null : payload);
  }

  /** A change that does not fit ends the stream: the answer can no longer be trusted. */
  _guarded(fold) {
    try {
      fold();
    } catch (error) {
      this._stream.leave(this._feed);
      this._feed.end(error);
      throw error;
    }
  }

  _setResult(result) {
    this._result = result;
    this._versions = result === null ? null : new Versions(result, this._began.shape);
  }

  _item(change) {
    const { _seq: seq, _timeline: timeline, _result: answer } = this;
    return {
      id: this.id,
      seq,
      timeline,
      change,
      /** Made when it is first asked for: a reader of changes alone pays for these alone. */
      get result() {
        return resolved(answer);
      },
      snapshot: change === null,
    };
  }

  /** One request at a time, with the values of the moment it leaves. */
  _follow() {
    this._waiting ??= this._moving
      .catch(() => {}) // the caller of that move was given the error
      .then(() => {
        this._waiting = null;
        this._moving = this._calls.patch(this.id, { params: this.params });
        return this._moving;
      });
    return this._waiting;
  }

  async _setActive(active) {
    await this._calls.patch(this.id, { active });
    this._isActive = active;
  }
}

/** An error without a handler is the page's or the process's, as that of any callback. */
function reportLater(error) {
  queueMicrotask(() => {
    throw error;
  });
}
