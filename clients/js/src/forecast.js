/**
 * Where a parameter will be: how often it is assigned, and in which band it is likely to stay.
 *
 * The history of the last `windowS` is drawn as a cubic spline ([Parametric] 6.3). Through single values of a jittery
 * parameter a spline swings wildly, so its knots are the means of a few equal slices of time, and the farthest any value
 * lies from the curve is added to the band.
 *
 * It loses on jumps to places never seen: then the band is wrong and the assignment costs what it costs without.
 */

import { Spline } from "./spline.js";

const SLICES = 8; // knots of a spline
const FEWEST = 4; // values from which something is foretold
const FARTHEST = 2; // a trend is carried on by at most so many times the span of the history
const LIMIT = 256; // values kept

/** The values of one parameter within the last `windowS`. Invariant: times increase strictly. */
export class History {
  constructor(windowS) {
    this.windowS = windowS;
    this._values = []; // [time, value]
  }

  /** An assignment; values assigned at the same time are one, the last. */
  record(time, value) {
    const last = this._values.at(-1);
    if (last && last[0] >= time) last[1] = value;
    else this._values.push([time, value]);
    if (this._values.length > LIMIT) this._values.shift();
    this._forget(this._values.at(-1)[0]);
  }

  /** Assignments per second within the last `windowS`. */
  frequency(now) {
    this._forget(now);
    return this._values.length / this.windowS;
  }

  /** How far apart the values lie. */
  get span() {
    const values = this._values.map(([, value]) => value);
    return values.length ? Math.max(...values) - Math.min(...values) : 0;
  }

  /**
   * The least and the greatest value expected within the next `windowS`; null if too little is known. Oscillating, that
   * is with two turning points or more: what the curve spans. Else trending: from the last value to where the curve
   * leads. O(n) in the values kept.
   */
  band() {
    if (this._values.length < FEWEST) return null;
    const curve = new Spline(...this._knots());
    const error = Math.max(...this._values.map(([time, value]) => Math.abs(value - curve.at(time))));
    let [low, high] = curve.extremes();
    if (curve.turningPoints().length < 2) {
      const farthest = FARTHEST * this.span;
      const [, last] = this._values.at(-1);
      const ahead = last + Math.max(-farthest, Math.min(farthest, curve.endSlope * this.windowS));
      [low, high] = [Math.min(last, ahead), Math.max(last, ahead)];
    }
    return [low - error, high + error];
  }

  _forget(now) {
    const kept = this._values.findIndex(([time]) => time >= now - this.windowS);
    this._values.splice(0, kept < 0 ? this._values.length : kept);
  }

  /** The mean time and value of each slice; at least the first and the last value, if slices are few. */
  _knots() {
    const [[first], [last]] = [this._values[0], this._values.at(-1)];
    const slices = Array.from({ length: SLICES }, () => []);
    for (const entry of this._values) {
      slices[Math.min(SLICES - 1, Math.floor(((entry[0] - first) / (last - first)) * SLICES))].push(entry);
    }
    const filled = slices.filter((part) => part.length);
    const mean = (at) => filled.map((part) => part.reduce((sum, entry) => sum + entry[at], 0) / part.length);
    return [mean(0), mean(1)];
  }
}
