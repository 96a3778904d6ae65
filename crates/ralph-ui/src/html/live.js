// Keeps a page up to date with its run: replaces the parts that changed, and sends control requests.
// The page is readable without this script, as it was loaded.
"use strict";
(() => {
  const body = document.body;
  const byId = (id) => document.getElementById(id);
  const controls = byId("controls"), link = byId("link"), why = byId("why"), reply = byId("reply");
  // The server sends an event at least every 15 seconds. After three times that, the connection is
  // dead: a laptop slept, or the server is gone.
  const SILENCE = 45000;
  let since = body.dataset.since, source = null, lastEvent = Date.now(), active = false;

  const show = (state, text) => { body.dataset.link = state; link.textContent = text; };

  function replace(id, html) {
    const part = byId(id);
    if (!part) return;
    const open = new Map();
    for (const one of part.querySelectorAll("details[id]")) open.set(one.id, one.open);
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const path = focused && (focused.getAttribute("href") || focused.id);
    part.innerHTML = html;
    for (const one of part.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = open.get(one.id);
    if (path) for (const one of part.querySelectorAll("a, [tabindex], summary")) {
      if (one.getAttribute("href") === path || one.id === path) { one.focus({ preventScroll: true }); break; }
    }
  }

  function updateControls(state) {
    active = state.active;
    why.textContent = state.why;
    for (const one of controls.querySelectorAll("button, select, textarea")) one.disabled = !active;
    for (const one of controls.querySelectorAll("form")) one.hidden = !active;
    const task = byId("task"), chosen = task.value;
    const options = state.tasks.map(([id, title]) => new Option(id + ": " + title, id, false, id === chosen));
    task.replaceChildren(...options);
    byId("skip").disabled = task.disabled = !active || options.length === 0;
    byId("pause").disabled = !active || state.paused;
    byId("go-on").disabled = !active || !state.paused;
  }

  function take(event) {
    lastEvent = Date.now();
    if (event.lastEventId) since = event.lastEventId;
    const news = JSON.parse(event.data);
    for (const [id, html] of Object.entries(news.parts)) replace(id, html);
    if (news.title) document.title = news.title;
    updateControls(news.state);
    show("live", "live");
  }

  function listen() {
    if (source) source.close();
    lastEvent = Date.now();
    source = new EventSource("events?since=" + encodeURIComponent(since));
    source.addEventListener("news", take);
    source.addEventListener("beat", () => { lastEvent = Date.now(); show("live", "live"); });
    source.onopen = () => { lastEvent = Date.now(); show("live", "live"); };
    source.onerror = () => show("lost", "not connected; trying again");
  }

  async function send(request, success) {
    reply.textContent = "…";
    try {
      const answer = await fetch("request", {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Ralph-Token": body.dataset.token },
        body: JSON.stringify(request),
        redirect: "error",
      });
      reply.textContent = answer.ok ? success : await answer.text();
      return answer.ok;
    } catch {
      reply.textContent = "It could not be sent: ralph serve does not answer.";
      return false;
    }
  }

  byId("pause").addEventListener("click", () => send({ wish: "pause" }, "The run will pause after the current step."));
  byId("go-on").addEventListener("click", () => send({ wish: "goOn" }, "The run will resume."));
  byId("stop").addEventListener("click", () => {
    if (confirm("Stop the run after the current step? It can be resumed.")) {
      send({ wish: "stop" }, "The run will stop after the current step.");
    }
  });
  byId("stop-now").addEventListener("click", () => {
    if (confirm("End what is running and stop the run? It can be resumed.")) {
      send({ wish: "stopNow" }, "The run ends what is running and stops.");
    }
  });
  byId("skip").addEventListener("click", () => {
    const task = byId("task").value;
    if (task && confirm("Skip " + task + " for good?")) send({ wish: "skip", task }, task + " will be skipped.");
  });
  byId("note").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = byId("text").value.trim();
    if (text && await send({ wish: "note", text }, "The next agent will get the note.")) byId("text").value = "";
  });

  updateControls(JSON.parse(body.dataset.state));
  if (body.dataset.follow === "yes") {
    show("wait", "connecting");
    listen();
    // A browser does not retry by itself after an error status, such as 503 of a busy server.
    const isDead = () => source.readyState === EventSource.CLOSED || Date.now() - lastEvent > SILENCE;
    setInterval(() => { if (isDead()) { show("lost", "not connected; trying again"); listen(); } }, 5000);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && isDead()) listen();
    });
    addEventListener("online", listen);
  } else {
    show("static", "run ended; the page does not change");
  }
})();
