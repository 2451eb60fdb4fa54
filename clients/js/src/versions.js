/**
 * Answers that are made when they are asked for: a change costs its own size, whatever the size of the answer.
 *
 * Every change leaves a version behind, which knows the change and the version before it. Asked for its answer, the newest
 * one copies the rows at hand; an older one folds the changes since the last answer that was made. Such an answer is made
 * at the latest after as many changes as it has entries, so that a version that is kept holds no more than twice its answer.
 */

import { answerOf } from "./fold.js";

const LEAST = 100; // changes between two answers that are made unasked

/** The answer after a change, the same one each time. */
class Version {
  constructor(versions, previous, change, result = null) {
    this._versions = versions;
    this._previous = previous;
    this._change = change;
    this._result = result;
  }

  result() {
    if (this._result === null) {
      this._result = this._versions.newest(this) ?? this._folded();
      this._previous = this._change = null; // what came before is let go
    }
    return this._result;
  }

  _folded() {
    const changes = [];
    let version = this;
    for (; version._result === null; version = version._previous) changes.push(version._change);
    const answer = answerOf(version._result, this._versions.shape);
    for (const change of changes.reverse()) answer.apply(change);
    return answer.result();
  }
}

/** An answer that changes are folded into. Invariant: a version without an answer comes after one that has its own. */
export class Versions {
  constructor(result, shape) {
    this.shape = shape;
    this._answer = answerOf(result, shape);
    this._latest = new Version(this, null, null, result);
    this._left = size(result);
  }

  /** The version that comes of a change. */
  fold(change) {
    this._answer.apply(change);
    this._latest = new Version(this, this._latest, change);
    this._left -= 1;
    if (this._left < 0) this._left = size(this._latest.result());
    return this._latest;
  }

  /** Its answer, if this is the latest version. */
  newest(version) {
    return version === this._latest ? this._answer.result() : null;
  }
}

/** The answer of a version, or an answer as it is. */
export function resolved(result) {
  return result instanceof Version ? result.result() : result;
}

function size(result) {
  const entries = Object.values(result)[0];
  return Math.max(LEAST, Array.isArray(entries) ? entries.length : 0);
}
