/**
 * The one WebSocket `/v1/stream` of a client, shared by all its feeds.
 *
 * It reconnects by itself, for as long as there is a listener, and attaches every listening feed after the last
 * seq it has received. An id that was detached is attached again only when no frame of the old attachment can
 * come any more: the server handles frames in order, so the pong of a ping sent after the detach says so.
 */

import { Backoff } from "./backoff.js";
import { ProsemError } from "./errors.js";
import { encode, parse } from "./json.js";
import { MOST_HOPS } from "./redirects.js";
import { sleep } from "./transport.js";

export class Stream {
  /**
   * With `redirects` it says at each attach that it follows them; `home` and `onLost` are those of a stream to a broker that
   * was named: it does not reconnect, but gives its feeds back.
   */
  constructor(openSocket, options = {}) {
    const { aliveMs = 15_000, onState = () => {}, backoff = new Backoff(), redirects = null, home = this, onLost = null } = options;
    this._openSocket = openSocket;
    this.redirects = redirects;
    this._home = home;
    this._onLost = onLost;
    this._aliveMs = aliveMs;
    this._onState = onState;
    this._backoff = backoff;
    this._feeds = new Map();
    this._expected = new Map(); // ids whose consumer waits until nothing more comes up to a seq
    this._socket = null;
    this._isRunning = false;
    this._isClosed = false;
    this.progress = -1;
    this._timeline = null; // that `progress` is of
    this.connects = 0;
    this._begin();
  }

  /** A stream to a broker that was named; its feeds come back by `onLost`. */
  beside(openSocket, onLost) {
    return new Stream(openSocket, { aliveMs: this._aliveMs, redirects: this.redirects, home: this._home, onLost });
  }

  /** The stream that a feed was redirected to from here. */
  _elsewhere(feed) {
    if (this.redirects === null || this._home !== this || this._feeds.get(feed.id) === feed) return null;
    return this.redirects.streamOf(feed.id);
  }

  /** Attach the feed: at once, when its old frames have ended, or with the next connection. */
  listen(feed) {
    const elsewhere = this._elsewhere(feed);
    if (elsewhere !== null) return elsewhere.listen(feed);
    const other = this._feeds.get(feed.id);
    if (other !== undefined && other !== feed) {
      throw new Error(`the subscription ${feed.id} is already attached by this client`);
    }
    this._feeds.set(feed.id, feed);
    feed.isWanted = true;
    if (this._isRunning) this._attachIfFree(feed);
    else this._run();
  }

  /** Detach the feed for good. */
  leave(feed) {
    const elsewhere = this._elsewhere(feed);
    if (elsewhere !== null) return elsewhere.leave(feed);
    feed.isWanted = feed.isListening = false;
    if (this._feeds.get(feed.id) !== feed) return;
    this._feeds.delete(feed.id);
    this._expected.delete(feed.id);
    this._detach(feed);
    this._forget(feed);
  }

  /** A feed that was redirected here is over. */
  _forget(feed) {
    if (this.redirects !== null && this._home !== this) this.redirects.forget(feed);
  }

  /** Nudge the feed when everything up to `seq` has reached it: no frame need come with that seq. */
  expect(feed, seq) {
    const elsewhere = this._elsewhere(feed);
    if (elsewhere !== null) return elsewhere.expect(feed, seq);
    if (this._feeds.get(feed.id) !== feed) return;
    this._expected.set(feed.id, seq);
    this._mark();
  }

  /** Close the socket; the feeds hear nothing more. */
  close() {
    this._isClosed = true;
    if (this._home === this) this.redirects?.close();
    this._feeds.clear();
    this._expected.clear();
    clearInterval(this._alive);
    this._socket?.close();
  }

  // -- the connection ----------------------------------------------------------------------------------------
  async _run() {
    this._isRunning = true;
    while (!this._isClosed) {
      this._onState("connecting");
      try {
        const socket = await this._openSocket();
        await this._converse(socket);
      } catch (error) {
        if (!(error instanceof ProsemError)) throw error;
        if (error.status && this._onLost === null) this._endAll(error); // the server does not want this client: trying again is no use
      }
      if (this._onLost !== null) break;
      this._onState(this._isClosed ? "closed" : "disconnected");
      if (!this._isClosed) await sleep(this._backoff.nextMs());
    }
    this._isRunning = false;
    if (this._onLost !== null && !this._isClosed) this._giveBack();
  }

  /** The broker that was named is lost: its feeds go on elsewhere, after what they have received. */
  _giveBack() {
    this._resumePoints();
    const [feeds, expected] = [[...this._feeds.values()], this._expected];
    this._feeds = new Map();
    this._expected = new Map();
    this._onLost(this, feeds);
    for (const feed of feeds) if (expected.has(feed.id)) this._home.expect(feed, expected.get(feed.id));
  }

  /** Until the connection ends. */
  _converse(socket) {
    if (this._isClosed) return socket.close();
    return new Promise((done) => {
      socket.onmessage = ({ data }) => {
        this._heard = true;
        this._read(data);
      };
      socket.onerror = () => {};
      socket.onclose = () => {
        clearInterval(this._alive);
        this._socket = null;
        done();
      };
      this._resumePoints();
      this._socket = socket;
      this.connects += 1;
      this._onState("connected");
      for (const feed of this._feeds.values()) if (feed.isWanted) this._attach(feed);
      this._ping();
      this._heard = true;
      this._alive = setInterval(() => this._watch(socket), this._aliveMs);
    });
  }

  /** A connection that says nothing for a whole interval, not even a pong, is dead. */
  _watch(socket) {
    if (this._heard) {
      this._heard = false;
      this._ping();
      return;
    }
    const { onclose } = socket;
    socket.onmessage = socket.onclose = null; // what a dead connection still says is told by the next one
    socket.close();
    onclose();
  }

  _begin() {
    this._pings = this._pongs = 0;
    this._attaching = new Map(); // attached ids, with the ping whose pong confirms them
    this._leaving = new Map(); // detached ids, with the ping whose pong ends their old frames
    this._confirmed = new Map(); // attached ids, with the progress known when the server had surely seen them
  }

  /** Begin anew; what the lost connection had told all its feeds counts as received by them. */
  _resumePoints() {
    for (const feed of this._feeds.values()) {
      feed.isListening = false;
      if (this._home === this) feed.hops = 0;
      if (this.progress > (this._confirmed.get(feed.id) ?? this.progress)) feed.passBy(this.progress);
    }
    this._begin();
    this.progress = -1;
    this._timeline = null;
  }

  _endAll(error) {
    for (const feed of this._feeds.values()) feed.end(error);
    this._feeds.clear();
    this._expected.clear();
  }

  // -- frames out --------------------------------------------------------------------------------------------
  _send(frame) {
    this._socket?.send(encode(frame));
  }

  _attach(feed) {
    feed.isListening = true;
    const after = feed.received === null ? {} : { after: feed.received, timeline: feed.timeline ?? undefined };
    const follows = this.redirects !== null && feed.hops < MOST_HOPS ? { redirects: true } : {};
    this._send({ op: "attach", id: feed.id, ...(feed.isRaw ? { raw: true } : after), ...follows });
    this._attaching.set(feed.id, this._pings + 1);
  }

  /** Attach a feed that wants it, unless frames of an old attachment may still come. */
  _attachIfFree(feed) {
    const isIdle = feed.isWanted && !feed.isListening && !this._leaving.has(feed.id);
    if (isIdle && this._socket && this._feeds.get(feed.id) === feed) {
      this._attach(feed);
      this._ping();
    }
  }

  _detach(feed) {
    this._attaching.delete(feed.id);
    this._confirmed.delete(feed.id);
    if (this._socket && !this._leaving.has(feed.id)) {
      this._send({ op: "detach", id: feed.id });
      this._ping();
      this._leaving.set(feed.id, this._pings);
    }
  }

  _ping() {
    this._pings += 1;
    this._send({ op: "ping" });
  }

  // -- frames in ---------------------------------------------------------------------------------------------
  _read(text) {
    const frame = parse(text);
    if ("snapshot" in frame || "change" in frame || "raw" in frame) this._told(frame);
    else if ("progress" in frame) this._advance(frame.progress, frame.timeline ?? null);
    else if ("pong" in frame) this._answered(frame.timeline ?? null);
    else if ("redirect" in frame) this._redirected(frame);
    else if ("error" in frame) this._refused(frame);
    if (this._expected.size) this._mark();
  }

  /**
   * Tell the feeds that wait for it how far they have received everything. A mark from before the attach counts too once
   * that is confirmed: an attach brings all since `after`.
   */
  _mark() {
    for (const [id, seq] of this._expected) {
      if (seq > this.progress || !this._confirmed.has(id)) continue;
      this._expected.delete(id);
      this._feeds.get(id).passBy(this.progress);
      this._feeds.get(id).nudge();
    }
  }

  _told(frame) {
    const isSnapshot = "snapshot" in frame || frame.raw?.[0].message === "state";
    const feed = this._feeds.get(frame.id);
    const payload = frame.raw ?? (isSnapshot ? frame.snapshot : frame.change);
    const told = { seq: frame.seq, payload, isSnapshot, timeline: frame.timeline ?? null };
    if (feed && !feed.take(told)) this._detach(feed);
  }

  /** All that is attached has come to `seq`. Another timeline begins anew, perhaps at a smaller one. */
  _advance(seq, timeline) {
    if (timeline === this._timeline) {
      this.progress = Math.max(this.progress, seq);
      return;
    }
    const isFirst = this._timeline === null;
    this.progress = seq;
    this._timeline = timeline;
    for (const id of this._confirmed.keys()) { // a mark follows what was replayed for each of them
      const feed = this._feeds.get(id);
      if (feed) feed.timeline = timeline;
      if (!isFirst) this._confirmed.set(id, -1);
    }
  }

  /** The server has handled everything up to the ping that was answered, and its timeline is this one. */
  _answered(timeline) {
    this._backoff.reset();
    this._pongs += 1;
    for (const id of this._settled(this._attaching)) {
      this._confirmed.set(id, this.progress);
      const feed = this._feeds.get(id);
      if (feed && timeline !== null) feed.timeline = timeline;
    }
    for (const id of this._settled(this._leaving)) {
      const feed = this._feeds.get(id);
      if (feed) this._attachIfFree(feed);
    }
  }

  _settled(waiting) {
    const ids = [...waiting].filter(([, ping]) => ping <= this._pongs).map(([id]) => id);
    for (const id of ids) waiting.delete(id);
    return ids;
  }

  /** An attach is answered by the address of a broker: nothing comes here for the feed, so it may begin there at once. */
  _redirected(frame) {
    const feed = this._feeds.get(frame.id);
    if (!feed?.isListening || this.redirects === null) return;
    feed.isListening = false;
    this._attaching.delete(feed.id);
    this._confirmed.delete(feed.id);
    this._feeds.delete(feed.id);
    const expected = this._expected.get(feed.id);
    this._expected.delete(feed.id);
    if (!this.redirects.move(feed, this._home, frame.redirect)) {
      feed.hops = MOST_HOPS; // it is served in place
      this._feeds.set(feed.id, feed);
      this._attachIfFree(feed);
    }
    if (expected !== undefined) this._home.expect(feed, expected);
  }

  _refused(frame) {
    const error = ProsemError.ofProblem(frame.error);
    const feed = this._feeds.get(frame.id);
    if (!feed) return;
    feed.isListening = false;
    this._attaching.delete(feed.id);
    this._confirmed.delete(feed.id);
    if (error.status === 503) {
      setTimeout(() => this._attachIfFree(feed), this._backoff.nextMs()); // busy: the same again, later
      return;
    }
    this._feeds.delete(feed.id);
    this._expected.delete(feed.id);
    this._forget(feed);
    feed.end(error);
  }
}
