"use strict";
// A run that goes on, as the model of `replay.js`: what `testbed.live` reports, polled.
(() => {
  const part = (id) => document.getElementById(id);
  const scene = JSON.parse(part("replay-data").textContent);
  const ASK = 500, AGO = 0.8, LISTED = 30;
  // What is kept: a run may last for days.  What is older goes when there is a tenth more.
  const FRAMES = 80000, EVENTS = 4000, LINKS = 20000, HANDOVERS = 2000, MOVES = 100000;
  const COUNTS = 400000, LEAST = 500;
  const [x0, y0] = scene.area;
  const nodes = scene.nodes.map((node) => ({...node, track: [[0, x0, y0]], load: [], details: [],
    older: {published: 0, due: 0, got: 0, sent: 0, received: 0}}));
  const links = [], events = [], frames = [], marks = [], handovers = [];
  const ofNode = (all) => Math.max(LEAST, Math.ceil(all / nodes.length));
  const moves = ofNode(MOVES), counts = ofNode(COUNTS);  // of a node; as many of its words as moves
  const known = new Map(), open = new Map();
  const model = {...scene, duration: 0.1, width: 1, nodes, links, events, frames, marks};
  let next = "", until = 0, arrived = 0, shown = null, ended = null, failed = false, dropped = 0;
  document.title = scene.title + ", under way";

  // A little less than is known, so that there is something to go on with until the next answer.
  model.now = () => {
    const since = (performance.now() - arrived) / 1000;
    return ended ? until : Math.max(0, Math.min(until, until - AGO + since));
  };

  const key = (publisher, sequence) => publisher + ":" + sequence;
  const take = {
    move(node, time, x, y) {
      const {track, moved} = nodes[node];
      if (!moved) track[0] = [0, x, y];
      nodes[node].moved = true;
      if (track[track.length - 1][0] < time) track.push([time, x, y]);
    },
    missed() {  // this page came late, or slept: sums of all that it has follow
      dropped += events.length;
      for (const list of [links, events, frames]) list.length = 0;
      open.clear();
      known.clear();
      for (const {older} of nodes) Object.assign(older, {published: 0, due: 0, got: 0});
    },
    older(node, published, due, got) { Object.assign(nodes[node].older, {published, due, got}); },
    details(node, time, lines) { nodes[node].details.push([time, lines]); },
    range(node, metres) { nodes[node].range = metres; },
    handover(mark) { handovers.push(mark); },
    role(node, role) { nodes[node].role |= role; },
    link(a, b, start) {
      const link = {a, b, start, end: Infinity};
      open.set(key(a, b), link);
      links.push(link);
    },
    gone(a, b, end) {
      const link = open.get(key(a, b));
      if (link) link.end = end;
      open.delete(key(a, b));
    },
    event(publisher, sequence, topic, time, due) {
      const clients = due.map(([node, port]) => ({node, port, expected: true, time: null}));
      const event = {publisher, sequence, topic, time, clients, expected: due.length, got: 0, hops: [],
        frames: 0, end: time};
      known.set(key(publisher, sequence), event);
      events.push(event);
    },
    notify(publisher, sequence, node, port, time, expected) {
      const event = known.get(key(publisher, sequence));
      if (!event) {  // it is among the older ones
        if (expected) nodes[node].older.got++;
        return;
      }
      let client = event.clients.find((other) => other.node === node && other.port === port);
      if (!client) event.clients.push(client = {node, port, expected: false});
      client.time = time;
      event.got += client.expected ? 1 : 0;
      event.end = Math.max(event.end, time);
    },
  };

  function hop(publisher, sequence, start, end, sender, number, to) {
    const event = known.get(key(publisher, sequence));
    if (!event) return;
    const transmission = {event, start, end: Math.max(end, start + 1e-5), sender, number, to};
    event.hops.push(transmission);
    event.frames++;
    event.end = Math.max(event.end, transmission.end);
    frames.push(transmission);
  }

  function load(node, second, sent, received) {
    if (second === null) {  // the sum of all until now
      nodes[node].load = [];
      Object.assign(nodes[node].older, {sent, received});
      return;
    }
    while (second >= counts * model.width) widen();
    const {load} = nodes[node], index = Math.floor(second / model.width);
    while (load.length <= index) load.push([0, 0]);
    load[index] = [load[index][0] + sent, load[index][1] + received];
  }
  // Count frames in twice as many seconds each: numbers count all, however long the run.
  function widen() {
    model.width *= 2;
    for (const node of nodes) {
      const {load} = node, wide = [];
      for (let index = 0; index < load.length; index += 2) {
        const [sent, received] = load[index], [more, also] = load[index + 1] || [0, 0];
        wide.push([sent + more, received + also]);
      }
      node.load = wide;
    }
  }

  const full = (list, most) => list.length > 1.1 * most;
  function keep(list, kept) {
    let count = 0;
    for (const item of list) if (kept(item)) list[count++] = item;
    list.length = count;
  }
  const latest = (list, most) => { if (full(list, most)) list.splice(0, list.length - most); };
  // Forget what is too old; return how many events that are.
  function prune() {
    latest(handovers, HANDOVERS);
    for (const node of nodes) {
      if (node.moved) latest(node.track, moves);  // others' are those of the scenario
      latest(node.details, moves);
    }
    const ends = full(links, LINKS) ? links.map((link) => link.end).sort((one, other) => other - one)[LINKS] : 0;
    if (ends > 0) keep(links, (link) => link.end > ends || link.end === Infinity);
    const gone = full(events, EVENTS) ? events.splice(0, events.length - EVENTS) : [];
    for (const event of gone) {
      known.delete(key(event.publisher, event.sequence));
      nodes[event.publisher].older.published++;
      for (const client of event.clients) if (client.expected) {
        nodes[client.node].older.due++;
        nodes[client.node].older.got += client.time === null ? 0 : 1;
      }
    }
    if (gone.length) {
      const old = new Set(gone);
      keep(frames, (hop) => !old.has(hop.event));
    }
    if (full(frames, FRAMES)) {
      const old = new Set(frames.splice(0, frames.length - FRAMES));
      for (const event of new Set([...old].map((hop) => hop.event)))
        event.hops = event.hops.filter((hop) => !old.has(hop));
    }
    return gone.length;
  }

  // Take in an answer; return how many events are forgotten.
  function add(update) {
    if (update.tracks) update.tracks.forEach((track, node) => { nodes[node].track = track; nodes[node].leg = 0; });
    for (const [kind, ...rest] of update.log) take[kind](...rest);
    for (const entry of update.loads) load(...entry);
    for (const entry of update.hops) hop(...entry);
    frames.sort((one, other) => one.start - other.start);
    next = update.next.join(",");
    until = update.until;
    // What is told are the seconds in which a node sent or received: in others it was silent.
    if (until >= model.width) nodes.forEach((_, node) => load(node, until - model.width, 0, 0));
    arrived = performance.now();
    ended = update.ended;
    model.duration = Math.max(0.1, until);
    const gone = dropped + prune();
    dropped = 0;
    marks.splice(0, marks.length, ...update.marks, ...handovers);
    return gone;
  }

  function row(event) {
    const item = document.createElement("li");
    const to = event.clients.filter((client) => client.time !== null).map((client) =>
      nodes[client.node].name + " after " + (1000 * (client.time - event.time)).toFixed(1) + " ms");
    item.textContent = event.time.toFixed(1) + " s: event " + event.sequence + " of " +
      nodes[event.publisher].name + ": " + (to.join(", ") || "no delivery yet");
    return item;
  }
  function show(update) {
    part("clock").textContent = update.ended ? "ended: " + update.ended + ", at " + update.time.toFixed(1) + " s" :
      update.time.toFixed(0) + " s" + (scene.planned ? " of " + scene.planned + " s" : "");
    part("counts").textContent = update.published === undefined ?
      update.linked + " of " + update.radios + " radios have an access point" :
      update.published + " events published, " + update.delivered + " deliveries of " + update.expected +
      " expected, as captured so far";
    const now = marks.filter((mark) => mark.kind === "handover" ? until - mark.time < 5 :
      mark.time <= update.time && (update.time < mark.until || (mark.kind === "" && update.time - mark.time < 5)));
    part("faults").textContent = now.length ? "Now: " + now.map((mark) => mark.text).join("; ") : "";
    part("events").hidden = events.length === 0;
    part("events").replaceChildren(...events.slice(-LISTED).reverse().map(row));
  }

  function end() {
    delete model.now;
    if (shown) shown.grown();
    document.querySelector("[data-part=said]").textContent = part("clock").textContent;
  }

  async function ask() {
    let update;
    try {
      const answer = await fetch("state?since=" + next);
      if (!answer.ok) {
        part("clock").textContent += " (this page's process has failed: the run's terminal says why)";
        end();
        return;
      }
      update = await answer.json();
      failed = false;
    } catch {
      if (!failed) {
        failed = true;
        setTimeout(ask, ASK);
        return;
      }
      part("clock").textContent += " (the run has ended)";
      end();
      return;
    }
    if (update.time !== null) {
      const first = shown === null, moved = update.tracks || update.log.some(([kind]) => kind === "move");
      const gone = add(update);
      if (first) shown = replayOf(part("replay"), model);
      else shown.grown(gone);
      if (moved && !first) shown.fit();
      show(update);
    }
    if (update.ended) setTimeout(end, 200);
    else setTimeout(ask, ASK);
  }
  ask();
})();
