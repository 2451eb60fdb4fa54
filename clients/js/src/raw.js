/** A raw stream: the reformulated messages as they come; the server folds nothing for it. */

import { Feed } from "./feed.js";
import { Subscription } from "./subscription.js";

/**
 * Asynchronously iterable: `{id, seq, timeline, messages, snapshot}`. The first item has the message `state`, and so has one
 * whenever the stream begins anew (`snapshot` is true): it replaces all that was kept. `rules()` has the SQL that keeps
 * the answer in a SQLite database of yours: `schema`, `update` by the name of a message, `transform`.
 */
export class RawSubscription extends Subscription {
  constructor(calls, stream, options) {
    super(calls, stream, { ...options, snapshot: false });
  }

  /** The update and transformation rules of its type. */
  rules() {
    return this._calls.rules(this.type);
  }

  _feedOf(began) {
    return new Feed(began.id, null, this._limit, this._timeline, true);
  }

  _consume({ seq, payload, isSnapshot, timeline }) {
    this._seq = seq;
    this._timeline = timeline;
    return { id: this.id, seq, timeline, messages: payload, snapshot: isSnapshot };
  }

  /** Made anew after it has ended: the messages begin with its state. */
  async _renew() {
    await super._renew();
    return this._consume(await this._frame());
  }
}
