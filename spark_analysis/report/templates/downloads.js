"use strict";
(() => {
{% include "pdf.js" %}
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
    const offers = {
      SVG: () => new Blob([alone(drawing)], {type: "image/svg+xml"}),
      PDF: () => asPdf(drawing, document.title + ": " + drawing.querySelector("title").textContent),
    };
    if (figure.dataset.csv) offers.CSV = () => new Blob([figure.dataset.csv], {type: "text/csv"});
    for (const [kind, content] of Object.entries(offers)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "download " + kind.toLowerCase();
      button.textContent = kind;
      button.setAttribute("aria-label", "Download figure " + figure.id + " as " + kind);
      button.addEventListener("click", async () => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(await content());
        link.download = document.title.replace(/[^\w-]+/g, "-") + "-" + figure.id + "." + kind.toLowerCase();
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      });
      button.content = content;
      caption.append(" ", button);
    }
  }
})();
