"use strict";
(() => {
  const room = document.getElementById("replay");
  const data = JSON.parse(document.getElementById("replay-data").textContent);
  const $ = (name) => room.querySelector("[data-part=" + name + "]");
  const TICKS = 100000, LINGER = 0.5;

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

  // -- what was captured ---------------------------------------------------------------------
  const [x0, y0, x1, y1] = data.area;
  const nodes = data.nodes.map((node) => ({...node, track: [], leg: 0}));
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
  }
  frames.sort((one, other) => one.start - other.start);
  const longest = frames.reduce((most, hop) => Math.max(most, hop.end - hop.start), 0);
  const buckets = Math.floor(data.duration / data.width) + 1;
  from = unpack(data.load);
  for (const node of nodes) {
    node.load = [];
    for (let left = buckets; left > 0; left--) node.load.push([from.next(), from.next()]);
  }

  // -- state -----------------------------------------------------------------------------------
  const start = events.length ? Math.max(0, events[0].time - 0.5) : 0;
  const state = {time: start, speed: 1, playing: false, node: null, event: null, until: null};
  const speeds = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 5, 10, 30, 60];
  const canvas = $("map"), strip = $("strip"), pen = canvas.getContext("2d");
  const colours = {};

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "muted", "grid", "card", "blue", "vermilion", "green", "purple",
      "orange", "sky", "bad"])
      colours[name] = style.getPropertyValue("--" + name).trim();
  }

  function moved(node, time) {
    const track = node.track;
    let leg = node.leg;
    if (track[leg][0] > time) leg = 0;
    while (leg + 1 < track.length && track[leg + 1][0] <= time) leg++;
    node.leg = leg;
    const [t, x, y] = track[leg];
    if (leg + 1 === track.length || time <= t) return [x, y];
    const [t2, x2, y2] = track[leg + 1], share = t2 > t ? (time - t) / (t2 - t) : 0;
    return [x + (x2 - x) * share, y + (y2 - y) * share];
  }

  // The hops by which an event came to a client: back from it, a hop number at a time.
  function way(event, client) {
    const found = [];
    let at = client.node, before = client.time, number = null;
    while (at !== event.publisher || number === null) {
      let best = null;
      for (const hop of event.hops)
        if (hop.end <= before + 2e-5 && hop.to.includes(at) && (number === null || hop.number === number) &&
            (best === null || hop.end > best.end)) best = hop;
      if (best === null) return number === 0 ? found : found.reverse();
      found.push([best, at]);
      at = best.sender; before = best.start; number = best.number - 1;
      if (number === 0) break;
    }
    return found.reverse();
  }

  // -- drawing ---------------------------------------------------------------------------------
  let scale = 1, left = 0, top = 0, positions = [];

  function fit() {
    const ratio = window.devicePixelRatio || 1;
    let low = [x0, y0], high = [x1, y1];
    for (const node of nodes) for (const [, x, y] of node.track) {
      low = [Math.min(low[0], x), Math.min(low[1], y)];
      high = [Math.max(high[0], x), Math.max(high[1], y)];
    }
    const width = canvas.clientWidth || 600, margin = 26;
    const wide = Math.max(high[0] - low[0], 1), tall = Math.max(high[1] - low[1], 1);
    const height = Math.max(140, Math.min(window.innerHeight * 0.68, 620,
      (width - 2 * margin) * tall / wide + 2 * margin));
    canvas.style.height = height + "px";
    for (const [each, h] of [[canvas, height], [strip, 26]]) {
      each.width = Math.round(each.clientWidth * ratio);
      each.height = Math.round(h * ratio);
      each.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    scale = Math.min((width - 2 * margin) / wide, (height - 2 * margin) / tall);
    left = (width - scale * wide) / 2 - scale * low[0];
    top = (height + scale * tall) / 2 + scale * low[1];
  }
  const px = ([x, y]) => [left + scale * x, top - scale * y];

  function line(a, b, colour, width, alpha, dash) {
    pen.globalAlpha = alpha;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.setLineDash(dash || []);
    pen.beginPath();
    pen.moveTo(...positions[a]);
    pen.lineTo(...positions[b]);
    pen.stroke();
  }
  function disc([x, y], radius, colour, alpha, filled) {
    pen.globalAlpha = alpha;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    if (filled) { pen.fillStyle = colour; pen.fill(); }
    else { pen.strokeStyle = colour; pen.lineWidth = 2; pen.setLineDash([]); pen.stroke(); }
  }
  const down = (node, time) => data.marks.find((mark) => mark.down && mark.nodes.length === 1 &&
    mark.nodes[0] === node && mark.time <= time && time < mark.until);
  const cut = (a, b, time) => data.marks.find((mark) => mark.down && mark.nodes.length === 2 &&
    mark.nodes.includes(a) && mark.nodes.includes(b) && mark.time <= time && time < mark.until);

  function draw() {
    const {time} = state, width = canvas.clientWidth, height = canvas.clientHeight;
    pen.globalAlpha = 1;
    pen.clearRect(0, 0, width, height);
    positions = nodes.map((node) => px(moved(node, time)));
    pen.strokeStyle = colours.grid;
    pen.setLineDash([]);
    pen.lineWidth = 1;
    const [cx, cy] = px([x0, y1]);
    pen.strokeRect(cx, cy, scale * (x1 - x0), scale * (y1 - y0));
    pen.fillStyle = colours.muted;
    pen.globalAlpha = 0.3;
    for (let i = 0; i + 1 < data.roads.length; i += 2) {
      const [x, y] = px([data.roads[i], data.roads[i + 1]]);
      pen.fillRect(x - 1, y - 1, 2, 2);
    }
    const many = nodes.length > 150;
    const other = state.event !== null ? 0.35 : 1;
    for (const link of links) {
      if (time < link.start || time > link.end) continue;
      const near = Math.min(time - link.start + 0.25, link.end - time + 0.25, 1);
      const mine = state.node === null || link.a === state.node || link.b === state.node;
      line(link.a, link.b, colours.sky, many ? 0.7 : 1.3, near * other * (mine ? 0.55 : 0.12));
    }
    for (const mark of data.marks)
      if (mark.down && mark.nodes.length === 2 && mark.time <= time && time < mark.until)
        line(mark.nodes[0], mark.nodes[1], colours.bad, 2, 0.9, [3, 4]);
    if (state.node !== null && data.range) {
      pen.setLineDash([2, 4]);
      disc(positions[state.node], scale * data.range, colours.muted, 0.8, false);
    }
    const linger = LINGER * Math.min(state.speed, 4);
    drawEvent(time);
    let low = 0, high = frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (frames[middle].start < time - linger - longest) low = middle + 1; else high = middle;
    }
    for (let i = low; i < frames.length && frames[i].start <= time; i++) {
      const hop = frames[i];
      if (state.event !== null && hop.event !== state.event) continue;
      const age = (time - hop.end) / linger;
      if (age > 1) continue;
      for (const to of hop.to) {
        if (age <= 0) {
          const share = (time - hop.start) / (hop.end - hop.start);
          const [ax, ay] = positions[hop.sender], [bx, by] = positions[to];
          line(hop.sender, to, colours.orange, 1.5, 0.5);
          disc([ax + (bx - ax) * share, ay + (by - ay) * share], 4, colours.orange, 1, true);
        } else if (state.playing || state.event === null)
          line(hop.sender, to, colours.orange, 2, 0.8 * (1 - age));
      }
    }
    const size = Math.max(3, Math.min(7, 34 / Math.sqrt(nodes.length)));
    nodes.forEach((node, index) => {
      const [x, y] = positions[index], dead = down(index, time);
      pen.globalAlpha = dead ? 0.35 : 1;
      pen.fillStyle = [colours.muted, colours.vermilion, colours.blue, colours.purple][node.role];
      pen.beginPath();
      if (node.role === 1) {
        pen.moveTo(x, y - 1.3 * size); pen.lineTo(x + 1.2 * size, y + size);
        pen.lineTo(x - 1.2 * size, y + size);
      } else if (node.role) pen.rect(x - size, y - size, 2 * size, 2 * size);
      else pen.arc(x, y, size, 0, 2 * Math.PI);
      pen.fill();
      if (node.point) disc([x, y], size + 3, colours.ink, 1, false);
      if (dead) {
        pen.globalAlpha = 1;
        pen.strokeStyle = colours.bad; pen.lineWidth = 2.5; pen.setLineDash([]);
        pen.beginPath();
        pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size);
        pen.moveTo(x + size, y - size); pen.lineTo(x - size, y + size);
        pen.stroke();
      }
      if (index === state.node) disc([x, y], size + 5, colours.ink, 1, false);
      if (nodes.length <= 60 || index === state.node) {
        pen.globalAlpha = 1;
        pen.font = "12px system-ui, sans-serif";
        pen.lineWidth = 3;
        pen.strokeStyle = colours.card;
        pen.fillStyle = colours.ink;
        pen.strokeText(node.name, x + size + 3, y - size);
        pen.fillText(node.name, x + size + 3, y - size);
      }
    });
    const shown = state.event !== null ? [state.event] : events;
    for (const event of shown) {
      if (event.time > time || event.end + linger < time) continue;
      if (time - event.time < linger)
        disc(positions[event.publisher], size + 4 + 8 * (time - event.time) / linger,
          colours.vermilion, 1 - (time - event.time) / linger, false);
      for (const client of event.clients) {
        const age = client.time === null ? -1 : (time - client.time) / linger;
        if (age >= 0 && age < 1)
          disc(positions[client.node], size + 4 + 8 * age, colours.green, 1 - age, false);
      }
    }
    pen.globalAlpha = 1;
    pen.setLineDash([]);
    drawStrip();
    $("clock").textContent = clock(time);
    const slider = $("time");
    if (document.activeElement !== slider || state.playing) slider.value = time;
    slider.setAttribute("aria-valuetext", clock(time) + " of " + clock(data.duration));
  }

  function drawEvent(time) {
    const event = state.event;
    if (event === null) return;
    for (const hop of event.hops)
      if (hop.end <= time) for (const to of hop.to) line(hop.sender, to, colours.orange, 1, 0.25);
    for (const [hop, to] of event.ways) if (hop.end <= time) {
      line(hop.sender, to, colours.orange, 3, 0.95);
      const [ax, ay] = positions[hop.sender], [bx, by] = positions[to];
      pen.globalAlpha = 1;
      pen.fillStyle = colours.ink;
      pen.font = "bold 11px system-ui, sans-serif";
      pen.fillText(hop.number, (ax + bx) / 2 + 4, (ay + by) / 2 - 4);
    }
    for (const client of event.clients) {
      const there = client.time !== null && client.time <= time;
      if (client.expected || there)
        disc(positions[client.node], 12, there ? colours.green : colours.bad, 1, false);
    }
  }

  function drawStrip() {
    const brush = strip.getContext("2d"), width = strip.clientWidth;
    brush.clearRect(0, 0, width, 26);
    const at = (time) => 8 + (width - 16) * time / data.duration;
    for (const event of events) {
      brush.fillStyle = event.got < event.expected ? colours.bad : colours.blue;
      brush.globalAlpha = event === state.event ? 1 : 0.55;
      brush.fillRect(at(event.time), event === state.event ? 2 : 8, event === state.event ? 3 : 1.5, 14);
    }
    brush.globalAlpha = 1;
    for (const mark of data.marks) {
      brush.fillStyle = colours.orange;
      brush.beginPath();
      brush.moveTo(at(mark.time) - 4, 0); brush.lineTo(at(mark.time) + 4, 0);
      brush.lineTo(at(mark.time), 8);
      brush.fill();
    }
    brush.fillStyle = colours.ink;
    brush.fillRect(at(state.time), 0, 2, 26);
  }

  // -- words -----------------------------------------------------------------------------------
  function clock(time) {
    return time.toFixed(state.speed < 0.05 ? 4 : state.speed < 1 ? 3 : 1) + " s";
  }
  function say(text) { $("said").textContent = text; }
  function row(list, text) {
    const item = document.createElement("li");
    item.textContent = text;
    list.append(item);
    return item;
  }
  const ms = (seconds) => seconds < 1 ? (1000 * seconds).toFixed(1) + " ms" : seconds.toFixed(3) + " s";

  function describe() {
    const box = $("details"), head = document.createElement("h4"), list = document.createElement("ul");
    if (state.event !== null) {
      const event = state.event, publisher = nodes[event.publisher].name;
      head.textContent = "Event " + event.sequence + " of " + publisher + ", topic " + event.topic;
      row(list, "published at " + event.time.toFixed(3) + " s; " + event.got + " of " +
        event.expected + " deliveries; " + event.hops.length + " frames");
      for (const client of event.clients) {
        const name = nodes[client.node].name;
        if (client.time === null) { row(list, name + ": never arrived").className = "failed"; continue; }
        const hops = client.node === event.publisher ? [] : way(event, client);
        const path = hops.length ? [nodes[hops[0][0].sender].name, ...hops.map(([, to]) => nodes[to].name)] : [];
        row(list, name + " after " + ms(client.time - event.time) +
          (path.length ? ": " + path.join(" → ") : client.node === event.publisher ? ", at its own node" : "") +
          (client.expected ? "" : " (not expected)"));
      }
    } else if (state.node !== null) {
      const node = nodes[state.node], [x, y] = moved(node, state.time);
      const so = Math.min(buckets, Math.floor(state.time / data.width) + 1);
      const total = node.load.slice(0, so).reduce(([s, r], [a, b]) => [s + a, r + b], [0, 0]);
      const now = node.load[so - 1];
      head.textContent = node.name + ["", ", publisher", ", subscriber", ", publisher and subscriber"][node.role];
      row(list, "at " + x.toFixed(0) + ", " + y.toFixed(0) + " m");
      row(list, "so far sent " + total[0] + " and received " + total[1] + " frames by radio");
      row(list, "about now sends " + (now[0] / data.width).toFixed(1) + " and receives " +
        (now[1] / data.width).toFixed(1) + " frames a second");
      const near = links.filter((link) => link.start <= state.time && state.time <= link.end &&
        (link.a === state.node || link.b === state.node));
      const names = near.map((link) => nodes[link.a === state.node ? link.b : link.a].name);
      row(list, names.length ? "hears " + [...new Set(names)].join(", ") : "hears nobody");
      const sent = events.filter((event) => event.publisher === state.node && event.time <= state.time);
      if (sent.length) row(list, "has published " + sent.length + " events");
      const got = events.flatMap((event) => event.clients.filter((client) => client.node === state.node));
      const due = got.filter((client) => client.expected);
      if (due.length) row(list, "in the whole run got " + due.filter((client) => client.time !== null).length +
        " of " + due.length + " events that were for it");
    } else {
      head.textContent = "Nothing chosen";
      row(list, "Click a node for its traffic, or choose an event for its way.");
    }
    for (const mark of data.marks)
      if (Math.abs(mark.time - state.time) < 1) row(list, mark.time.toFixed(1) + " s: " + mark.text);
    box.replaceChildren(head, list);
  }

  // -- controls --------------------------------------------------------------------------------
  let before = null;
  function step(now) {
    if (!state.playing) return;
    if (before !== null) go(state.time + state.speed * Math.min(0.1, (now - before) / 1000));
    before = now;
    const end = state.until !== null ? state.until : data.duration;
    if (state.time >= end) { play(false); return; }
    requestAnimationFrame(step);
  }
  function play(on) {
    if (on && state.time >= data.duration) state.time = 0;
    state.playing = on;
    before = null;
    $("play").textContent = on ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", on);
    if (on) requestAnimationFrame(step);
    else { state.until = null; describe(); say("Paused at " + clock(state.time)); }
  }
  let described = 0;
  function go(time) {
    state.time = Math.max(0, Math.min(data.duration, time));
    draw();
    if (!state.playing || performance.now() - described > 500) {
      described = performance.now();
      if (state.event === null) describe();
    }
  }
  function faster(speed) {
    state.speed = speed;
    $("speed").value = speed;
    draw();
  }
  function chooseNode(index) {
    state.node = index;
    state.event = null;
    $("node").value = index === null ? "" : index;
    $("event").value = "";
    $("follow").disabled = true;
    draw();
    describe();
    if (index !== null) say(nodes[index].name + " chosen");
  }
  function chooseEvent(index) {
    state.event = index === null ? null : events[index];
    if (state.event !== null) {
      state.node = null;
      $("node").value = "";
      const ways = new Map();
      for (const client of state.event.clients) if (client.time !== null && client.node !== state.event.publisher)
        for (const [hop, to] of way(state.event, client)) ways.set(state.event.hops.indexOf(hop) + ">" + to, [hop, to]);
      state.event.ways = [...ways.values()];
      $("event").value = index;
      go(state.event.end);
      say("Event " + state.event.sequence + " of " + nodes[state.event.publisher].name + " chosen");
    } else $("event").value = "";
    $("follow").disabled = state.event === null;
    draw();
    describe();
  }
  function follow() {
    if (state.event === null) return;
    const life = Math.max(state.event.end - state.event.time, 1e-4);
    faster(speeds.filter((speed) => speed <= life / 3).pop() || speeds[0]);
    go(state.event.time - 0.3 * state.speed);
    state.until = state.event.end + 0.6 * state.speed;
    play(true);
  }
  function neighbour(direction) {
    const at = state.event !== null ? events.indexOf(state.event) + direction
      : direction > 0 ? events.findIndex((event) => event.time >= state.time)
      : events.findLastIndex((event) => event.time < state.time);
    if (events[at]) chooseEvent(at);
  }

  speeds.forEach((speed) => $("speed").add(new Option(speed + "×", speed)));
  nodes.forEach((node, index) => $("node").add(new Option(node.name, index)));
  events.forEach((event, index) => $("event").add(new Option(event.time.toFixed(2) + " s, " +
    nodes[event.publisher].name + " " + event.sequence + " (" + event.topic + "): " +
    event.got + " of " + event.expected, index)));
  $("time").max = data.duration;
  $("play").addEventListener("click", () => play(!state.playing));
  $("time").addEventListener("input", (happened) => { play(false); go(Number(happened.target.value)); });
  $("speed").addEventListener("change", (happened) => faster(Number(happened.target.value)));
  $("node").addEventListener("change", ({target}) => chooseNode(target.value === "" ? null : Number(target.value)));
  $("event").addEventListener("change", ({target}) => chooseEvent(target.value === "" ? null : Number(target.value)));
  $("previous").addEventListener("click", () => neighbour(-1));
  $("next").addEventListener("click", () => neighbour(1));
  $("follow").addEventListener("click", follow);
  canvas.addEventListener("click", (happened) => {
    const box = canvas.getBoundingClientRect();
    const x = happened.clientX - box.left, y = happened.clientY - box.top;
    const away = positions.map(([a, b]) => Math.hypot(a - x, b - y));
    const nearest = away.indexOf(Math.min(...away));
    if (away[nearest] < 22) { chooseNode(nearest); return; }
    const open = frames.filter((hop) => hop.start <= state.time && state.time - hop.end < LINGER * state.speed);
    for (const hop of open) for (const to of hop.to) {
      const [ax, ay] = positions[hop.sender], [bx, by] = positions[to];
      const length = Math.hypot(bx - ax, by - ay) || 1;
      const share = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length / length;
      if (share > 0 && share < 1 && Math.abs((x - ax) * (by - ay) - (y - ay) * (bx - ax)) / length < 6) {
        chooseEvent(events.indexOf(hop.event));
        return;
      }
    }
    chooseNode(null);
  });
  strip.addEventListener("click", (happened) => {
    const box = strip.getBoundingClientRect();
    go(data.duration * (happened.clientX - box.left - 8) / (box.width - 16));
  });
  room.addEventListener("keydown", (happened) => {
    if (["SELECT", "INPUT"].includes(happened.target.tagName) || happened.ctrlKey || happened.metaKey) return;
    const small = happened.shiftKey ? 0.01 : 1, at = speeds.indexOf(state.speed);
    const keys = {
      " ": () => play(!state.playing),
      ArrowLeft: () => { play(false); go(state.time - small); },
      ArrowRight: () => { play(false); go(state.time + small); },
      Home: () => go(0),
      End: () => go(data.duration),
      "+": () => faster(speeds[Math.min(speeds.length - 1, at + 1)]),
      "-": () => faster(speeds[Math.max(0, at - 1)]),
      n: () => neighbour(1),
      p: () => neighbour(-1),
      f: follow,
      Escape: () => chooseNode(null),
    };
    const act = keys[happened.key];
    if (!act || (happened.key === " " && happened.target.tagName === "BUTTON")) return;
    happened.preventDefault();
    act();
  });
  window.addEventListener("resize", () => { fit(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  room.hidden = false;
  readColours();
  fit();
  faster(1);
  go(start);
  describe();
  room.replay = {state, nodes, events, links, frames, way, where: (index) => positions[index]};
})();
