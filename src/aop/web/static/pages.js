// Pages of AOP: keeps what is shown true, and saves keystrokes. Everything works without it but being live.
"use strict";

const theme = localStorage.getItem("aop-theme");
if (theme) document.documentElement.dataset.theme = theme;

document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("nav")) return;
  const main = () => document.getElementById("main");
  const drawn = () => Number(main().dataset.seq);
  let stale = false;
  let drawing = null;
  let again = false;

  // --- live ------------------------------------------------------------------------------------------------
  // One tab listens for all: a browser has six connections to a server, and a seventh stream would leave none.
  const tabs = new BroadcastChannel("aop-events");
  let listening = false;

  function listen() {
    listening = true;
    const source = new EventSource(`/events?after=${drawn()}`);
    let newest = drawn();
    source.addEventListener("news", (event) => {
      newest = JSON.parse(event.data).seq;
      tell({ newest });
    });
    source.addEventListener("beat", () => tell({ newest, beat: true }));
    source.onerror = () => {
      tell({ lost: true });
      // A server that refuses for good closes the stream: look again after a while.
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
    };
    tabs.onmessage = ({ data }) => (data.hello ? tabs.postMessage({ newest }) : hear(data));
  }

  function tell(news) {
    tabs.postMessage(news);
    hear(news);
  }

  function hear({ newest, beat, lost }) {
    // A hidden tab is drawn when it is shown again.
    if (document.hidden) return (stale = true);
    if (lost) return mark("lost", "not connected, as of");
    if (newest === undefined) return;
    alive();
    if (newest > drawn() || stale || (beat && document.querySelector("[data-busy]"))) redraw();
  }

  function connect() {
    tabs.onmessage = ({ data }) => hear(data);
    // Without locks, which need an address that the browser trusts, each tab listens for itself.
    if (!navigator.locks) return listen();
    navigator.locks.request("aop-events", () => new Promise(listen));
    // What the listening tab heard between the drawing of this page and now.
    if (!listening) tabs.postMessage({ hello: true });
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
    live.querySelector(".seq").textContent = main().dataset.seq;
    live.querySelector(".beat").textContent = seen ? `heard ${Math.round((Date.now() - seen) / 1000)} s ago` : "";
  }

  async function redraw() {
    // What takes long to find out is found out when a person asks.
    if (document.querySelector("[data-still]")) return mark("", "as of");
    if (drawing) {
      again = true;
      return;
    }
    stale = false;
    drawing = fetchPage(location.pathname + location.search);
    try {
      await drawing;
    } catch {
      stale = true;
      mark("lost", "not connected, as of");
    } finally {
      drawing = null;
    }
    if (again) {
      again = false;
      redraw();
    }
  }

  // Parts that are still the same are not sent again.
  const parts = () => [...main().querySelectorAll("[data-keep]")].map((part) => part.dataset.keep).join(" ");

  async function fetchPage(address, have = parts()) {
    const answer = await fetch(address, { headers: { "aop-part": "main", "aop-have": have }, redirect: "error" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.ok) {
      // What can no longer be read is not shown as if it were true.
      main().replaceChildren(...page.getElementById("main").childNodes);
      stale = true;
      mark("lost", "stale,");
      return;
    }
    document.title = page.title;
    morph(document.getElementById("nav"), page.getElementById("nav"));
    morph(main(), page.getElementById("main"));
    // Not by a reload, which would forget what was typed, and the tree that was looked at.
    if (have && main().querySelector("[data-keep]:empty")) return fetchPage(address, "");
    for (const log of document.querySelectorAll("[data-follow]")) log.scrollTop = log.scrollHeight;
    document.querySelector("#live .seq").textContent = page.querySelector("#live .seq").textContent;
    alive();
    prepare();
    guard();
  }

  // --- nobody decides about a tree that took the place of another one under the mouse -----------------------------
  let looked = null;
  function guard() {
    const decide = document.querySelector("#decide[data-tree]");
    if (!decide) return;
    const { tree, base } = decide.dataset;
    looked ??= { tree, base };
    const moved = ["tree", "base"].filter((each) => looked[each] !== decide.dataset[each]);
    for (const button of decide.querySelectorAll("[data-approve] button, [data-long] button")) button.disabled = moved.length > 0;
    const notice = document.getElementById("moved");
    notice.hidden = !moved.length;
    const told = moved.map((each) => `The ${each} was ${looked[each].slice(0, 8)} and is ${decide.dataset[each].slice(0, 8)}.`);
    notice.querySelector("span").textContent = told.join(" ");
    notice.querySelector("a").search = looked.tree === tree ? "" : `?from=${looked.tree}&to=${tree}`;
    notice.querySelector("[data-seen]").onclick = () => {
      looked = { tree, base };
      guard();
    };
  }

  // --- put new content in place of the old, and keep focus, scroll, open folds and what is being typed ---------
  const typed = (node) => node.matches && node.matches("textarea, input:not([type=hidden])");

  function morph(old, fresh) {
    const kept = old.dataset.keep;
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open" && name !== "class") old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (name === "open" || name === "class" || old.getAttribute(name) === value) continue;
      old.setAttribute(name, value);
    }
    // Not by `className`: that of a picture cannot be set.
    if (fresh.getAttribute("class") !== old.getAttribute("class") && old.id !== "live") {
      const here = old.classList.contains("here");
      old.setAttribute("class", fresh.getAttribute("class") || "");
      if (here) old.classList.add("here");
      if (!old.classList.length) old.removeAttribute("class");
    }
    // A note that changed elsewhere is shown where nothing else was typed.
    if (old.matches("[data-autosave] textarea") && old !== document.activeElement && old.value === old.defaultValue) {
      old.value = old.defaultValue = fresh.defaultValue;
    }
    if (typed(old) || old.id === "live" || (kept && kept === fresh.dataset.keep && old.hasChildNodes())) return;
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
      // What stands behind something that has gone is the same as before, with all that was typed in it.
      for (let next = at; next && !match && wanted.nodeType === Node.ELEMENT_NODE; next = next.nextSibling) {
        if (same(next, wanted) && next.getAttribute("class") === wanted.getAttribute("class")) match = next;
      }
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
    if (form.method !== "post" || "download" in form.dataset) return;
    event.preventDefault();
    const button = event.submitter || form.querySelector("button");
    const note = form.matches("[data-autosave]") && form.querySelector("textarea");
    if (button.disabled) return note && saveSoon(form);
    const body = new URLSearchParams(new FormData(form, event.submitter));
    button.disabled = true;
    clearTimeout(saving);
    try {
      const answer = await fetch(button.getAttribute("formaction") || form.action, { method: "POST", body, redirect: "manual" });
      if (answer.type === "opaqueredirect") {
        if (note) note.defaultValue = body.get(note.name);
        else {
          form.reset();
          if ("leadsBack" in form.dataset) history.pushState(null, "", form.elements.back.value);
          document.activeElement.blur();
        }
        await redraw();
      } else {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        refuse(page.getElementById("main"));
        await redraw();
      }
    } catch {
      refuse(null);
    } finally {
      button.disabled = false;
      guard();
    }
  });

  // --- a note saves itself: half a second after the last key, and when it is left ---------------------------------
  let saving = 0;
  function saveSoon(form) {
    clearTimeout(saving);
    saving = setTimeout(() => form.requestSubmit(), 500);
  }

  document.addEventListener("input", (event) => {
    const form = event.target.closest("[data-autosave]");
    if (!form) return;
    form.querySelector("[data-characters]").textContent = [...event.target.value].length;
    saveSoon(form);
  });

  document.addEventListener("focusout", (event) => {
    const note = event.target;
    if (note.matches("[data-autosave] textarea") && note.value !== note.defaultValue) note.form.requestSubmit();
  });

  function refuse(refusal) {
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
  let offered = null;
  function prepare() {
    const wanted = document.querySelector("[autofocus]");
    if (wanted && wanted !== offered && [document.body, main()].includes(document.activeElement)) wanted.focus();
    offered = wanted;
    for (const code of document.querySelectorAll("[data-copy]:not(.ready)")) {
      code.classList.add("ready");
      code.title = "Copy";
      code.tabIndex = 0;
      code.setAttribute("role", "button");
    }
    for (const each of document.querySelectorAll("[data-theme-switch], [data-keys], [data-file-label]")) each.hidden = false;
  }

  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      code.title = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
    }
  }

  // A link to the same page in another state: drawn in place, with its own address.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-soft]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (link.dataset.layout) localStorage.setItem("aop-diff", link.dataset.layout);
    history.pushState(null, "", link.href);
    redraw();
  });
  addEventListener("popstate", redraw);
  document.addEventListener("visibilitychange", () => stale && redraw());

  // The number of a line opens the form for a comment; with Shift the lines from the one before to it.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-line]");
    if (!link || event.ctrlKey || event.metaKey || event.button) return;
    event.preventDefault();
    const to = new URL(link.href);
    const [file, end] = to.searchParams.get("comment").split("-");
    const [before, begin] = (new URLSearchParams(location.search).get("comment") || "-").split("-");
    if (event.shiftKey && before === file && begin && begin[0] === end[0]) {
      to.searchParams.set("comment", `${file}-${begin}-${end.slice(1)}`);
    }
    history.pushState(null, "", to);
    await redraw();
    document.getElementById("comment-text")?.focus();
  });

  document.addEventListener("click", (event) => {
    const code = event.target.closest("[data-copy]");
    if (code) copy(code);
    if (event.target.closest("[data-keys]")) keys();
    if (event.target.closest("[data-theme-switch]")) {
      const root = document.documentElement;
      const light = matchMedia("(prefers-color-scheme: light)").matches;
      const now = root.dataset.theme || (light ? "light" : "dark");
      root.dataset.theme = now === "light" ? "dark" : "light";
      localStorage.setItem("aop-theme", root.dataset.theme);
    }
  });

  document.addEventListener("input", async (event) => {
    const field = event.target;
    if (field.matches("[data-slider]")) field.form.elements.at.value = field.value;
    if (field.matches("[data-into]") && field.files[0]) {
      document.getElementById(field.dataset.into).value = await field.files[0].text();
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-slider]")) event.target.form.requestSubmit();
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

  const keys = () => document.getElementById("keys").showModal();
  let going = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (event.key === "Enter" && event.target.matches("[data-copy]")) copy(event.target);
    const wasGoing = going;
    going = event.key === "g";
    const place = wasGoing && /^[a-z]$/.test(event.key) && document.querySelector(`#nav [data-key=${event.key}]`);
    const copied = event.key === "x" && document.querySelector(".here [data-copy]");
    if (place) location.href = place.href;
    else if (copied) copy(copied);
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") {
      const seek = document.getElementById("seek");
      if (!seek) return;
      if (seek.offsetParent) seek.focus();
      else location.href = "/search";
      event.preventDefault();
    } else if (event.key === "?") keys();
    else if (event.key === "Enter") document.querySelector(".here a, .here summary")?.click();
    else if (event.key === "a") document.querySelector("[data-approve] button")?.focus();
    else if (event.key === "c") {
      document.querySelector("[data-changes] textarea")?.focus();
      event.preventDefault();
    }
  });

  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  setInterval(() => {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[data-runs]")) {
      const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
      const [size, unit] = units.find(([each]) => seconds >= each) || [1, "s"];
      time.textContent = `${Math.floor(seconds / size)} ${unit}`;
    }
    const live = document.getElementById("live");
    if (document.querySelector("[data-follow]")) redraw();
    if (seen && Date.now() - seen > 15000) mark("lost", "not connected, as of");
    else if (live) mark(live.className, live.querySelector(".live-word").textContent);
  }, 1000);

  prepare();
  guard();
  connect();
  const split = document.querySelector("[data-layout=split]:not([aria-current])");
  if (split && localStorage.getItem("aop-diff") === "split" && !location.search.includes("diff=")) {
    history.replaceState(null, "", split.href);
    redraw();
  }
});
