/** Where brokers stand: a tree from the server outwards, each ring one hop further. */

/**
 * Places by name, as {x, y, depth, angle} with |x|, |y| ≤ 1. A subtree has a sector of its own, a node stands in the
 * middle of it, and so no two edges of the tree cross. Links that are not in the tree (cycles) are drawn as they fall. O(nodes + links).
 */
export function radial(names, links, root) {
  const near = new Map(names.map((name) => [name, []]));
  for (const { from, to } of links) {
    near.get(from)?.push(to);
    near.get(to)?.push(from);
  }
  const children = new Map();
  const depths = new Map();
  const roots = [root, ...names].filter((name) => name !== undefined);
  const tops = [];
  for (const top of roots) {
    if (depths.has(top)) continue;
    tops.push(top);
    depths.set(top, tops.length > 1 ? 1 : 0);
    const queue = [top];
    for (let at = 0; at < queue.length; at += 1) {
      const name = queue[at];
      const found = near.get(name).filter((other) => !depths.has(other));
      for (const other of new Set(found)) depths.set(other, depths.get(name) + 1);
      children.set(name, [...new Set(found)]);
      queue.push(...new Set(found));
    }
  }
  if (tops.length > 1) children.set(tops[0], [...children.get(tops[0]), ...tops.slice(1)]);

  const deepest = Math.max(1, ...depths.values());
  const order = [];
  const walk = [tops[0]];
  while (walk.length) {
    const name = walk.pop();
    order.push(name);
    walk.push(...children.get(name));
  }
  // The share of the circle: more on an inner ring, so that neighbours are as far apart there as on an outer one.
  const shares = new Map();
  for (const name of order.reverse()) {
    const own = deepest / Math.max(1, depths.get(name));
    shares.set(
      name,
      Math.max(
        own,
        children.get(name).reduce((sum, child) => sum + shares.get(child), 0),
      ),
    );
  }
  const places = new Map();
  const spread = [[tops[0], 0, 2 * Math.PI]];
  while (spread.length) {
    const [name, start, stop] = spread.pop();
    const depth = depths.get(name);
    const angle = (start + stop) / 2 - Math.PI; // a lone child stands to the right
    const radius = depth / deepest;
    places.set(name, { x: radius * Math.cos(angle), y: radius * Math.sin(angle), depth, angle });
    let at = start;
    const total = children.get(name).reduce((sum, child) => sum + shares.get(child), 0);
    for (const child of children.get(name)) {
      const width = ((stop - start) * shares.get(child)) / total;
      spread.push([child, at, at + width]);
      at += width;
    }
  }
  return places;
}

/** The least distance of two neighbours on one ring: how large a node may be drawn. O(n log n). */
export function nearest(places) {
  const rings = new Map();
  for (const place of places.values()) {
    if (!rings.has(place.depth)) rings.set(place.depth, []);
    rings.get(place.depth).push(place);
  }
  let least = 1;
  for (const ring of rings.values()) {
    ring.sort((a, b) => a.angle - b.angle);
    ring.forEach((place, at) => {
      const next = ring[(at + 1) % ring.length];
      if (next !== place) least = Math.min(least, Math.hypot(place.x - next.x, place.y - next.y));
    });
  }
  return least;
}
