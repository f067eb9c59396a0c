"use strict";
(() => {
  // Colours of a figure are the page's variables, beside those of paper: a file has the latter.
  function alone(drawing) {
    const copy = drawing.cloneNode(true);
    const [, , width, height] = copy.getAttribute("viewBox").split(/[ ,]+/);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("font-family", "sans-serif");
    return new XMLSerializer().serializeToString(copy).replace(/var\(--[a-z0-9-]+, ?(#[0-9a-f]{6})\)/g, "$1");
  }
  for (const figure of document.querySelectorAll("figure")) {
    const drawing = figure.querySelector("svg"), caption = figure.querySelector("figcaption");
    if (!drawing || !drawing.hasAttribute("viewBox")) continue;
    const offers = {
      SVG: () => new Blob([alone(drawing)], {type: "image/svg+xml"}),
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
