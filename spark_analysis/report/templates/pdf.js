// A drawing as a page of PDF (ISO 32000-1): its paths, its text in Helvetica, its pictures.
// Understands what spark_analysis.report.svg writes, and no more. Colours are those of paper.
async function asPdf(drawing, title) {
  const [, , width, height] = drawing.getAttribute("viewBox").split(/[ ,]+/).map(Number);
  const states = new Map(), pictures = [], out = [];
  const canvas = document.createElement("canvas").getContext("2d");
  const number = (value) => String(+(+value).toFixed(3));
  const put = (...words) =>
    out.push(words.map((word) => (typeof word === "number" ? number(word) : word)).join(" "));
  const INHERITED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-dashoffset",
    "stroke-linejoin", "stroke-linecap", "fill-opacity", "stroke-opacity"];

  function own(element, look) {
    const found = {...look};
    for (const name of INHERITED) {
      const value = element.style.getPropertyValue(name) || element.getAttribute(name);
      if (value) found[name] = value.trim();
    }
    found.opacity = look.opacity * +(element.style.opacity || element.getAttribute("opacity") || 1);
    return found;
  }
  function colour(text) {  // 0 to 1; null if there is none
    const plain = text.replace(/var\(--[\w-]+,\s*([^)]+)\)/, "$1");
    if (plain === "none") return null;
    canvas.fillStyle = "#000000";
    canvas.fillStyle = plain;
    return [1, 3, 5].map((at) => parseInt(canvas.fillStyle.slice(at, at + 2), 16) / 255);
  }
  function state(fill, stroke) {
    const key = `/ca ${number(fill)} /CA ${number(stroke)}`;
    if (!states.has(key)) states.set(key, "S" + states.size);
    put("/" + states.get(key), "gs");
  }
  function target(value) {
    const id = /url\(["']?#([^"')]+)/.exec(value || "");
    return id && document.getElementById(id[1]);
  }
  function move(element) {
    const found = element.transform && element.transform.baseVal.consolidate();
    if (found) {
      const {a, b, c, d, e, f} = found.matrix;
      put(...[a, b, c, d, e, f].map((value) => +value.toFixed(5)).map(String), "cm");
    }
  }
  const length = (element, name) => +(element.getAttribute(name) || 0);

  function trace(element) {  // emits the path; returns the corners of what holds it
    const box = [Infinity, Infinity, -Infinity, -Infinity];
    const seen = (x, y) => {
      box[0] = Math.min(box[0], x); box[1] = Math.min(box[1], y);
      box[2] = Math.max(box[2], x); box[3] = Math.max(box[3], y);
    };
    if (element.tagName === "rect") {
      const [x, y, w, h] = ["x", "y", "width", "height"].map((name) => length(element, name));
      seen(x, y); seen(x + w, y + h);
      put(x, y, w, h, "re");
      return box;
    }
    let last = [0, 0];
    for (const [, letter, rest] of element.getAttribute("d").matchAll(/([MLCQZ])([^MLCQZ]*)/gi)) {
      const values = (rest.match(/-?[\d.]+(?:e-?\d+)?/gi) || []).map(Number);
      const each = {M: 2, L: 2, Q: 4, C: 6}[letter];
      if (!each) put("h");
      for (let at = 0; each && at < values.length; at += each) {
        let part = values.slice(at, at + each);
        for (let point = 0; point < each; point += 2) seen(part[point], part[point + 1]);
        if (letter === "Q") {
          const [x, y, x1, y1] = part, [x0, y0] = last;
          part = [x0 + 2 / 3 * (x - x0), y0 + 2 / 3 * (y - y0),
            x1 + 2 / 3 * (x - x1), y1 + 2 / 3 * (y - y1), x1, y1];
        }
        put(...part, {M: "m", L: "l", Q: "c", C: "c"}[letter]);
        last = part.slice(-2);
      }
    }
    return box;
  }
  function shape(element, look) {
    const fill = colour(look.fill.startsWith("url") ? "none" : look.fill), stroke = colour(look.stroke);
    const pattern = target(look.fill);
    if (pattern) {
      put("q");
      const box = trace(element);
      put("W n");
      const w = length(pattern, "width"), h = length(pattern, "height");
      for (let x = Math.floor(box[0] / w) * w; x < box[2]; x += w)
        for (let y = Math.floor(box[1] / h) * h; y < box[3]; y += h) {
          put("q 1 0 0 1", x, y, "cm");
          for (const child of pattern.children) walk(child, {...PLAIN, opacity: look.opacity});
          put("Q");
        }
      put("Q");
    }
    if (!fill && !stroke) return;
    state(look.opacity * look["fill-opacity"], look.opacity * look["stroke-opacity"]);
    if (fill) put(...fill, "rg");
    if (stroke) {
      const dashes = look["stroke-dasharray"] === "none" ? "" : look["stroke-dasharray"].replace(/[,px]+/g, " ");
      put(...stroke, "RG", parseFloat(look["stroke-width"]), "w", "[" + dashes + "]",
        parseFloat(look["stroke-dashoffset"]), "d");
      put({miter: "0", round: "1", bevel: "2"}[look["stroke-linejoin"]] || "0", "j",
        {butt: "0", round: "1", square: "2"}[look["stroke-linecap"]] || "0", "J");
    }
    trace(element);
    put(fill && stroke ? "B" : fill ? "f" : "S");
  }
  function letters(text) {  // WinAnsiEncoding, as a string of PDF
    const special = {"–": 0x96, "—": 0x97, "…": 0x85, "•": 0x95, "‘": 0x91, "’": 0x92, "“": 0x93,
      "”": 0x94, "−": 0x2d, "\u202f": 0x20, "\u2009": 0x20, "\u00a0": 0x20};
    let found = "";
    for (const letter of text) {
      const code = special[letter] || letter.codePointAt(0);
      found += (code < 256 ? code : 0x3f).toString(16).padStart(2, "0");
    }
    return "<" + found + ">";
  }
  function write(element, look) {
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const text = [...element.childNodes].filter((node) => node.nodeType === 3)
      .map((node) => node.data).join("").trim();
    const fill = colour(look.fill);
    if (!text || !fill) return;
    canvas.font = size + "px Helvetica, Arial, sans-serif";
    const long = element.getComputedTextLength(), there = canvas.measureText(text).width;
    const x = length(element, "x") - {start: 0, middle: 0.5, end: 1}[style.textAnchor] * long;
    state(look.opacity * look["fill-opacity"], 1);
    put("BT /F", size, "Tf", ...fill, "rg", 100 * (long && there ? long / there : 1), "Tz",
      "1 0 0 -1", x, length(element, "y"), "Tm", letters(text), "Tj ET");
  }
  function walk(element, outer) {
    if (["defs", "title", "desc", "style", "metadata", "clipPath", "pattern"].includes(element.tagName)) return;
    const look = own(element, outer);
    put("q");
    const clip = target(element.getAttribute("clip-path") || element.style.clipPath);
    move(element);
    if (clip) {
      trace(clip.firstElementChild);
      put("W n");
    }
    if (element.tagName === "use") {
      put("1 0 0 1", length(element, "x"), length(element, "y"), "cm");
      const meant = document.getElementById(element.getAttribute("href").slice(1));
      if (meant) walk(meant, look);
    } else if (element.tagName === "path" || element.tagName === "rect") shape(element, look);
    else if (element.tagName === "text") write(element, look);
    else if (element.tagName === "image") {
      const w = length(element, "width"), h = length(element, "height");
      state(look.opacity, 1);
      put(w, "0 0", -h, length(element, "x"), length(element, "y") + h, "cm /I" + pictures.length, "Do");
      pictures.push(element.getAttribute("href"));
    } else for (const child of element.children) walk(child, look);
    put("Q");
  }
  const PLAIN = {fill: "#000000", stroke: "none", "stroke-width": "1", "stroke-dasharray": "none",
    "stroke-dashoffset": "0", "stroke-linejoin": "miter", "stroke-linecap": "butt",
    "fill-opacity": "1", "stroke-opacity": "1", opacity: 1};
  put("1 0 0 -1 0", height, "cm");
  walk(drawing, PLAIN);

  // The file: objects one after the other, each with its offset.
  const bytes = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const deflated = async (data) => new Uint8Array(await new Response(
    new Blob([data]).stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer());
  const objects = [];  // pieces of each
  async function stream(entries, data) {
    const packed = await deflated(data);
    objects.push([`<< ${entries} /Filter /FlateDecode /Length ${packed.length} >>\nstream\n`, packed, "\nendstream"]);
    return objects.length;
  }
  objects.push(["<< /Type /Catalog /Pages 2 0 R >>"], ["<< /Type /Pages /Kids [3 0 R] /Count 1 >>"], []);
  objects.push(["<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"]);
  const named = "FEFF" + [...title].map((l) => l.charCodeAt(0).toString(16).padStart(4, "0")).join("");
  objects.push([`<< /Title <${named}> >>`]);
  const images = [];
  for (const [index, href] of pictures.entries()) {
    const picture = new Image();
    picture.src = href;
    await picture.decode();
    const [w, h] = [picture.naturalWidth, picture.naturalHeight];
    const surface = document.createElement("canvas");
    [surface.width, surface.height] = [w, h];
    surface.getContext("2d").drawImage(picture, 0, 0);
    const {data} = surface.getContext("2d").getImageData(0, 0, w, h);
    const colours = new Uint8Array(3 * w * h), alpha = new Uint8Array(w * h);
    for (let at = 0; at < w * h; at++) {
      colours.set(data.subarray(4 * at, 4 * at + 3), 3 * at);
      alpha[at] = data[4 * at + 3];
    }
    const size = `/Type /XObject /Subtype /Image /Width ${w} /Height ${h} /BitsPerComponent 8`;
    const mask = await stream(`${size} /ColorSpace /DeviceGray`, alpha);
    const image = await stream(`${size} /ColorSpace /DeviceRGB /SMask ${mask} 0 R`, colours);
    images.push(`/I${index} ${image} 0 R`);
  }
  const content = await stream("", bytes(out.join("\n")));
  const looks = [...states].map(([entries, name]) => `/${name} << ${entries} >>`).join(" ");
  objects[2] = [`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${width} ${height}] /Contents ${content} 0 R ` +
    `/Resources << /Font << /F 4 0 R >> /ExtGState << ${looks} >> /XObject << ${images.join(" ")} >> >> >>`];
  const file = [], offsets = [];
  let size = 0;
  const add = (piece) => {
    const data = typeof piece === "string" ? bytes(piece) : piece;
    file.push(data);
    size += data.length;
  };
  add("%PDF-1.4\n%\u00e2\u00e3\u00cf\u00d3\n");
  objects.forEach((pieces, index) => {
    offsets.push(size);
    add(`${index + 1} 0 obj\n`);
    pieces.forEach(add);
    add("\nendobj\n");
  });
  const start = size;
  add(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n` +
    offsets.map((offset) => String(offset).padStart(10, "0") + " 00000 n \n").join("") +
    `trailer\n<< /Size ${objects.length + 1} /Root 1 0 R /Info 5 0 R >>\nstartxref\n${start}\n%%EOF\n`);
  return new Blob(file, {type: "application/pdf"});
}
