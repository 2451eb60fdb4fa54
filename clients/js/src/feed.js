/**
 * What one subscription has received from the stream and not yet consumed. No I/O.
 *
 * Invariant: the seqs of the queued frames increase, all are at most `received`, and together with what was
 * consumed they are everything the server has told up to `received`. A frame that would break it is dropped
 * (told before) or refused (the queue is full).
 *
 * When the consumer is too slow the feed stops listening, keeps what it has, and asks again from `received`
 * once that is consumed: a slow consumer costs at most `limit` frames and never holds up another one.
 */
export class Feed {
  constructor(id, received, limit, timeline = null, isRaw = false) {
    this.id = id;
    this.isRaw = isRaw; // messages instead of changes; not resumed, so nothing comes twice
    this.received = received;
    this.timeline = timeline; // that `received` is of; null: of a server that has none
    this.limit = limit;
    this.isWanted = false; // the consumer wants to be told; the stream attaches it when it can
    this.isListening = false; // it is attached on the present connection
    this.hops = 0; // redirects that it has followed
    this._frames = [];
    this._end = null;
    this._wake = null;
  }

  /** Queue a frame unless it was seen; false if there is no room, and then the feed stops listening. */
  take(frame) {
    if (!this.isListening || this._isSeen(frame)) return true;
    if (this._frames.length >= this.limit) {
      this.isWanted = this.isListening = false;
      return false;
    }
    this.received = frame.seq;
    if (frame.timeline !== null) this.timeline = frame.timeline;
    this._frames.push({ ...frame, timeline: this.timeline });
    this._news();
    return true;
  }

  /** Nothing more will be told up to `seq`. */
  passBy(seq) {
    if (this.received !== null) this.received = Math.max(this.received, seq);
  }

  /** The consumer may go on: let it look again. */
  nudge() {
    this._news();
  }

  get length() {
    return this._frames.length;
  }

  /** Up to this seq no frame is queued, and none will come. */
  get horizon() {
    return this._frames.length ? this._frames[0].seq - 1 : (this.received ?? -1);
  }

  /** Throw the error from now on, after what is queued. */
  end(error) {
    this._end ??= error;
    this.isWanted = this.isListening = false;
    this._news();
  }

  /** The next frame, null if there is none now; throws what ended the feed. With `hold` queued frames stay there. */
  pop(hold = false) {
    if (this._frames.length && !hold) return this._frames.shift();
    if (this._end) throw this._end;
    return null;
  }

  /** Until `pop` has something to say. */
  news() {
    return new Promise((done) => {
      this._wake = done;
    });
  }

  _news() {
    this._wake?.();
    this._wake = null;
  }

  _isSeen({ seq, isSnapshot, timeline }) {
    if (this.received === null || this.isRaw) return false;
    if (!isSnapshot) return seq <= this.received;
    // a snapshot of a smaller seq, or of another timeline, means that the server was set back: its word counts
    return seq === this.received && (timeline === null || timeline === this.timeline);
  }
}
