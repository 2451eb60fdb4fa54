/**
 * Pinned variables: set locally, sent when released. Parameters of several subscriptions may follow one.
 *
 * Invariant: after `release()` every parameter it was given to has the value `last`; nothing else moves them.
 * A parameter stops following when something else is assigned to it, or its subscription is closed.
 */
export class PinnedVariable {
  constructor(value) {
    this.value = value;
    this._last = value;
    this._followers = new Set();
  }

  /** The value that was released last: what the subscriptions have. */
  get last() {
    return this._last;
  }

  /** Give the value to every subscription that uses it; done when all have moved. */
  release() {
    return release(this);
  }
}

/** Release several variables at once: a subscription that uses them moves in one step. */
export async function release(...variables) {
  const moving = new Set();
  for (const variable of variables) {
    variable._last = variable.value;
    for (const follower of variable._followers) moving.add(follower);
  }
  await Promise.all([...moving].map((follower) => follower._follow()));
}

/** The values of parameters of which some are variables. */
export function valuesOf(params) {
  const last = (value) => (value instanceof PinnedVariable ? value.last : value);
  return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, last(value)]));
}

/** Let a subscription follow the variables among its parameters, and no others. */
export function follow(follower, before, after) {
  for (const value of Object.values(before)) if (value instanceof PinnedVariable) value._followers.delete(follower);
  for (const value of Object.values(after)) if (value instanceof PinnedVariable) value._followers.add(follower);
}
