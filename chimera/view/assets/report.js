// Opens the trials of a report: each block is JSON, compressed, and shown as text alone.
"use strict";
(() => {
  const blocks = new Map();
  async function read(number) {
    const packed = Uint8Array.from(atob(document.getElementById(`block-${number}`).content.textContent), (sign) => sign.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }
  async function open(details) {
    if (!details.open || details.dataset.opened) return;
    details.dataset.opened = "yes";
    const { block, place } = details.dataset;
    if (!blocks.has(block)) blocks.set(block, read(block));
    for (const { title, text } of (await blocks.get(block))[place]) {
      if (!text) continue;
      const part = document.createElement("details"), summary = document.createElement("summary"), pre = document.createElement("pre");
      part.className = "fold"; part.open = true; summary.textContent = title; pre.className = "text"; pre.tabIndex = 0; pre.textContent = text;
      part.append(summary, pre);
      details.append(part);
    }
  }
  document.addEventListener("toggle", (event) => { if (event.target.dataset?.block) open(event.target); }, true);
})();
