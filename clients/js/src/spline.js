/**
 * The natural cubic spline: the smoothest curve through some points.
 *
 * Between two knots it is a cubic; at the knots its slope and bend go on without a jump; at both ends the bend is zero,
 * so beyond them it goes on as a straight line. Building it is one pass of a tridiagonal system, O(n).
 */
export class Spline {
  /** Through `(times[i], values[i])`, at least two, the times strictly increasing. */
  constructor(times, values) {
    this.times = times;
    this.values = values;
    this._widths = times.slice(1).map((time, at) => time - times[at]);
    if (times.length !== values.length || times.length < 2 || !this._widths.every((width) => width > 0)) {
      throw new RangeError("a spline needs a value for each time, at least two, and times that increase");
    }
    this._bends = this._solve();
  }

  /** The value at a time, also before the first knot and after the last. */
  at(time) {
    const { times, values } = this;
    if (time <= times[0]) return values[0] + this._slope(0, 0) * (time - times[0]);
    if (time >= times.at(-1)) return values.at(-1) + this.endSlope * (time - times.at(-1));
    const segment = times.findLastIndex((knot) => knot <= time);
    return this._value(segment, time - times[segment]);
  }

  get endSlope() {
    return this._slope(this._widths.length - 1, this._widths.at(-1));
  }

  /** The times inside at which it stops rising and falls, or the reverse. */
  turningPoints() {
    const points = this._widths.flatMap((width, segment) =>
      this._flat(segment, width).map((offset) => this.times[segment] + offset),
    );
    const marks = [this.times[0], ...points, this.times.at(-1)].map((time) => this.at(time));
    const rises = marks.slice(1).map((value, at) => value > marks[at]);
    return points.filter((_, at) => rises[at] !== rises[at + 1]);
  }

  /** The least and the greatest value between the first knot and the last. */
  extremes() {
    const values = [...this.values, ...this.turningPoints().map((time) => this.at(time))];
    return [Math.min(...values), Math.max(...values)];
  }

  /** The second derivatives at the knots (Thomas's elimination). */
  _solve() {
    const { _widths: widths, values } = this;
    const [ratios, sums] = [[0], [0]];
    for (let at = 1; at < values.length - 1; at += 1) {
      const bend = (values[at + 1] - values[at]) / widths[at] - (values[at] - values[at - 1]) / widths[at - 1];
      const pivot = 2 * (widths[at - 1] + widths[at]) - widths[at - 1] * ratios.at(-1);
      ratios.push(widths[at] / pivot);
      sums.push((6 * bend - widths[at - 1] * sums.at(-1)) / pivot);
    }
    const bends = values.map(() => 0);
    for (let at = values.length - 2; at > 0; at -= 1) bends[at] = sums[at] - ratios[at] * bends[at + 1];
    return bends;
  }

  /** Of offset, offset² and offset³ within a segment. */
  _coefficients(segment) {
    const [width, left, right] = [this._widths[segment], this._bends[segment], this._bends[segment + 1]];
    const chord = (this.values[segment + 1] - this.values[segment]) / width;
    return [chord - (width * (2 * left + right)) / 6, left / 2, (right - left) / (6 * width)];
  }

  _value(segment, offset) {
    const [first, second, third] = this._coefficients(segment);
    return this.values[segment] + offset * (first + offset * (second + offset * third));
  }

  _slope(segment, offset) {
    const [first, second, third] = this._coefficients(segment);
    return first + offset * (2 * second + offset * 3 * third);
  }

  /** The offsets in (0, width] at which the slope is zero, in ascending order. */
  _flat(segment, width) {
    const [first, second, third] = this._coefficients(segment);
    const [a, b, c] = [3 * third, 2 * second, first];
    let found = [];
    if (a) {
      const inner = b * b - 4 * a * c;
      if (inner >= 0) {
        // the form that does not subtract nearly equal numbers
        const half = -(b + (b < 0 || Object.is(b, -0) ? -1 : 1) * Math.sqrt(inner)) / 2;
        found = half ? [half / a, c / half] : [half / a];
      }
    } else if (b) found = [-c / b];
    return [...new Set(found)].filter((offset) => offset > 0 && offset <= width).sort((x, y) => x - y);
  }
}
