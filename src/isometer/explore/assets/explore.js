/* What the page does by itself: the address, the theme, collecting controls, downloads, dragging in pictures. */
(() => {
  "use strict";
  const REST = 120; // milliseconds that controls must rest before they are sent
  const TYPING = 450;
  const BURST = 1500; // changes closer than this share one entry of the history
  const graphOf = id => document.querySelector(`#${id} .js-plotly-plot`);
  const set = (id, props) => window.dash_clientside.set_props(id, props);

  // --- the address ---------------------------------------------------------------------------------------------------
  let changed = 0;

  function here() {
    return { path: location.pathname, search: location.search };
  }

  function mark() {
    const lab = location.pathname.split("/")[1] || "start";
    for (const link of document.querySelectorAll(".top nav [data-nav]")) {
      if (link.dataset.nav === lab) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  function go(path) {
    rest();
    history.pushState(null, "", path);
    set("place", { data: here() });
    mark();
    window.scrollTo(0, 0);
  }

  window.addEventListener("popstate", () => {
    changed = 0;
    set("place", { data: here() });
    mark();
  });

  let opened = null;

  /** On a phone the pictures come first; the controls are a tap away. */
  function fold() {
    const panel = document.getElementById("panel");
    if (!panel || panel === opened) return;
    opened = panel;
    if (matchMedia("(max-width: 640px)").matches) panel.open = false;
  }
  new MutationObserver(fold).observe(document.documentElement, { childList: true, subtree: true });

  function address(query) {
    const search = query ? `?${query}` : "";
    if (typeof query !== "string" || search === location.search) return;
    const now = Date.now();
    const method = now - changed < BURST ? "replaceState" : "pushState";
    history[method](null, "", location.pathname + search);
    changed = now;
  }

  // --- the theme -----------------------------------------------------------------------------------------------------
  function stored() {
    try { return localStorage.getItem("isometer-theme"); } catch { return null; }
  }

  function preferred() {
    return stored() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  document.documentElement.dataset.theme = preferred();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!stored()) set("theme", { data: show(preferred()) });
  });

  function show(theme) {
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme-toggle");
    if (button) button.textContent = theme === "dark" ? "Light" : "Dark";
    if (button) button.setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
    return theme;
  }

  function theme(clicks) {
    if (!clicks) return show(preferred());
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("isometer-theme", next); } catch { /* not kept */ }
    return show(next);
  }

  // --- controls ------------------------------------------------------------------------------------------------------
  let waiting = null;
  const fieldOf = control => control.querySelector("select, input:not([aria-hidden])");

  function collect(lab, delay) {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      waiting = null;
      const values = {};
      for (const control of lab.querySelectorAll("[data-control]")) {
        const field = fieldOf(control);
        if (field) values[control.dataset.control] = field.value;
      }
      set(`${lab.dataset.lab}-draft`, { data: values });
    }, delay);
  }

  function changedControl(event) {
    const control = event.target.closest("[data-control]");
    if (!control) return;
    const reading = control.querySelector(".reading");
    if (reading) reading.textContent = event.target.value;
    const lab = control.closest("[data-lab]");
    const page = lab.querySelector('[data-control="page"] input');
    if (page && page.value !== "1" && !["page", "chosen", "layer"].includes(control.dataset.control)) give("page", "1");
    const typed = event.type === "input" && event.target.matches("[type=text], [type=number]");
    collect(lab, typed ? TYPING : REST);
  }

  document.addEventListener("input", changedControl);
  document.addEventListener("change", changedControl);

  /** Give a control a value as if it had been typed. */
  function give(key, value) {
    const control = document.querySelector(`[data-control="${key}"]`);
    const field = control && fieldOf(control);
    if (!field) return;
    const kind = field instanceof HTMLSelectElement ? HTMLSelectElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(field, value);
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function split(text) {
    const found = [""];
    let open = 0;
    for (const letter of text) {
      open = Math.max(0, open + (letter === "(") - (letter === ")"));
      if (letter === "," && !open) found.push("");
      else found[found.length - 1] += letter;
    }
    return found.map(one => one.trim()).filter(Boolean);
  }

  document.addEventListener("change", event => {
    const key = event.target.dataset && event.target.dataset.append;
    if (!key || !event.target.value) return;
    const field = fieldOf(document.querySelector(`[data-control="${key}"]`));
    give(key, [...new Set([...split(field.value), event.target.value])].join(", "));
    event.target.value = "";
  });

  document.addEventListener("click", event => {
    const target = event.target.closest("[data-remove], [data-save], [data-copy], [data-play], [data-csv], [data-nav], [data-give], [data-run]");
    if (!target) return;
    const data = target.dataset;
    if (data.remove) {
      const field = fieldOf(document.querySelector('[data-control="activations"]'));
      give("activations", split(field.value).filter(one => one !== data.remove).join(", "));
    } else if (data.save) {
      save(data.graph, data.save);
    } else if (data.copy) {
      navigator.clipboard.writeText(document.getElementById(data.copy).textContent).then(() => {
        target.textContent = "Copied";
        setTimeout(() => { target.textContent = "Copy"; }, 1500);
      });
    } else if (data.run) {
      run(target);
    } else if (data.play) {
      play(graphOf(data.play));
    } else if (data.csv) {
      target.href = `/csv/${data.csv}${location.search}`;
    } else if (data.give) {
      event.preventDefault();
      give(data.give, data.value);
    } else if (data.nav && !(event.metaKey || event.ctrlKey || event.shiftKey)) {
      event.preventDefault();
      go(target.getAttribute("href"));
    }
  });

  /** What is drawn, as rows: curve, x, y and, of a matrix, its value. */
  function table(graph) {
    const rows = [["curve", "x", "y", "value"]];
    for (const [i, trace] of graph.data.entries()) {
      const name = `"${String(trace.name || i).replaceAll('"', '""')}"`;
      if (trace.z) trace.z.forEach((row, y) => row.forEach((value, x) => rows.push([name, x, y, value])));
      else trace.x.forEach((x, k) => rows.push([name, x, trace.y[k], ""]));
    }
    return rows.map(row => row.map(cell => cell ?? "").join(",")).join("\r\n");
  }

  function save(id, format) {
    const graph = graphOf(id);
    if (format === "csv") {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([table(graph)], { type: "text/csv" }));
      link.download = `isometer-${id}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      return;
    }
    const box = graph.getBoundingClientRect();
    window.Plotly.downloadImage(graph, {
      format, filename: `isometer-${id}`, width: Math.round(box.width), height: Math.round(box.height),
      scale: format === "png" ? 2 : 1,
    });
  }

  // --- the cobweb ----------------------------------------------------------------------------------------------------
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let frame = null;

  /** κ between the points at which the curve is drawn. */
  function valueAt(xs, ys, rho) {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= rho) low = middle; else high = middle;
    }
    const share = (rho - xs[low]) / (xs[high] - xs[low]);
    return ys[low] + share * (ys[high] - ys[low]);
  }

  function webs(graph, rho, layers) {
    const found = [];
    for (let i = 1; i + 2 < graph.data.length; i += 3) {
      const x = [rho], y = [rho];
      let at = rho;
      for (let layer = 0; layer < layers; layer++) {
        const next = valueAt(graph.data[i].x, graph.data[i].y, at);
        x.push(at, next);
        y.push(next, next);
        at = next;
      }
      found.push({ trace: i + 2, x, y });
    }
    return found;
  }

  function draw(graph, found, length) {
    const cut = found.map(web => Math.min(web.x.length, length));
    window.Plotly.restyle(graph, {
      x: found.map((web, i) => web.x.slice(0, cut[i])),
      y: found.map((web, i) => web.y.slice(0, cut[i])),
      "marker.size": found.map((_, i) => Array.from({ length: cut[i] }, (_, k) => (k === 0 ? 11 : k === cut[i] - 1 ? 7 : 0))),
    }, found.map(web => web.trace));
  }

  function wanted() {
    const rho = document.getElementById("control-rho"), layers = document.getElementById("control-layers");
    return rho && layers ? [Number(rho.value), Number(layers.value)] : null;
  }

  function play(graph, now) {
    const ask = wanted();
    if (!graph || !graph.data || graph.data.length < 4 || !ask) return;
    cancelAnimationFrame(frame);
    const found = webs(graph, ...ask);
    const total = Math.max(...found.map(web => web.x.length));
    if (now || still.matches) { draw(graph, found, total); return; }
    const start = performance.now();
    const step = time => {
      const share = Math.min(1, (time - start) / 1600);
      draw(graph, found, 1 + Math.ceil((total - 1) * share ** 1.8));
      if (share < 1) frame = requestAnimationFrame(step);
    };
    frame = requestAnimationFrame(step);
  }

  // --- play over layers ----------------------------------------------------------------------------------------------
  const FRAME = 320, FRAMES = 24; // milliseconds between two layers that are shown, and how many of them at most
  let runner = null;

  function rest() {
    clearInterval(runner);
    runner = null;
    for (const button of document.querySelectorAll("[data-run]")) button.textContent = "Play";
  }

  /** Run a control from where it stands to its end, from its start if it is there; each picture is waited for. */
  function run(button) {
    if (runner) { rest(); return; }
    const key = button.dataset.run, field = () => fieldOf(document.querySelector(`[data-control="${key}"]`) || document.createElement("i"));
    const high = Number(button.dataset.high), step = Math.max(1, Math.round(high / FRAMES));
    if (Number(field().value) >= high) give(key, "0");
    runner = setInterval(() => {
      const now = field(), shown = document.querySelector("[data-run]");
      if (!now || !shown) { rest(); return; }
      shown.textContent = "Stop";
      if (waiting || document.querySelector('#main [data-dash-is-loading="true"]')) return;
      const next = Math.min(high, Number(now.value) + step);
      give(key, String(next));
      if (next >= high) rest();
    }, FRAME);
  }

  // --- what quantities mean ------------------------------------------------------------------------------------------
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;

  function explain(event) {
    const term = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !term;
    if (!term) return;
    if (!tip.isConnected) document.body.append(tip);
    tip.textContent = term.dataset.tip;
    const box = term.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const below = box.bottom + own.height + 8 < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - own.width - 8))}px`;
    tip.style.top = `${below ? box.bottom + 6 : Math.max(4, box.top - own.height - 6)}px`;
  }

  const unexplain = () => { tip.hidden = true; };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, explain);
  for (const kind of ["focusout", "keydown", "scroll"]) document.addEventListener(kind, unexplain, true);

  // --- how far an examination is -------------------------------------------------------------------------------------
  const POLL = 700;
  let tab = null, since = null;

  async function follow() {
    const place = document.getElementById("clinic-progress");
    const busy = place && document.querySelector('#clinic-verdict[data-dash-is-loading="true"]');
    if (!busy) {
      since = null;
      if (place) place.hidden = true;
      return;
    }
    since = since || Date.now();
    let told = "";
    try { told = await (await fetch(`/progress/${tab}`)).text(); } catch { /* the server ended */ }
    if (!place.isConnected || since === null) return;
    const seconds = Math.round((Date.now() - since) / 1000);
    place.replaceChildren(`Examining, ${seconds} s: ${told || "loading what is needed"} `);
    const stop = document.createElement("button");
    Object.assign(stop, { type: "button", textContent: "Stop" });
    stop.addEventListener("click", () => { give("other", ""); give("report", ""); });
    place.append(stop);
    place.hidden = false;
  }
  setInterval(follow, POLL);

  let seen = null;
  function cobweb() {
    const ask = String(wanted());
    const again = ask === seen; // the picture changed, not the start: no need to run again
    seen = ask;
    setTimeout(() => play(graphOf("activation-kernel"), again || dragging), 60);
  }

  // --- dragging in pictures ------------------------------------------------------------------------------------------
  let dragging = null;

  function place(event, axes) {
    const box = axes.bounds.getBoundingClientRect();
    const { xaxis, yaxis } = axes.graph._fullLayout;
    const across = xaxis.range[0] + (event.clientX - box.left) / box.width * (xaxis.range[1] - xaxis.range[0]);
    const up = yaxis.range[1] - (event.clientY - box.top) / box.height * (yaxis.range[1] - yaxis.range[0]);
    return [across, up];
  }

  const inside = (value, field) => Math.min(Math.max(value, Number(field.min)), Number(field.max)).toFixed(2);

  // Both axes of the transformer's diagram are numbers that a control sets; some are logarithmic.
  function moveTransformer(across, up) {
    const { xaxis, yaxis } = dragging.graph._fullLayout;
    const named = key => document.getElementById(`control-${key}`);
    const values = [["across", across, xaxis], ["up", up, yaxis]].map(([key, value, axis]) => {
      const field = named(named(key).value);
      const plain = axis.type === "log" ? 10 ** value : value;
      const text = inside(plain, field);
      give(named(key).value, text);
      return Number(text);
    });
    window.Plotly.restyle(dragging.graph, { x: [[values[0]]], y: [[values[1]]] }, [2]);
  }

  function dragged(event) {
    const [across, up] = place(event, dragging);
    if (dragging.id === "activation-kernel") {
      give("rho", inside(across, document.getElementById("control-rho")));
      play(dragging.graph, true);
    } else if (dragging.id === "transformer-diagram") {
      moveTransformer(across, up);
    } else {
      give("sigma_w", inside(across, document.getElementById("control-sigma_w")));
      give("sigma_b", inside(up, document.getElementById("control-sigma_b")));
      window.Plotly.restyle(dragging.graph, { x: [[across]], y: [[up]] }, [2]);
    }
  }

  document.addEventListener("pointerdown", event => {
    const bounds = event.target.closest && event.target.closest(".nsewdrag");
    const owner = bounds && bounds.closest("#activation-kernel, #activation-phase, #transformer-diagram");
    if (!owner || event.button !== 0) return;
    dragging = { id: owner.id, bounds, graph: graphOf(owner.id) };
    dragged(event);
  }, true);
  document.addEventListener("pointermove", event => { if (dragging) dragged(event); });
  document.addEventListener("pointerup", () => {
    const id = dragging && dragging.id;
    dragging = null;
    if (id === "activation-kernel") play(graphOf(id));
  });
  document.addEventListener("pointercancel", () => { dragging = null; });

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    isometer: {
      place: own => { tab = own; mark(); return here(); },
      theme,
      address,
      cobweb,
    },
  });
})();
