/** prosem-client: live SQL subscriptions for browsers and Node.js. */

export { Client } from "./client.js";
export { RawSubscription } from "./raw.js";
export { MonitoredSubscription } from "./monitored.js";
export { Subscription } from "./subscription.js";
export { Publisher } from "./publisher.js";
export { PinnedVariable, release } from "./pinned.js";
export { fold } from "./fold.js";
export { BadSignature, verifyWebhook } from "./webhooks.js";
export { encode, parse } from "./json.js";
export { Closed, ConnectionLost, NotMonitorable, OutOfStep, ProsemError } from "./errors.js";
