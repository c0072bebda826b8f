// Pages of AOP: keeps what is shown true, and saves keystrokes. Everything works without it but being live.
"use strict";

const theme = localStorage.getItem("aop-theme");
if (theme) document.documentElement.dataset.theme = theme;

document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("nav")) return;
  const main = () => document.getElementById("main");
  let seq = Number(main().dataset.seq);
  let drawing = null;
  let again = false;

  // --- live ------------------------------------------------------------------------------------------------
  function connect() {
    const source = new EventSource(`/events?after=${seq}`);
    source.addEventListener("news", (event) => {
      seq = JSON.parse(event.data).seq;
      alive();
      redraw();
    });
    source.addEventListener("beat", () => {
      alive();
      if (document.querySelector("[data-busy]")) redraw();
    });
    source.onerror = () => {
      mark("lost", "not connected, as of");
      // A server that refuses for good closes the stream: look again after a while.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
    };
  }

  let seen = 0;
  function alive() {
    seen = Date.now();
    mark("on", "live,");
  }

  function mark(state, word) {
    const live = document.getElementById("live");
    if (!live) return;
    live.className = state;
    live.querySelector(".live-word").textContent = word;
    live.title = seen ? `last sign of the server ${Math.round((Date.now() - seen) / 1000)} s ago` : "";
  }

  async function redraw() {
    if (drawing) {
      again = true;
      return;
    }
    drawing = fetchPage(location.pathname + location.search);
    try {
      await drawing;
    } catch {
      mark("lost", "not connected, as of");
    } finally {
      drawing = null;
    }
    if (again) {
      again = false;
      redraw();
    }
  }

  async function fetchPage(address) {
    const answer = await fetch(address, { headers: { "aop-part": "main" }, redirect: "error" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok) {
      // What can no longer be read is not shown as if it were true.
      main().replaceChildren(...page.getElementById("main").childNodes);
      mark("lost", "stale,");
      return;
    }
    document.title = page.title;
    morph(document.getElementById("nav"), page.getElementById("nav"));
    morph(main(), page.getElementById("main"));
    alive();
    prepare();
  }

  // --- put new content in place of the old, and keep focus, scroll, open folds and what is being typed ---------
  const typed = (node) => node.matches && node.matches("textarea, input:not([type=hidden])");

  function morph(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "class") old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (name === "open" || old.getAttribute(name) === value) continue;
      old.setAttribute(name, value);
    }
    if (fresh.className !== old.className && old.id !== "live") {
      const here = old.classList.contains("here");
      old.className = fresh.className;
      if (here) old.classList.add("here");
      if (!old.className) old.removeAttribute("class");
    }
    if (typed(old) || old.id === "live") return;
    morphChildren(old, fresh);
  }

  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");

  function morphChildren(old, fresh) {
    const byId = new Map();
    for (const child of old.children) if (child.id) byId.set(child.id, child);
    let at = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      let match = wanted.id ? byId.get(wanted.id) : null;
      if (!match && at && same(at, wanted)) match = at;
      if (!match) {
        old.insertBefore(document.importNode(wanted, true), at);
        continue;
      }
      if (match === at) at = at.nextSibling;
      else old.insertBefore(match, at);
      if (match.nodeType === Node.TEXT_NODE) {
        if (match.data !== wanted.data) match.data = wanted.data;
      } else if (match.nodeType === Node.ELEMENT_NODE && !match.isEqualNode(wanted)) morph(match, wanted);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  // --- forms -----------------------------------------------------------------------------------------------------
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const body = new URLSearchParams(new FormData(form));
      const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" });
      if (answer.type === "opaqueredirect") {
        form.reset();
        document.activeElement.blur();
        await redraw();
      } else {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        tell(page.getElementById("main"));
        await redraw();
      }
    } catch {
      tell(null);
    } finally {
      button.disabled = false;
    }
  });

  function tell(refusal) {
    const toast = document.getElementById("refusal");
    const close = document.createElement("button");
    close.textContent = "Close";
    close.onclick = () => (toast.hidden = true);
    const lines = refusal ? [...refusal.querySelectorAll("h1, p")].map((each) => each.textContent) : [];
    if (!lines.length) lines.push("The server did not answer. Nothing is known to have changed.");
    toast.replaceChildren(
      ...lines.map((line) => {
        const text = document.createElement("p");
        text.textContent = line;
        return text;
      }),
      close,
    );
    toast.hidden = false;
  }

  // --- keys, commands, times -------------------------------------------------------------------------------------
  function prepare() {
    for (const code of document.querySelectorAll("[data-copy]:not(.ready)")) {
      code.classList.add("ready");
      code.title = "Copy";
      code.tabIndex = 0;
      code.setAttribute("role", "button");
    }
    const change = document.querySelector("[data-theme-switch]");
    if (change) change.hidden = false;
  }

  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      code.title = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
    }
  }

  document.addEventListener("click", (event) => {
    const code = event.target.closest("[data-copy]");
    if (code) copy(code);
    if (event.target.closest("[data-theme-switch]")) {
      const root = document.documentElement;
      const light = matchMedia("(prefers-color-scheme: light)").matches;
      const now = root.dataset.theme || (light ? "light" : "dark");
      root.dataset.theme = now === "light" ? "dark" : "light";
      localStorage.setItem("aop-theme", root.dataset.theme);
    }
  });

  function step(by) {
    const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("here"));
    rows[at]?.classList.remove("here");
    const row = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    row.classList.add("here");
    row.scrollIntoView({ block: "nearest" });
  }

  const places = { i: "/", b: "/board", j: "/journal" };
  let going = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (event.key === "Enter" && event.target.matches("[data-copy]")) copy(event.target);
    const wasGoing = going;
    going = event.key === "g";
    if (wasGoing && places[event.key]) location.href = places[event.key];
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "Enter") document.querySelector(".here a, .here summary")?.click();
    else if (event.key === "a") document.querySelector("[data-approve] button")?.focus();
    else if (event.key === "c") {
      document.querySelector("[data-changes] textarea")?.focus();
      event.preventDefault();
    }
  });

  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  setInterval(() => {
    for (const time of document.querySelectorAll("time[data-runs]")) {
      const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
      const [size, unit] = units.find(([each]) => seconds >= each) || [1, "s"];
      time.textContent = `${Math.floor(seconds / size)} ${unit}`;
    }
    if (seen && Date.now() - seen > 15000) mark("lost", "not connected, as of");
  }, 1000);

  prepare();
  connect();
});
