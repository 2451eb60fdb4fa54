/**
 * Streams to brokers that the server has named: a feed that is redirected goes on there, after what it has received.
 *
 * A redirect only ever moves a feed: it is listened to by one stream at a time. The feeds of a broker that cannot be reached,
 * or is lost, go back to the first stream, which has them served in place. How often one feed is sent on is bounded.
 */

export const MOST_HOPS = 3; // redirects that one feed follows
const MOST_STREAMS = 16; // sockets to named brokers
const AVOID_MS = 30_000; // that a broker which could not be reached is not tried again
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Whether a client that reaches its server at `own` may go on at `named`. A key is not sent in the clear where it was not
 * before, and an address of this machine is followed only from such a one.
 */
export function mayFollow(own, named) {
  let before, after;
  try {
    before = new URL(own);
    after = new URL(named);
  } catch {
    return false;
  }
  if (after.protocol !== "https:" && (after.protocol !== "http:" || before.protocol === "https:")) return false;
  return !LOOPBACK.includes(after.hostname) || LOOPBACK.includes(before.hostname);
}

export class Redirects {
  /** `openAt` opens a socket to an address, `own` is the address of the client's own server. */
  constructor(openAt, own) {
    this._openAt = openAt;
    this._own = own;
    this._streams = new Map(); // by address
    this._places = new Map(); // feeds that are not at home, by id
    this._avoided = new Map(); // addresses that could not be reached, and until when
  }

  /** The stream that a feed was redirected to. */
  streamOf(id) {
    return this._places.get(id) ?? null;
  }

  /** The addresses of the brokers in use. */
  get addresses() {
    return [...this._streams.keys()];
  }

  /** Let a feed be served by the broker at an address; false if it is not followed there. */
  move(feed, home, url) {
    const former = this._places.get(feed.id);
    const isAvoided = (this._avoided.get(url) ?? 0) > Date.now();
    let stream = this._streams.get(url);
    if (!mayFollow(this._own(), url) || isAvoided || (stream !== undefined && stream === former)) return false;
    if (stream === undefined) {
      if (this._streams.size >= MOST_STREAMS) return false;
      stream = home.beside(() => this._openAt(url), (lost, feeds) => this._lost(home, url, lost, feeds));
      this._streams.set(url, stream);
    }
    feed.hops += 1;
    this._places.set(feed.id, stream);
    if (former !== undefined) this._closeUnused(former);
    stream.listen(feed);
    return true;
  }

  /** A broker does not answer, or not any more: its feeds are served in place. */
  _lost(home, url, stream, feeds) {
    if (this._streams.get(url) === stream) this._streams.delete(url);
    for (const [id, one] of this._places) if (one === stream) this._places.delete(id);
    this._avoided.set(url, Date.now() + AVOID_MS);
    for (const feed of feeds) {
      feed.hops = MOST_HOPS;
      if (feed.isWanted) home.listen(feed);
    }
  }

  /** A feed is left; a socket that no feed uses is closed. */
  forget(feed) {
    const stream = this._places.get(feed.id);
    this._places.delete(feed.id);
    if (stream !== undefined) this._closeUnused(stream);
  }

  _closeUnused(stream) {
    if ([...this._places.values()].includes(stream)) return;
    for (const [url, one] of this._streams) if (one === stream) this._streams.delete(url);
    stream.close();
  }

  close() {
    for (const stream of this._streams.values()) stream.close();
    this._streams.clear();
    this._places.clear();
  }
}
