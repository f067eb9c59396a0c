"use strict";
// What `spark_analysis.replay.data` has embedded in the page, as the model of `replay.js`.
(() => {
  const data = JSON.parse(document.getElementById("replay-data").textContent);
  const TICKS = 100000;

  // Numbers as spark_analysis.replay.packing writes them.
  function unpack(text) {
    const raw = atob(text);
    let at = 0;
    return {
      next() {
        let value = 0, scale = 1, byte;
        do {
          byte = raw.charCodeAt(at++);
          value += (byte & 127) * scale;
          scale *= 128;
        } while (byte > 127);
        return value;
      },
      signed() {
        const value = this.next();
        return value % 2 ? -(value + 1) / 2 : value / 2;
      },
      more: () => at < raw.length,
    };
  }

  const [x0, y0, x1, y1] = data.area;
  const nodes = data.nodes.map((node) => ({...node, track: []}));
  let from = unpack(data.tracks);
  for (const node of nodes) {
    let t = 0, x = 0, y = 0;
    for (let left = from.next(); left > 0; left--) {
      t += from.signed(); x += from.signed(); y += from.signed();
      node.track.push([t / 100, x0 + x / 10, y0 + y / 10]);
    }
  }
  const links = [];
  from = unpack(data.links);
  while (from.more()) {
    const a = from.next(), b = from.next();
    let t = 0;
    for (let left = from.next(); left > 0; left--) {
      const start = t + from.next(), end = start + from.next();
      links.push({a, b, start: start / 10, end: end / 10});
      t = end;
    }
  }
  const events = [];
  from = unpack(data.events);
  let tick = 0;
  while (from.more()) {
    const event = {publisher: from.next(), sequence: from.next(), topic: data.topics[from.next()]};
    tick += from.next();
    event.tick = tick;
    event.time = tick / TICKS;
    event.clients = [];
    for (let left = from.next(); left > 0; left--) {
      const node = from.next(), expected = from.next() > 0, late = from.next();
      event.clients.push({node, expected, time: late ? event.time + (late - 1) / TICKS : null});
    }
    event.expected = event.clients.filter((client) => client.expected).length;
    event.got = event.clients.filter((client) => client.expected && client.time !== null).length;
    event.hops = [];
    event.end = Math.max(event.time, ...event.clients.map((client) => client.time || 0));
    events.push(event);
  }
  from = unpack(data.hops);
  const frames = [];
  for (const event of events) {
    let at = event.tick;
    for (let left = from.more() ? from.next() : 0; left > 0; left--) {
      at += from.next();
      const hop = {event, start: at / TICKS, sender: from.next(), number: from.next()};
      hop.end = hop.start + from.next() / TICKS;
      hop.to = [];
      for (let count = from.next(); count > 0; count--) hop.to.push(from.next());
      event.hops.push(hop);
      event.end = Math.max(event.end, hop.end);
      frames.push(hop);
    }
    event.frames = event.hops.length;
  }
  frames.sort((one, other) => one.start - other.start);
  const buckets = Math.floor(data.duration / data.width) + 1;
  from = unpack(data.load);
  for (const node of nodes) {
    node.load = [];
    for (let left = buckets; left > 0; left--) node.load.push([from.next(), from.next()]);
  }
  replayOf(document.getElementById("replay"), {...data, linked: "hears", nodes, links, events, frames});
})();
