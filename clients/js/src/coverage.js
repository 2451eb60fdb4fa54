/**
 * What the rows at hand are surely complete for, while registered ranges take effect one after the other.
 *
 * A PATCH takes effect at a place in the stream, and its answer, which names the place, comes by another way: before the
 * stream gets there, after, or never. Until the answer is here a frame may belong to either range; then only what both
 * ranges hold can be shown exactly. No I/O.
 *
 * An aim is `{number, params}`: exact parameters; of two the one with the greater number was assigned later. A step is a
 * range on its way into force: `{params, target, isActive, seq}`, where `seq` is where (null: not known) and `target` the
 * aim it was sent for. One that is not active is told nothing: the rows at hand are then complete for nothing.
 *
 * Invariant: the known seqs of the steps do not decrease. `covers(wide, exact)` says whether the answer with the
 * parameters `exact` follows from the one with `wide`.
 */
export class Coverage {
  constructor(covers, params) {
    this._covers = covers;
    this._inForce = params;
    this._steps = [];
    this._atServer = params;
  }

  /** The parameters the server has, or has been sent last. */
  get atServer() {
    return this._steps.at(-1)?.params ?? this._atServer;
  }

  /** Whether the last step has no known place. */
  get isUnknown() {
    return this._steps.length > 0 && this._steps.at(-1).seq === null;
  }

  /** Where the next step takes effect, as far as known; else null. */
  get nextSeq() {
    return this._steps.find(({ seq }) => seq !== null)?.seq ?? null;
  }

  /** A range is sent to the server. */
  begin(params, target, isActive = true) {
    const step = { params, target, isActive, seq: null };
    this._steps.push(step);
    return step;
  }

  /** The server did not take it. */
  refuse(step) {
    this._steps = this._steps.filter((one) => one !== step);
  }

  /** Whether the exact answer follows from the rows at hand, whatever of the unknown is in force. */
  holds(exact) {
    if (this._inForce === null || !this._covers(this._inForce, exact)) return false;
    for (const { seq, params } of this._steps) {
      if (seq !== null) return true; // it and all behind it are surely ahead
      if (!this._covers(params, exact)) return false;
    }
    return true;
  }

  /** Whether it follows from the rows at hand, and still will when all that is ahead has taken effect. */
  willHold(exact) {
    return this.holds(exact) && this._steps.every(({ params }) => this._covers(params, exact));
  }

  /** Whether the next frame would change what is shown in an unknown way: only an answer helps. */
  mustWait(shown) {
    return this.nextSeq === null && !this.holds(shown);
  }

  /** Everything up to `position` is consumed: the last step that took effect by now, null if none did. */
  arrive(position) {
    let last = null;
    while (this.nextSeq !== null && this.nextSeq <= position) {
      const step = this._steps.shift();
      if (step.seq === null) continue; // never answered: what was sent after it has replaced it
      this._atServer = step.params;
      this._inForce = step.isActive ? step.params : null;
      last = step;
    }
    return last;
  }
}
