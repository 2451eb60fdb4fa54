/**
 * A subscription under an update monitor ([Parametric] 6): the server has a wider range, the user sees the exact one.
 *
 * While an end of a range moves more often than `frequencyHz`, the server is given a wider range, one that holds where
 * the end is expected within the next `windowMs`, and a `margin` of that band on its outer side. Updates within it cost no
 * request: the client has the rows and shows those of the exact range. A range that rests for `windowMs` becomes exact
 * at the server too.
 *
 * It loses where the wider range catches many more events than the exact one, and where parameters jump at random.
 */

import { Coverage } from "./coverage.js";
import { ConnectionLost, ProsemError } from "./errors.js";
import { identityOf } from "./fold.js";
import { HeldRows } from "./held.js";
import { identity } from "./json.js";
import { follow, valuesOf } from "./pinned.js";
import { Subscription } from "./subscription.js";
import { Widening } from "./widening.js";

const AGAIN_MS = 1000; // until a request is repeated that may or may not have arrived
const DEFAULTS = { frequencyHz: 5, windowMs: 1000, margin: 0.25 };

/** The settings of a monitor, `true` for the usual ones; RangeError for others than make sense. */
export function settingsOf(monitor) {
  const found = { ...DEFAULTS, ...(monitor === true ? {} : monitor) };
  if (!(found.frequencyHz > 0 && found.windowMs > 0 && found.margin >= 0)) {
    throw new RangeError("an update monitor needs frequencyHz > 0, windowMs > 0 and margin >= 0");
  }
  return found;
}

const same = (one, other) => identity(one) === identity(other);

/**
 * The same to its user, but for the `seq` of a change that an update has made without the server: it is the seq of the
 * change before it.
 *
 * Parameters are told apart by where they stand: given (`_latest`), accepted (`_desired`), seen in the result
 * (`_display`), and registered at the server (`_coverage`, which also says what the rows at hand suffice for). All four
 * are those of the registered text, where every end has a parameter of its own; `params` has those of the user.
 *
 * Invariant: `result` is the answer of the query with `_display` as of `seq`; every item leads from one result to the
 * next. While it is open the server knows only the wider range, so it cannot be resumed by `seq`; `close()` gives the
 * server the exact one.
 */
export class MonitoredSubscription extends Subscription {
  /** Updates of the parameters that came into force. */
  updates = 0;
  /** Requests they took. */
  patches = 0;

  _prepare({ monitor, registration, params }) {
    this._monitor = monitor;
    this._registration = registration;
    this._limits = registration.limits;
    this._widening = new Widening(this._monitor, registration.limits);
    this._latest = { number: 0, params: {} };
    this._accepted = params;
    this._queue = Promise.resolve(); // requests go one after the other
    this._sentAt = -Infinity;
    this._reason = null; // why the timer goes through the parameters again: "calm" or "repeat"
    this._isDeleted = false;
  }

  /** Set parameters; done when they are in force, or will be when the stream gets there. A request is made if it must. */
  patch(params) {
    const after = { ...this._params, ...params };
    try {
      this._registration.exact(valuesOf(after)); // refused as the server would, and nothing is assigned
    } catch (error) {
      return Promise.reject(error);
    }
    return super.patch(params).then(() => {});
  }

  /** Stop listening; a durable subscription stays at the server, with the exact range. */
  close() {
    if (this._isClosed) return;
    this._stopTimer();
    super.close();
    if (this._isRenewable || this._isDeleted) return;
    this._lock(async () => {
      const { params } = this._desired;
      const isExact = !this._coverage.isUnknown && same(this._coverage.atServer, params);
      if (!isExact) await this._calls.patch(this.id, { params });
    }).catch(() => {}); // it is closed: what is registered stays wider
  }

  delete() {
    this._isDeleted = true;
    return super.delete();
  }

  // -- opening -----------------------------------------------------------------------------------------------
  _adopt(began) {
    const exact = began.registered;
    this._coverage = new Coverage((wide, narrow) => this._widening.covers(wide, narrow), exact);
    this._latest = this._desired = this._display = { number: this._latest.number + 1, params: exact };
    this._position = began.seq; // up to which the rows at hand are folded
    this._reached = began.timeline ?? null; // the timeline that it is of
    this._owesSnapshot = false;
    super._adopt(began);
  }

  _setResult(result) {
    this._hold(result.rows);
    this._result = this._held.result();
  }

  _hold(rows) {
    const { shape } = this._began;
    const constants = this._limits.constants(this._display.params);
    this._held = new HeldRows(this._limits, { key: shape.key, identityOf: identityOf(shape), rows, constants });
  }

  // -- consuming ---------------------------------------------------------------------------------------------
  async _step() {
    for (;;) {
      this._arrive(this._position);
      if (this._mayShowDesired()) this._show(this._desired);
      const item = this._coverage.holds(this._display.params) ? this._told() : null;
      if (item) return item;
      if (this._arrive(this._feed.horizon)) continue; // nothing more comes before it
      const frame = this._feed.pop(this._coverage.mustWait(this._display.params));
      if (frame) this._take(frame);
      else {
        if (!this._feed.isWanted && !this._feed.length) this._stream.listen(this._feed); // an overflow is consumed
        await this._feed.news();
      }
    }
  }

  /** What the user is told of the rows at hand; null if nothing of it is new. */
  _told() {
    this._seq = this._position;
    this._timeline = this._reached;
    const change = this._held.take();
    const isSnapshot = this._owesSnapshot;
    this._owesSnapshot = false;
    if (change === null && !isSnapshot) return null;
    this._result = this._held.result();
    return this._item(isSnapshot ? null : change);
  }

  /** Put into force what takes effect up to there; whether anything does. */
  _arrive(position) {
    const step = this._coverage.arrive(position);
    if (step === null) return false;
    this._position = Math.max(this._position, step.seq);
    if (step.isActive) {
      const aim = this._mayShowDesired() ? this._desired : step.target;
      if (aim.number > this._display.number) this._show(aim);
    }
    return true;
  }

  _mayShowDesired() {
    const isNew = this._desired.number > this._display.number;
    return isNew && this._isActive && this._coverage.willHold(this._desired.params);
  }

  _show(aim) {
    this._display = aim;
    this._held.show(this._limits.constants(aim.params));
  }

  /** Fold a frame; the next step tells what the user sees of it. */
  _take({ seq, payload, isSnapshot, timeline }) {
    this._position = seq;
    this._reached = timeline;
    if (isSnapshot) {
      this._hold(payload.rows);
      this._owesSnapshot = true;
      return;
    }
    this._guarded(() => this._held.apply(payload));
  }

  // -- updating ----------------------------------------------------------------------------------------------
  /** What was given need not wait for a request under way if that makes no difference. */
  _follow() {
    const aim = this._aim(this._registration.exact(this.params));
    this._widening.record(now(), aim.params);
    if (this._isActive && this._coverage.willHold(aim.params)) this._desire(aim);
    return this._goThrough(null);
  }

  /** Requests are made one at a time, each with the values of the moment it leaves. */
  _goThrough(reason) {
    this._reason = this._waiting ? null : reason; // of one that a caller waits for, the caller is told the error
    this._waiting ??= this._lock(() => {
      this._waiting = null;
      return this._isClosed ? undefined : this._register();
    });
    return this._waiting;
  }

  _lock(work) {
    const done = this._queue.then(work);
    this._queue = done.catch(() => {}); // its caller was given the error
    return done;
  }

  /** The parameters as last given, with their place in the order of all. */
  _aim(exact) {
    if (!same(exact, this._latest.params)) this._latest = { number: this._latest.number + 1, params: exact };
    return this._latest;
  }

  /** These parameters are in force, or will be when the stream gets there. */
  _desire(aim) {
    if (aim.number > this._desired.number) {
      this.updates += 1;
      this._desired = aim;
    }
    this._feed.nudge();
  }

  async _register() {
    const params = this._params;
    const exact = this._registration.exact(this.params);
    const isCalm = this._reason === "calm" && same(exact, this._desired.params);
    const isByTimer = isCalm || this._reason === "repeat";
    this._reason = null;
    const aim = this._aim(exact);
    if (!isByTimer) this._widening.record(now(), exact);
    const wide = this._wanted(exact, isCalm);
    if (wide !== null) {
      try {
        await this._send(wide, aim);
      } catch (error) {
        if (error instanceof ConnectionLost) this._later(AGAIN_MS, "repeat");
        if (error instanceof ProsemError && (isByTimer || this._desired === aim)) return; // the user need not care
        this._giveUp(params);
        throw error;
      }
    }
    this._accepted = params;
    this._desire(aim);
    if (same(this._coverage.atServer, exact)) this._stopTimer();
    else this._later(this._monitor.windowMs, "calm");
  }

  /** The parameters to send, null if what the server has will do. */
  _wanted(exact, isCalm) {
    const { atServer, isUnknown } = this._coverage;
    if (isCalm) return isUnknown || !same(atServer, exact) ? exact : null;
    if (!isUnknown && this._widening.covers(atServer, exact)) {
      const isDue = now() - this._sentAt >= this._monitor.windowMs / 1000;
      if (!isDue || !this._widening.isLoose(now(), atServer, exact)) return null;
    }
    return this._widening.widen(now(), exact);
  }

  async _send(wide, aim) {
    const [coverage, feed] = [this._coverage, this._feed];
    const body = { params: wide };
    if (coverage.isUnknown) body.active = this._isActive; // the request of unknown fate may have been one to suspend
    const step = coverage.begin(wide, aim, this._isActive);
    this._sentAt = now();
    this.patches += 1;
    await this._applied(coverage, feed, step, body);
  }

  _setActive(active) {
    return this._lock(async () => {
      const [coverage, feed] = [this._coverage, this._feed];
      const step = coverage.begin(coverage.atServer, this._desired, active);
      try {
        await this._applied(coverage, feed, step, { params: step.params, active });
      } catch (error) {
        if (error instanceof ConnectionLost) this._later(AGAIN_MS, "repeat"); // back to what it was
        throw error;
      }
      this._isActive = active;
      feed.nudge();
    });
  }

  /** Send a step; it takes effect where the answer says, and one that was lost stays with no known place. */
  async _applied(coverage, feed, step, body) {
    try {
      const { seq } = await this._calls.patch(this.id, body);
      step.seq = seq;
    } catch (error) {
      if (!(error instanceof ConnectionLost)) coverage.refuse(step);
      feed.nudge();
      throw error;
    }
    this._stream.expect(feed, step.seq);
  }

  /** A refused update applies nothing: the parameters are those before it, unless others were given since. */
  _giveUp(params) {
    if (this._params !== params) return;
    follow(this, params, this._accepted);
    this._params = this._accepted;
  }

  // -- the timer ---------------------------------------------------------------------------------------------
  /** Go through the parameters again unless they are given before. */
  _later(ms, reason) {
    this._stopTimer();
    if (this._isClosed) return;
    this._timer = setTimeout(() => this._goThrough(reason).catch(() => {}), ms);
  }

  _stopTimer() {
    clearTimeout(this._timer);
  }
}

const now = () => performance.now() / 1000;
