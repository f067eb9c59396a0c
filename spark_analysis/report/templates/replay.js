"use strict";
// A run on a map, with its controls.
//
// `model` is what to show; its maker may add to it and then call `grown`:
//   duration           seconds that can be shown
//   area, range, roads metres
//   nodes              name, role (1: publishes, 2: subscribes), point (an access point), track
//                      ([[s, x, y], ...], by time), load ([[sent, received], ...], frames in each
//                      `width` seconds), details ([[s, [line, ...]], ...]: further lines to show),
//                      older, of what is not in the model (published, due, got: numbers of events;
//                      sent, received: of frames), if there is any
//   links, linked      a, b, start, end; the verb of a node that has one, as "hears"
//   events             publisher, sequence, topic, time, clients ({node, expected, time}), expected,
//                      got, hops, frames (how many hops it had; 0 if they are not known), end
//   frames             hops of all events by time: event, start, end, sender, number, to
//   marks              what happened: time, until, text, nodes, kind (of a fault: "nodes", "link",
//                      "partition" with its line, "jam" with its position; "handover"; or "")
//   now                if the run goes on: a function that returns until when all is known
function replayOf(room, model) {
  const $ = (name) => room.querySelector("[data-part=" + name + "]");
  const {nodes, links, events, frames} = model;

  // -- state -----------------------------------------------------------------------------------
  const start = events.length ? Math.max(0, events[0].time - 0.5) : 0;
  const state = {time: start, speed: 1, playing: false, following: false, node: null, event: null,
    until: null, recording: false};
  const speeds = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 2, 5, 10, 30, 60];
  const canvas = $("map"), strip = $("strip"), map = mapOf(canvas, strip, model, state);

  // The hops by which an event reached a client, traced back from it by hop number.
  function way(event, client) {
    const hops = [];
    let at = client.node, before = client.time, number = null;
    while (at !== event.publisher || number === null) {
      let best = null;
      for (const hop of event.hops)
        if (hop.end <= before + 2e-5 && hop.to.includes(at) && (number === null || hop.number === number) &&
            (best === null || hop.end > best.end)) best = hop;
      if (best === null) return number === 0 ? hops : hops.reverse();
      hops.push([best, at]);
      at = best.sender; before = best.start; number = best.number - 1;
      if (number === 0) break;
    }
    return hops.reverse();
  }

  function draw() {
    const {time} = state;
    map.draw();
    $("clock").textContent = clock(time);
    const slider = $("time");
    if (document.activeElement !== slider || state.playing) slider.value = time;
    slider.setAttribute("aria-valuetext", clock(time) + " of " + clock(model.duration));
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
      head.textContent = "Event " + event.sequence + " of " + publisher + (event.topic && ", topic " + event.topic);
      row(list, "published at " + event.time.toFixed(3) + " s; deliveries: " + event.got + " of " +
        event.expected + (event.frames ? "; frames: " + event.frames : ""));
      for (const client of event.clients) {
        const name = nodes[client.node].name;
        if (client.time === null) { row(list, name + (model.now ? ": not yet" : ": never arrived")).className = "failed"; continue; }
        const hops = client.node === event.publisher ? [] : way(event, client);
        const path = hops.length ? [nodes[hops[0][0].sender].name, ...hops.map(([, to]) => nodes[to].name)] : [];
        row(list, name + " after " + ms(client.time - event.time) +
          (path.length ? ": " + path.join(" → ") : client.node === event.publisher ? ", at its own node" : "") +
          (client.expected ? "" : " (not expected)"));
      }
    } else if (state.node !== null) {
      const node = nodes[state.node], [x, y] = map.moved(node, state.time);
      const older = {published: 0, due: 0, got: 0, sent: 0, received: 0, ...node.older};
      const past = node.load.slice(0, Math.floor(state.time / model.width) + 1);
      const first = node.load.findIndex(([sent, received]) => sent + received);
      const total = past.reduce(([s, r], [a, b]) => [s + a, r + b],
        first < past.length ? [older.sent, older.received] : [0, 0]);  // older ones were before
      const now = past.length ? past[past.length - 1] : [0, 0];
      head.textContent = node.name + ["", ", publisher", ", subscriber", ", publisher and subscriber"][node.role];
      row(list, "at " + x.toFixed(0) + ", " + y.toFixed(0) + " m");
      row(list, "so far sent " + total[0] + " and received " + total[1] + " frames by radio");
      row(list, "now sends " + (now[0] / model.width).toFixed(1) + " and receives " +
        (now[1] / model.width).toFixed(1) + " frames a second");
      const latest = (node.details || []).findLast(([time]) => time <= state.time);
      for (const text of latest ? latest[1] : []) row(list, text);
      const near = links.filter((link) => link.start <= state.time && state.time <= link.end &&
        (link.a === state.node || link.b === state.node));
      const names = near.map((link) => nodes[link.a === state.node ? link.b : link.a].name);
      row(list, names.length ? model.linked + " " + [...new Set(names)].join(", ") : model.linked + " nobody");
      const whole = !model.now && older.published > 0;  // it is not known when
      const sent = events.filter((event) => event.publisher === state.node && (whole || event.time <= state.time));
      if (sent.length + older.published)
        row(list, "events published" + (whole ? " in the whole run: " : ": ") + (sent.length + older.published));
      const got = events.flatMap((event) => event.clients.filter((client) => client.node === state.node));
      const due = got.filter((client) => client.expected);
      const here = due.filter((client) => client.time !== null).length;
      if (due.length + older.due) row(list, "events received " + (model.now ? "so far: " : "in the whole run: ") +
        (here + older.got) + " of " + (due.length + older.due));
    } else {
      head.textContent = "Nothing selected";
      row(list, `Click a node to see its traffic${events.length ? ", or select an event to see its path" : ""}.`);
    }
    for (const mark of model.marks)
      if (Math.abs(mark.time - state.time) < 1 || (mark.time <= state.time && state.time < mark.until))
        row(list, mark.time.toFixed(1) + " s: " + mark.text);
    box.replaceChildren(head, list);
  }

  // -- controls --------------------------------------------------------------------------------
  let before = null;
  function step(now) {
    if (!state.playing) return;
    if (state.following) go(model.now());  // until something else is selected
    else if (before !== null) go(state.time + state.speed * Math.min(0.1, (now - before) / 1000));
    before = now;
    const end = state.until !== null ? state.until : model.duration;
    if (!state.following && state.time >= end) {
      if (!model.now || state.until !== null) { play(false); return; }
      follow(true);
    }
    requestAnimationFrame(step);
  }
  // Show the run as it happens; selecting another time ends that.
  function follow(on) {
    state.following = on;
    $("live").setAttribute("aria-pressed", on);
    if (!on) return;
    state.until = null;
    faster(1);
    if (!state.playing) play(true);
  }
  function play(on) {
    if (!on && state.following) follow(false);
    if (!on && state.recording) recorder.stop();
    if (on && !model.now && state.time >= model.duration) state.time = 0;
    state.playing = on;
    before = null;
    $("play").textContent = on ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", on);
    if (on) requestAnimationFrame(step);
    else { state.until = null; describe(); say("Paused at " + clock(state.time)); }
  }
  let described = 0;
  function go(time) {
    state.time = Math.max(0, Math.min(model.duration, time));
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
  function chooseSpeed(speed) {
    if (state.following) follow(false);
    faster(speed);
  }
  function chooseNode(index) {
    state.node = index;
    state.event = null;
    $("node").value = index === null ? "" : index;
    $("event").value = $("missed").value = "";
    $("follow").disabled = true;
    draw();
    describe();
    if (index !== null) say(nodes[index].name + " selected");
  }
  function findWays(event) {
    const ways = new Map();
    for (const client of event.clients) if (client.time !== null && client.node !== event.publisher)
      for (const [hop, to] of way(event, client)) ways.set(event.hops.indexOf(hop) + ">" + to, [hop, to]);
    event.ways = [...ways.values()];
  }
  function chooseEvent(index) {
    state.event = index === null ? null : events[index];
    if (state.event !== null) {
      state.node = null;
      $("node").value = "";
      findWays(state.event);
      $("event").selectedIndex = index + 1;
      map.reveal([state.event.publisher, ...state.event.clients.map((client) => client.node)]);
      if (model.now && state.playing) play(false);  // or the present would take over
      go(state.event.end);
      say("Event " + state.event.sequence + " of " + nodes[state.event.publisher].name + " selected");
    } else $("event").value = "";
    $("missed").value = missed.includes(index) ? index : "";
    $("follow").disabled = state.event === null;
    draw();
    describe();
  }
  function slowly() {
    if (state.event === null) return;
    if (state.following) follow(false);
    const life = Math.max(state.event.end - state.event.time, 1e-4);
    faster(speeds.filter((speed) => speed <= life / 3).pop() || speeds[0]);
    go(state.event.time - 0.3 * state.speed);
    state.until = Math.min(model.duration, state.event.end + 0.6 * state.speed);
    play(true);
  }
  // Choose the next event, or the previous one, among these (numbers of events, in order).
  function neighbour(direction, among = [...events.keys()]) {
    const at = state.event !== null ? events.indexOf(state.event) + direction / 2
      : events.findLastIndex((event) => event.time < state.time) + 0.5;
    const next = direction > 0 ? among.find((index) => index > at) : among.findLast((index) => index < at);
    if (next !== undefined) chooseEvent(next);
  }

  // -- video -----------------------------------------------------------------------------------
  let recorder = null;
  // Play on and record the map until it pauses; the browser then saves the video.
  function record() {
    if (state.recording) { play(false); return; }
    const pieces = [];
    recorder = new MediaRecorder(canvas.captureStream(30), {videoBitsPerSecond: 8e6});
    recorder.addEventListener("dataavailable", ({data}) => pieces.push(data));
    recorder.addEventListener("stop", () => {
      state.recording = false;
      $("record").textContent = "Record";
      draw();
      const kind = recorder.mimeType, link = document.createElement("a");
      room.replay.video = new Blob(pieces, {type: kind});
      link.href = URL.createObjectURL(room.replay.video);
      link.download = document.title.replace(/[^\w-]+/g, "-") + (kind.includes("mp4") ? ".mp4" : ".webm");
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    state.recording = true;
    recorder.start(1000);
    $("record").textContent = "Stop";
    if (!state.playing) play(true);
    say("Recording");
  }

  speeds.forEach((speed) => $("speed").add(new Option(speed + "×", speed)));
  nodes.forEach((node, index) => $("node").add(new Option(node.name, index)));
  let listed = 0, missed = [];
  // Take in what was added to the model since the last time; its first `gone` events were dropped.
  function grown(gone = 0) {
    const list = $("event");
    for (let number = 0; number < gone; number++) list.remove(1);
    if (gone && state.event !== null && !events.includes(state.event)) chooseEvent(null);
    events.forEach((event, index) => {
      if (event.listed === event.got) return;
      const text = event.time.toFixed(2) + " s, " + nodes[event.publisher].name + " " + event.sequence +
        (event.topic && " (" + event.topic + ")") + ": " + event.got + " of " + event.expected;
      if (event.listed === undefined) list.add(new Option(text, listed++));
      else list.options[index + 1].text = text;
      event.listed = event.got;
    });
    if (!model.now) {  // until then anything may still arrive
      missed = [...events.keys()].filter((index) => events[index].got < events[index].expected);
      const of = nodes.some(({older}) => older && older.published) ? " shown" : "";
      $("missed").replaceChildren(new Option((missed.length ? "choose one of " + missed.length : "none") + of, ""));
      for (const index of missed) $("missed").add(new Option($("event").options[index + 1].text, index));
    }
    $("missed").disabled = !missed.length;
    map.grown();
    $("time").max = model.duration;
    $("live").hidden = !model.now;
    if (!model.now && state.following) play(false);
    if (state.event !== null) findWays(state.event);
    if (!state.playing || state.event !== null) describe();
    if (!state.playing) draw();
  }
  $("play").addEventListener("click", () => play(!state.playing));
  $("time").addEventListener("input", (happened) => { play(false); go(Number(happened.target.value)); });
  $("speed").addEventListener("change", (happened) => chooseSpeed(Number(happened.target.value)));
  $("node").addEventListener("change", ({target}) => chooseNode(target.value === "" ? null : Number(target.value)));
  $("event").addEventListener("change", ({target}) =>
    chooseEvent(target.selectedIndex > 0 ? target.selectedIndex - 1 : null));
  $("missed").addEventListener("change", ({target}) => chooseEvent(target.value === "" ? null : Number(target.value)));
  $("previous").addEventListener("click", () => neighbour(-1));
  $("next").addEventListener("click", () => neighbour(1));
  $("follow").addEventListener("click", slowly);
  $("live").addEventListener("click", () => follow(true));
  $("record").disabled = !canvas.captureStream || !window.MediaRecorder;
  $("record").addEventListener("click", record);
  function look(change) { change(); draw(); }
  $("closer").addEventListener("click", () => look(() => map.enlarge(1.5)));
  $("farther").addEventListener("click", () => look(() => map.enlarge(1 / 1.5)));
  $("whole").addEventListener("click", () => look(map.lookAtAll));
  // The wheel scrolls the page unless the map was clicked, or Ctrl is held (as browsers have it for two fingers).
  canvas.addEventListener("wheel", (happened) => {
    if (document.activeElement !== canvas && !happened.ctrlKey) return;
    happened.preventDefault();
    const lines = happened.deltaY * (happened.deltaMode ? 30 : 1);
    look(() => map.enlarge(2 ** (-lines / (happened.ctrlKey ? 60 : 240)), happened.offsetX, happened.offsetY));
  }, {passive: false});
  let held = null, dragged = false;
  canvas.addEventListener("pointerdown", (happened) => {
    held = happened.button === 0 && happened.pointerType !== "touch" ? [happened.clientX, happened.clientY] : null;
    dragged = false;
  });
  canvas.addEventListener("pointermove", (happened) => {
    if (held === null) return;
    const [dx, dy] = [happened.clientX - held[0], happened.clientY - held[1]];
    if (!dragged && Math.hypot(dx, dy) < 4) return;
    if (!dragged) canvas.setPointerCapture(happened.pointerId);
    dragged = true;
    held = [happened.clientX, happened.clientY];
    look(() => map.shift(dx, dy));
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = null; });
  canvas.addEventListener("click", (happened) => {
    if (dragged) { dragged = false; return; }
    const box = canvas.getBoundingClientRect();
    const x = happened.clientX - box.left, y = happened.clientY - box.top;
    const {node, event} = map.hit(x, y);
    if (event) chooseEvent(events.indexOf(event));
    else chooseNode(node === undefined ? null : node);
  });
  strip.addEventListener("click", (happened) => {
    const box = strip.getBoundingClientRect();
    if (state.following) play(false);
    go(model.duration * (happened.clientX - box.left - 8) / (box.width - 16));
  });
  room.addEventListener("keydown", (happened) => {
    if (["SELECT", "INPUT"].includes(happened.target.tagName) || happened.ctrlKey || happened.metaKey ||
        happened.altKey) return;
    const small = happened.shiftKey ? 0.01 : 1, at = speeds.indexOf(state.speed);
    const keys = {
      " ": () => play(!state.playing),
      ArrowLeft: () => { play(false); go(state.time - small); },
      ArrowRight: () => { play(false); go(state.time + small); },
      Home: () => { follow(false); go(0); },
      End: () => go(model.duration),
      "+": () => chooseSpeed(speeds[Math.min(speeds.length - 1, at + 1)]),
      "-": () => chooseSpeed(speeds[Math.max(0, at - 1)]),
      n: () => neighbour(1),
      p: () => neighbour(-1),
      f: slowly,
      m: () => neighbour(1, missed),
      M: () => neighbour(-1, missed),
      i: () => look(() => map.enlarge(1.5)),
      o: () => look(() => map.enlarge(1 / 1.5)),
      "0": () => look(map.lookAtAll),
      w: () => look(() => map.shift(0, 60)),
      a: () => look(() => map.shift(60, 0)),
      s: () => look(() => map.shift(0, -60)),
      d: () => look(() => map.shift(-60, 0)),
      l: () => { if (model.now) follow(true); },
      Escape: () => chooseNode(null),
    };
    const act = keys[happened.key];
    if (!act || (happened.key === " " && happened.target.tagName === "BUTTON")) return;
    happened.preventDefault();
    act();
  });
  // Resizing a canvas clears it.
  function fit() { map.fit(); draw(); }
  window.addEventListener("resize", fit);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { map.readColours(); draw(); });
  room.hidden = false;
  map.readColours();
  map.fit();
  faster(1);
  grown();
  go(start);
  describe();
  if (model.now) follow(true);
  room.replay = {state, nodes, events, links, frames, marks: model.marks, way, grown, fit,
    where: map.where, zoom: map.zoom, names: map.names};
  return room.replay;
}
