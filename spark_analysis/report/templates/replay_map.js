"use strict";
// Draws the model of `replay.js`: the map at the time of `state`, and the strip of time below it.
function mapOf(canvas, strip, model, state) {
  const LINGER = 0.5, MANY = 150, CLOSEST = 60;
  const {nodes, links, events, frames} = model, [x0, y0, x1, y1] = model.area;
  const pen = canvas.getContext("2d"), colours = {};
  let scale = 1, left = 0, top = 0, positions = [], longest = 0, named = new Map();
  let zoom = 1, panX = 0, panY = 0, whole = {scale, left, top};

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "page", "muted", "grid", "card", "blue", "vermilion", "green", "purple",
      "orange", "sky", "bad"])
      colours[name] = style.getPropertyValue("--" + name).trim();
  }

  function moved(node, time) {
    const track = node.track;
    let leg = node.leg || 0;
    if (leg >= track.length || track[leg][0] > time) leg = 0;  // old points may have been dropped
    while (leg + 1 < track.length && track[leg + 1][0] <= time) leg++;
    node.leg = leg;
    const [t, x, y] = track[leg];
    if (leg + 1 === track.length || time <= t) return [x, y];
    const [t2, x2, y2] = track[leg + 1], share = t2 > t ? (time - t) / (t2 - t) : 0;
    return [x + (x2 - x) * share, y + (y2 - y) * share];
  }

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
    for (const [surface, h] of [[canvas, height], [strip, 26]]) {
      surface.width = Math.round(surface.clientWidth * ratio);
      surface.height = Math.round(h * ratio);
      surface.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    const all = Math.min((width - 2 * margin) / wide, (height - 2 * margin) / tall);
    whole = {scale: all, left: (width - all * wide) / 2 - all * low[0], top: (height + all * tall) / 2 + all * low[1]};
    look(zoom, panX, panY);
  }
  // Show the map enlarged, shifted by pixels; what is around the map does not come into view.
  function look(by, x, y) {
    zoom = Math.min(CLOSEST, Math.max(1, by));
    panX = Math.min(0, Math.max((1 - zoom) * canvas.clientWidth, x));
    panY = Math.min(0, Math.max((1 - zoom) * canvas.clientHeight, y));
    scale = zoom * whole.scale;
    left = zoom * whole.left + panX;
    top = zoom * whole.top + panY;
  }
  // Enlarge the map by a factor; the point (x, y) of the canvas stays where it is.
  function enlarge(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const by = Math.min(CLOSEST, Math.max(1, zoom * factor)) / zoom;
    look(zoom * by, x - by * (x - panX), y - by * (y - panY));
  }
  function shift(dx, dy) { look(zoom, panX + dx, panY + dy); }
  function lookAtAll() { look(1, 0, 0); }
  const visible = ([x, y]) => x >= 0 && y >= 0 && x <= canvas.clientWidth && y <= canvas.clientHeight;
  // Show all, unless these nodes are in view.
  function reveal(indices) {
    if (!indices.every((index) => visible(px(moved(nodes[index], state.time))))) lookAtAll();
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
  const at = (time) => model.marks.filter((mark) => mark.time <= time && time < mark.until);

  function draw() {
    const {time} = state, width = canvas.clientWidth, height = canvas.clientHeight;
    pen.globalAlpha = 1;
    pen.fillStyle = colours.page;
    pen.fillRect(0, 0, width, height);  // a video has no page behind it
    positions = nodes.map((node) => px(moved(node, time)));
    pen.strokeStyle = colours.grid;
    pen.setLineDash([]);
    pen.lineWidth = 1;
    const [cx, cy] = px([x0, y1]);
    pen.strokeRect(cx, cy, scale * (x1 - x0), scale * (y1 - y0));
    pen.fillStyle = colours.muted;
    pen.globalAlpha = 0.3;
    for (let i = 0; i + 1 < model.roads.length; i += 2) {
      const [x, y] = px([model.roads[i], model.roads[i + 1]]);
      pen.fillRect(x - 1, y - 1, 2, 2);
    }
    const many = nodes.length > MANY;
    const other = state.event !== null ? 0.35 : 1;
    for (const link of links) {
      if (time < link.start || time > link.end) continue;
      const near = Math.min(time - link.start + 0.25, link.end - time + 0.25, 1);
      const mine = state.node === null || link.a === state.node || link.b === state.node;
      line(link.a, link.b, colours.sky, many ? 0.7 : 1.3, near * other * (mine ? (many ? 0.35 : 0.55) : 0.12));
    }
    const faults = at(time);
    for (const {kind, nodes: between, line: across, position} of faults) {
      if (kind === "link") line(between[0], between[1], colours.bad, 2, 0.9, [3, 4]);
      else if (kind === "partition") drawPartition(across, width + height);
      else if (kind === "jam") {
        pen.font = "bold 12px system-ui, sans-serif";
        pen.fillStyle = colours.bad;
        const [x, y] = px(position);
        disc([x, y], 9, colours.bad, 0.9, false);
        pen.fillText("jam", x + 12, y + 4);
      }
    }
    const range = state.node === null ? null : nodes[state.node].range || model.range;
    if (range) {
      pen.setLineDash([2, 4]);
      disc(positions[state.node], scale * range, colours.muted, 0.8, false);
    }
    nodes.forEach((node, index) => {
      if (node.point && node.range) disc(positions[index], scale * node.range, colours.sky, 0.35, false);
    });
    const linger = LINGER * Math.min(state.speed, 4);
    const dead = new Set(faults.flatMap((mark) => mark.kind === "nodes" ? mark.nodes : []));
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
      for (const to of many ? hop.first : hop.to) {
        if (age <= 0) {
          const share = (time - hop.start) / (hop.end - hop.start);
          const [ax, ay] = positions[hop.sender], [bx, by] = positions[to];
          line(hop.sender, to, colours.orange, 1.5, 0.5);
          disc([ax + (bx - ax) * share, ay + (by - ay) * share], 4, colours.orange, 1, true);
        } else if (state.playing || state.event === null)
          line(hop.sender, to, colours.orange, 2, 0.8 * (1 - age));
      }
    }
    const size = Math.min(7, Math.max(many ? 2.2 : 3, 34 / Math.sqrt(nodes.length)) * Math.sqrt(zoom));
    nodes.forEach((node, index) => {
      const [x, y] = positions[index], down = dead.has(index);
      pen.globalAlpha = down ? 0.35 : 1;
      pen.fillStyle = [colours.muted, colours.vermilion, colours.blue, colours.purple][node.role];
      pen.beginPath();
      if (node.role === 1) {
        pen.moveTo(x, y - 1.3 * size); pen.lineTo(x + 1.2 * size, y + size);
        pen.lineTo(x - 1.2 * size, y + size);
      } else if (node.role) pen.rect(x - size, y - size, 2 * size, 2 * size);
      else pen.arc(x, y, size, 0, 2 * Math.PI);
      pen.fill();
      if (node.point) disc([x, y], size + 3, colours.ink, 1, false);
      if (down) {
        pen.globalAlpha = 1;
        pen.strokeStyle = colours.bad; pen.lineWidth = 2.5; pen.setLineDash([]);
        pen.beginPath();
        pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size);
        pen.moveTo(x + size, y - size); pen.lineTo(x - size, y + size);
        pen.stroke();
      }
      if (index === state.node) disc([x, y], size + 5, colours.ink, 1, false);
    });
    drawNames(size);
    for (const mark of model.marks) {
      const age = (time - mark.time) / (2 * linger);
      if (mark.kind === "handover" && age >= 0 && age < 1)
        disc(positions[mark.nodes[0]], size + 4 + 10 * age, colours.purple, 1 - age, false);
    }
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
    if (state.recording) drawClock();
    drawStrip();
  }

  function write(text, x, y) {
    pen.globalAlpha = 1;
    pen.setLineDash([]);
    pen.lineWidth = 3;
    pen.strokeStyle = colours.page;
    pen.fillStyle = colours.ink;
    pen.strokeText(text, x, y);
    pen.fillText(text, x, y);
  }
  function drawClock() {
    pen.font = "bold 14px system-ui, sans-serif";
    write(state.time.toFixed(state.speed < 1 ? 4 : 1) + " s", 8, 18);
  }

  // Names beside their nodes, as many as cover neither a node nor another name.  Those that were
  // there before have precedence, so that they stay while nodes move.
  function drawNames(size) {
    pen.font = "12px system-ui, sans-serif";
    const CELL = 48, taken = new Map(), shown = new Map();
    const cells = ([x0, y0, x1, y1]) => {
      const keys = [];
      for (let x = Math.floor(x0 / CELL); x <= x1 / CELL; x++)
        for (let y = Math.floor(y0 / CELL); y <= y1 / CELL; y++) keys.push(x + "," + y);
      return keys;
    };
    const take = (box) => {
      for (const key of cells(box)) taken.has(key) ? taken.get(key).push(box) : taken.set(key, [box]);
    };
    const apart = (one, other) =>
      one[2] <= other[0] || other[2] <= one[0] || one[3] <= other[1] || other[3] <= one[1];
    const free = (box) => visible(box) && visible(box.slice(2)) &&
      cells(box).every((key) => (taken.get(key) || []).every((other) => apart(box, other)));
    const inView = positions.map((place, index) => index).filter((index) => visible(positions[index]));
    for (const [x, y] of positions) take([x - size, y - size, x + size, y + size]);
    const onWay = new Set(state.event === null ? [] : state.event.ways.flatMap(([hop, to]) => [hop.sender, to]));
    const rank = (index) => index === state.node || onWay.has(index) ? 0 : named.has(index) ? 1 : nodes[index].point ? 2 : nodes[index].role ? 3 : 4;
    inView.sort((one, other) => rank(one) - rank(other) || one - other);
    for (const index of inView) {
      const node = nodes[index], [x, y] = positions[index];
      node.wide = node.wide || pen.measureText(node.name).width;
      const right = x + size + 3, below = y + size + 10;
      const corners = [[right, y - size], [right, below], [x - size - 3 - node.wide, y - size], [x - size - 3 - node.wide, below]];
      const boxes = corners.map(([a, b]) => [a, b - 10, a + node.wide, b + 3]);
      const before = named.has(index) ? named.get(index).corner : 0, order = [0, 1, 2, 3].sort((one, other) => (other === before) - (one === before));
      let corner = order.find((which) => free(boxes[which]));
      if (corner === undefined && index === state.node) corner = 0;
      if (corner === undefined) continue;
      take(boxes[corner]);
      shown.set(index, {corner, box: boxes[corner]});
      write(node.name, ...corners[corner]);
    }
    named = shown;
  }

  function drawPartition([ax, ay, bx, by], far) {
    const [x1, y1] = px([ax, ay]), [x2, y2] = px([bx, by]);
    const length = Math.hypot(x2 - x1, y2 - y1), dx = far * (x2 - x1) / length, dy = far * (y2 - y1) / length;
    pen.globalAlpha = 0.9;
    pen.strokeStyle = colours.bad;
    pen.lineWidth = 2;
    pen.setLineDash([8, 5]);
    pen.beginPath();
    pen.moveTo(x1 - dx, y1 - dy);
    pen.lineTo(x1 + dx, y1 + dy);
    pen.stroke();
  }

  function drawEvent(time) {
    const event = state.event;
    if (event === null) return;
    for (const hop of event.hops)
      if (hop.end <= time) for (const to of nodes.length > MANY ? hop.first : hop.to) line(hop.sender, to, colours.orange, 1, 0.25);
    for (const [hop, to] of event.ways) if (hop.end <= time) {
      line(hop.sender, to, colours.orange, 3, 0.95);
      const [ax, ay] = positions[hop.sender], [bx, by] = positions[to];
      pen.font = "bold 11px system-ui, sans-serif";
      write(hop.number, (ax + bx) / 2 + 4, (ay + by) / 2 - 4);
    }
    for (const client of event.clients) {
      const there = client.time !== null && client.time <= time;
      if (client.expected || there)
        disc(positions[client.node], nodes.length > MANY ? 7 : 12, there ? colours.green : colours.bad, 1, false);
    }
  }

  function drawStrip() {
    const brush = strip.getContext("2d"), width = strip.clientWidth;
    brush.clearRect(0, 0, width, 26);
    const at = (time) => 8 + (width - 16) * time / model.duration;
    for (const event of events) {
      brush.fillStyle = event.got < event.expected ? colours.bad : colours.blue;
      brush.globalAlpha = event === state.event ? 1 : 0.55;
      brush.fillRect(at(event.time), event === state.event ? 2 : 8, event === state.event ? 3 : 1.5, 14);
    }
    brush.globalAlpha = 1;
    for (const mark of model.marks) {
      const half = mark.kind === "handover" ? 2 : 4;
      brush.fillStyle = mark.kind === "handover" ? colours.purple : colours.orange;
      brush.beginPath();
      brush.moveTo(at(mark.time) - half, 0); brush.lineTo(at(mark.time) + half, 0);
      brush.lineTo(at(mark.time), 2 * half);
      brush.fill();
    }
    brush.fillStyle = colours.ink;
    brush.fillRect(at(state.time), 0, 2, 26);
  }

  // Note that frames were added.  Of large networks only the first hop to each node is drawn.
  function grown() {
    longest = frames.reduce((most, hop) => Math.max(most, hop.end - hop.start), 0);
    if (nodes.length <= MANY) return;
    const had = new Map(events.map((event) => [event, new Set([event.publisher])]));
    for (const hop of frames) {
      const there = had.get(hop.event) || new Set();
      hop.first = hop.to.filter((to) => !there.has(to));
      for (const to of hop.first) there.add(to);
    }
  }
  // Return the node or the event at a point of the canvas, if there is one.
  function hit(x, y) {
    const away = positions.map(([a, b]) => Math.hypot(a - x, b - y));
    const nearest = away.indexOf(Math.min(...away));
    if (away[nearest] < 22) return {node: nearest};
    const open = frames.filter((hop) => hop.start <= state.time && state.time - hop.end < LINGER * state.speed);
    for (const hop of open) for (const to of hop.to) {
      const [ax, ay] = positions[hop.sender], [bx, by] = positions[to];
      const length = Math.hypot(bx - ax, by - ay) || 1;
      const share = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length / length;
      if (share > 0 && share < 1 && Math.abs((x - ax) * (by - ay) - (y - ay) * (bx - ax)) / length < 6)
        return {event: hop.event};
    }
    return {};
  }
  return {draw, fit, readColours, moved, grown, hit, enlarge, shift, lookAtAll, reveal,
    where: (index) => positions[index], zoom: () => zoom, names: () => named};
}
