/** The histories of all ends, and the range to register for an exact one. No I/O; `now` is any clock's, in seconds. */

import { History } from "./forecast.js";
import { identity } from "./json.js";

export class Widening {
  /** `monitor` is `{frequencyHz, windowMs, margin}`; `limits` are the ends of the query. */
  constructor(monitor, limits) {
    this._monitor = monitor;
    this._limits = limits;
    this._histories = limits.all.map(() => new History(monitor.windowMs / 1000));
    this._constants = null;
  }

  /** Whether the answer with the parameters `exact` follows from the rows of `wide`. */
  covers(wide, exact) {
    const { names } = this._limits;
    const others = [...new Set([...Object.keys(wide), ...Object.keys(exact)])].filter((name) => !names.has(name));
    if (!others.every((name) => identity(wide[name] ?? null) === identity(exact[name] ?? null))) return false;
    return this._limits.reach(this._limits.constants(wide), this._limits.constants(exact));
  }

  /** An assignment; ends that stay where they are count for nothing. */
  record(now, exact) {
    const constants = this._limits.constants(exact);
    const before = this._constants ?? constants;
    this._constants = constants;
    this._limits.all.forEach(({ scale }, at) => {
      const place = constants[at];
      if (place === null || place === before[at] || !Number.isFinite(scale.float(place))) return;
      this._histories[at].record(now, scale.float(place));
    });
  }

  /** The parameters to register: every end that moves often is put as far out as it is expected. */
  widen(now, exact) {
    const wide = { ...exact };
    const constants = this._limits.constants(exact);
    this._limits.all.forEach((limit, at) => {
      const history = this._histories[at];
      if (constants[at] === null || history.frequency(now) < this._monitor.frequencyHz) return;
      const band = history.band();
      if (band === null) return;
      const [low, high] = band;
      const added = this._monitor.margin * (high - low);
      const { isLower, parameter } = limit.end;
      const place = isLower ? low - added : high + added;
      if (!Number.isFinite(place)) return;
      const value = limit.scale.beyond(place, !isLower);
      if (limit.reaches(limit.scale.constant(value), constants[at])) wide[parameter] = value;
    });
    return wide;
  }

  /** Whether an end stands much farther out than it would be put now, as after a trend inward. */
  isLoose(now, registered, exact) {
    const there = this._limits.constants(registered);
    const wanted = this._limits.constants(this.widen(now, exact));
    return this._limits.all.some(({ scale }, at) => {
      if (there[at] === null || wanted[at] === null) return false;
      const { span } = this._histories[at];
      return span > 0 && Math.abs(scale.float(there[at]) - scale.float(wanted[at])) > span;
    });
  }
}
