"use strict";
(() => {
  // Colours of a figure are those of the page; a file of its own has to bring them along.
  function alone(drawing) {
    const copy = drawing.cloneNode(true), style = document.createElement("style");
    const page = getComputedStyle(document.documentElement), names = new Set();
    for (const [, name] of drawing.outerHTML.matchAll(/var\(--([a-z0-9-]+)/g)) names.add(name);
    style.textContent = "svg { " + [...names].map((name) =>
      "--" + name + ": " + page.getPropertyValue("--" + name).trim()).join("; ") + "; background: " +
      page.getPropertyValue("--card").trim() + "; } text { font-family: sans-serif; }";
    copy.insertBefore(style, copy.firstChild);
    const [, , width, height] = copy.getAttribute("viewBox").split(/[ ,]+/);
    copy.setAttribute("xmlns", drawing.namespaceURI);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    return new XMLSerializer().serializeToString(copy);
  }
  for (const figure of document.querySelectorAll("figure")) {
    const drawing = figure.querySelector("svg"), caption = figure.querySelector("figcaption");
    if (!drawing || !drawing.hasAttribute("viewBox")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "download";
    button.textContent = "SVG";
    button.setAttribute("aria-label", "Download figure " + figure.id + " as SVG");
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([alone(drawing)], {type: "image/svg+xml"}));
      link.download = document.title.replace(/[^\w-]+/g, "-") + "-" + figure.id + ".svg";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    button.alone = () => alone(drawing);
    caption.append(" ", button);
  }
})();
