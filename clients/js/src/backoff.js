/**
 * Waits that double from `firstMs` to `longestMs`, each shortened by up to half at random, so that a thousand
 * clients of a restarted server do not come back in the same instant.
 */
export class Backoff {
  constructor(firstMs = 100, longestMs = 5000) {
    this.firstMs = firstMs;
    this.longestMs = longestMs;
    this.reset();
  }

  /** The wait before the next attempt. */
  nextMs() {
    const wait = this._next;
    this._next = Math.min(wait * 2, this.longestMs);
    return wait * (0.5 + Math.random() / 2);
  }

  /** An attempt succeeded: the next wait is a short one again. */
  reset() {
    this._next = this.firstMs;
  }
}
