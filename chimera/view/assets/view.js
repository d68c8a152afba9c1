// Keys, folding and following a run. Every page works without this file.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const shown = (element) => element.getClientRects().length > 0;
  const help = document.getElementById("help");

  all("[data-help]").forEach((button) => button.addEventListener("click", () => help.showModal()));

  // Rows and steps, one after the other
  let at = -1;
  function move(by) {
    const rows = all("[data-row]").filter(shown);
    if (!rows.length) return;
    rows.forEach((row) => row.classList.remove("at"));
    at = Math.min(rows.length - 1, Math.max(0, at + by));
    rows[at].classList.add("at");
    const target = rows[at].querySelector("a, summary") || rows[at];
    target.focus({ preventScroll: true });
    rows[at].scrollIntoView({ block: "nearest" });
  }
  const picked = () => document.querySelector(".at [type=checkbox]");

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select, dialog")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const own = { j: () => move(1), k: () => move(-1), x: () => picked()?.click(), "?": () => help.showModal() }[event.key];
    const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (own) own();
    else if (target && target.matches("input, textarea")) target.focus();
    else if (target) target.click();
    else return;
    event.preventDefault();
  });

  // Steps: kinds to show, fold and unfold
  const list = document.getElementById("step-list");
  all("[data-kind]").forEach((box) => box.addEventListener("change", () => {
    list.classList.toggle(`hide-${box.dataset.kind}`, !box.checked);
    const hidden = all("[data-kind]").filter((other) => !other.checked).map((other) => other.dataset.kind);
    const url = new URL(location);
    if (hidden.length) url.searchParams.set("hide", hidden.join(",")); else url.searchParams.delete("hide");
    history.replaceState(null, "", url);
  }));
  all("[data-fold]").forEach((button) => button.addEventListener("click", () => {
    const steps = all(".step", list), fold = steps.some((step) => step.open);
    steps.forEach((step) => { step.open = !fold; });
    button.textContent = fold ? "Unfold all" : "Fold all";
  }));

  // Follow a run: ask for a short mark, and for the page when it has changed
  const body = document.body;
  let failures = 0;
  async function follow() {
    try {
      if (!document.hidden) {
        const answer = await (await fetch(body.dataset.watch)).json();
        if (answer.state !== body.dataset.state) await renew();
      }
      failures = 0;
    } catch { failures += 1; }
    setTimeout(follow, Math.min(30000, 2000 * 2 ** failures));
  }
  async function renew() {
    const text = await (await fetch(location.href)).text();
    const page = new DOMParser().parseFromString(text, "text/html");
    const ticked = new Set(all("[data-live] [type=checkbox]:checked").map((box) => box.value));
    let changed = false;
    for (const part of all("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (fresh && fresh.innerHTML !== part.innerHTML && !part.contains(document.activeElement?.closest("input, select, textarea"))) {
        part.innerHTML = fresh.innerHTML;
        changed = true;
      }
    }
    for (const fresh of all("[data-live][id]", page)) {
      if (!document.getElementById(fresh.id)) { location.reload(); return; }
    }
    all("[data-live] [type=checkbox]").forEach((box) => { box.checked = ticked.has(box.value); });
    body.dataset.state = page.body.dataset.state;
    if (changed) document.getElementById("told").textContent = document.querySelector("#headline .lead")?.textContent || "The page was brought up to date.";
  }
  if (body.dataset.watch) setTimeout(follow, 2000);
})();
