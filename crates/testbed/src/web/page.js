"use strict";

// The token came with the address; it stays out of the address bar and of what is sent to anybody else.
const token = new URLSearchParams(location.search).get("token") || sessionStorage.getItem("token") || "";
if (token) sessionStorage.setItem("token", token);
if (location.search) history.replaceState(null, "", location.pathname);

const POLL_MS = 500;
const KEPT_SAMPLES = 240;
const $ = (id) => document.getElementById(id);

let network = null;
let state = null;
let since = null; // date and time of day when the network began
let selected = null; // { kind: "link", name } or { kind: "rule", number }
const samples = new Map(); // by the key of a line: what it did, half a second each

// ---- talking to the network

async function ask(method, path, body) {
  const response = await fetch("/api/" + path, {
    method,
    headers: { authorization: "Bearer " + token, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}

// Does something, shows what came of it, and says what went wrong. True when nothing did.
async function act(method, path, body) {
  try {
    const answer = await ask(method, path, body);
    $("problem").textContent = "";
    await poll();
    return answer === null ? true : answer;
  } catch (error) {
    $("problem").textContent = error.message;
    return false;
  }
}

async function poll() {
  const next = await ask("GET", "state");
  if (state && next.seconds <= state.seconds) return;
  record(state, next);
  state = next;
  $("headline").textContent = headline(state);
  since ??= began(state);
  $("status").textContent = `since ${since}, ${duration(state.seconds)}; ${state.under_way_packets} packets under way${anomalies(state)}`;
  $("status").className = "";
  showTopology();
  showRules();
  showEditors();
  showPlots();
}

// Which links are cut, and whether rules act.
function headline(of) {
  const cut = of.links.filter((link) => !link.up).map((link) => link.name);
  const all = of.links.length === 1 ? "The link works" : `All ${of.links.length} links work`;
  const links = cut.length ? `Cut: ${cut.join(", ")}` : all;
  const rules = of.rules.length;
  return `${links}; ${rules === 1 ? "1 rule acts" : rules ? `${rules} rules act` : "no rule acts"}.`;
}

const began = (of) => new Date(Date.now() - 1000 * of.seconds).toISOString().slice(0, 19).replace("T", " ") + " UTC";

// What became of packets that neither links nor rules dropped.
function anomalies(of) {
  const counts = [["hosts", of.undelivered_packets, "not delivered"]];
  counts.push(["network", of.refused_packets, "too many in transit"]);
  for (const { name, counted } of of.routers) {
    counts.push([name, counted.malformed_packets, "malformed"]);
    counts.push([name, counted.not_for_routers_packets, "not for routers"]);
    counts.push([name, counted.time_exceeded_packets, "time to live exceeded"]);
    counts.push([name, counted.unreachable_packets, "no route"]);
    counts.push([name, counted.too_big_packets, "too big"]);
    counts.push([name, counted.fragmented_packets, "fragmented"]);
  }
  return counts.filter(([, count]) => count).map(([who, count, what]) => `, ${who}: ${count} ${what}`).join("");
}

async function pollForEver() {
  for (;;) {
    try {
      if (!network) await begin();
      await poll();
    } catch (error) {
      $("status").textContent = error.message;
      $("status").className = "gone";
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function begin() {
  network = await ask("GET", "network");
  document.title = "tandem net " + network.name;
  $("name").textContent = network.name;
  $("about").textContent = network.description;
  presets = await ask("GET", "presets");
  const places = layOut(network);
  drawTopology(places);
  for (const node of network.nodes)
    for (const at of node.interfaces)
      for (const address of at.addresses)
        $("addresses").append(element("option", { value: address.split("/")[0] }, node.name));
  for (const link of network.links)
    $("add-rule").elements.link.append(element("option", { value: link.name }, link.name));
  if (network.links.length) select({ kind: "link", name: network.links[0].name });
}

// ---- what lines did

const lineKey = (owner, direction) =>
  owner.number === undefined ? `link ${owner.name} ${direction}` : `rule ${owner.number}`;

// Every line of a state, with its key.
function* lines(of) {
  for (const link of of.links) {
    yield [lineKey(link, "forward"), link.forward];
    yield [lineKey(link, "backward"), link.backward];
  }
  for (const rule of of.rules) yield [lineKey(rule), rule.line];
}

function record(before, now) {
  const earlier = new Map(before ? lines(before) : []);
  const passed = before ? now.seconds - before.seconds : 0;
  for (const [key, line] of lines(now)) {
    const last = earlier.get(key);
    const known = samples.get(key) || [];
    samples.set(key, known);
    if (!last || passed <= 0) continue;
    const delayed = line.delay.count - last.delay.count;
    known.push({
      at: now.seconds,
      rate: (8 * (line.delivered_bytes - last.delivered_bytes)) / passed,
      drops: (line.dropped_packets - last.dropped_packets) / passed,
      delay: delayed > 0 ? (line.delay.total_us - last.delay.total_us) / delayed / 1000 : null,
      queue: line.queue_bytes,
    });
    if (known.length > KEPT_SAMPLES) known.shift();
  }
  for (const key of samples.keys()) if (!earlier.has(key) && before && ![...lines(now)].some(([k]) => k === key)) samples.delete(key);
}

const latest = (key) => (samples.get(key) || []).at(-1);

// ---- words and numbers

const trim = (number, digits = 3) => String(Number(number.toPrecision(digits)));

function scaled(value, units) {
  for (const [size, unit] of units) if (Math.abs(value) >= size) return trim(value / size) + unit;
  return trim(value) + units.at(-1)[1];
}

const RATES = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]];
const BYTES = [[1e6, "MB"], [1e3, "kB"], [1, "B"]];
const showRate = (bits) => scaled(bits, RATES).replace(/(?=[GMk]?bit)/, " ");
const showBytes = (bytes) => scaled(bytes, BYTES).replace(/(?=[Mk]?B)/, " ");
const showTime = (ms) => (ms >= 1000 ? trim(ms / 1000) + " s" : trim(ms) + " ms");

function duration(seconds) {
  const whole = Math.floor(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return parts.map((part, index) => (index ? String(part).padStart(2, "0") : part)).join(":");
}

// Splits a word into its amount in the base unit and what follows: "5ms normal 25%" is 5 and " normal 25%".
function amount(word, units) {
  const match = /^([0-9.]+) *([A-Za-z%/]+)(.*)$/.exec(word);
  if (!match || !(match[2] in units)) return null;
  return { value: Number(match[1]) * units[match[2]], rest: match[3] };
}

const TIME_UNITS = { us: 1e-3, ms: 1, s: 1000 };
const PERCENT_UNITS = { "%": 1 };
const RATE_UNITS = { "bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9, "B/s": 8, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9 };
const BYTE_UNITS = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1048576 };

// Sliders go from 0 to 1000. Small amounts need more room than large ones: squares for what begins at nothing,
// powers for what has a least amount.
const squared = (top) => ({ to: (value) => 1000 * Math.sqrt(value / top), from: (at) => top * (at / 1000) ** 2 });
const powers = (least, top) => ({
  to: (value) => (1000 * Math.log(Math.max(value, least) / least)) / Math.log(top / least),
  from: (at) => least * (top / least) ** (at / 1000),
});

const CONTROLS = [
  { word: "delay", label: "Delay", units: TIME_UNITS, scale: squared(2000), write: (v) => trim(v) + "ms", off: 0 },
  { word: "jitter", label: "Jitter", units: TIME_UNITS, scale: squared(500), write: (v) => trim(v) + "ms", off: 0 },
  { word: "loss", label: "Loss", units: PERCENT_UNITS, scale: squared(100), write: (v) => trim(v) + "%", off: 0 },
  { word: "duplicate", label: "Duplicate", units: PERCENT_UNITS, scale: squared(100), write: (v) => trim(v) + "%", off: 0 },
  { word: "corrupt", label: "Corrupt", units: PERCENT_UNITS, scale: squared(100), write: (v) => trim(v) + "%", off: 0 },
  { word: "reorder", label: "Reorder", units: PERCENT_UNITS, scale: squared(100), write: (v) => trim(v) + "%", off: 0 },
  { word: "bandwidth", label: "Bandwidth", units: RATE_UNITS, scale: powers(8e3, 1e9), write: (v) => scaled(v, RATES), off: 1000 },
  { word: "queue", label: "Queue", units: BYTE_UNITS, scale: powers(1e3, 1e8), write: (v) => scaled(v, BYTES), off: 1000 },
];

let presets = [];

// ---- editing

// A field set with a slider and a text for everything that can be done to packets; `apply` is called with all words.
function editor(className, title, apply) {
  const box = element("fieldset", { class: className }, element("legend", {}, title));
  const choice = element("select", { "aria-label": "Preset" }, element("option", { value: "" }, "preset …"));
  for (const preset of presets) choice.append(element("option", { value: preset.name, title: preset.about }, preset.name));
  const fields = new Map();
  const words = () => Object.fromEntries([...fields].map(([word, { text }]) => [word, text.value.trim()]).filter(([, value]) => value));
  let timer = null;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => apply(words()), 80);
  };
  for (const control of CONTROLS) {
    const slider = element("input", { type: "range", min: 0, max: 1000, step: 1, value: control.off, "aria-label": `${title}: ${control.label}` });
    const text = element("input", { type: "text", name: control.word, placeholder: control.off ? "unlimited" : "none", "aria-label": `${title}: ${control.label} in words`, spellcheck: "false" });
    slider.addEventListener("input", () => {
      const at = Number(slider.value);
      const rest = amount(text.value, control.units)?.rest ?? "";
      text.value = at === control.off ? "" : control.write(control.scale.from(at)) + rest;
      later();
    });
    text.addEventListener("change", () => {
      place(control, slider, text.value);
      apply(words());
    });
    text.addEventListener("keydown", (event) => event.key === "Enter" && text.blur());
    fields.set(control.word, { slider, text, control });
    box.append(element("div", { class: "control" }, element("span", {}, control.label), slider, text));
  }
  choice.addEventListener("change", () => {
    const preset = presets.find((one) => one.name === choice.value);
    choice.value = "";
    if (preset) apply(preset.words);
  });
  box.append(choice);
  box.update = (now) => {
    for (const [word, { slider, text, control }] of fields) {
      // What somebody is at is theirs.
      if (document.activeElement === text || document.activeElement === slider) continue;
      const value = now[word] ?? "";
      if (text.value !== value) {
        text.value = value;
        place(control, slider, value);
      }
    }
  };
  return box;
}

// Puts the slider where the word says.
function place(control, slider, word) {
  const read = amount(word, control.units);
  slider.value = read ? Math.min(1000, control.scale.to(read.value)) : control.off;
}

function select(what) {
  selected = what;
  const box = $("editors");
  box.replaceChildren();
  if (what.kind === "link") {
    const link = network.links.find((one) => one.name === what.name);
    const both = element("input", { type: "checkbox", id: "both" });
    both.checked = true;
    const path = (direction) => `links/${encodeURIComponent(link.name)}/${both.checked ? "both" : direction}`;
    const [first, second] = link.between;
    $("selected-heading").textContent = `Link ${link.name}`;
    box.append(
      element("label", {}, both, " what is changed is changed in both directions"),
      (box.forward = editor("forward", `${first} to ${second}`, (words) => act("PUT", path("forward"), words))),
      (box.backward = editor("backward", `${second} to ${first}`, (words) => act("PUT", path("backward"), words))),
    );
  } else {
    $("selected-heading").textContent = `Rule ${what.number}`;
    box.forward = editor("forward", `Rule ${what.number}`, (words) => act("PUT", `rules/${what.number}`, words));
    box.backward = null;
    box.append(box.forward);
  }
  drawPlots();
  if (state) {
    showTopology();
    showRules();
    showEditors();
    showPlots();
  }
}

function showEditors() {
  const owner = selectedState();
  if (!owner) return;
  const box = $("editors");
  if (selected.kind === "link") {
    box.forward.update(owner.forward.words);
    box.backward.update(owner.backward.words);
  } else {
    box.forward.update(owner.line.words);
  }
}

function selectedState() {
  if (!selected || !state) return undefined;
  const found =
    selected.kind === "link"
      ? state.links.find((link) => link.name === selected.name)
      : state.rules.find((rule) => rule.number === selected.number);
  if (!found && selected.kind === "rule" && network.links.length) select({ kind: "link", name: network.links[0].name });
  return found;
}

// ---- rules

function showRules() {
  const body = $("rules").tBodies[0];
  const rows = new Map([...body.rows].map((row) => [Number(row.dataset.number), row]));
  const numbers = new Set(state.rules.map((rule) => rule.number));
  for (const [number, row] of rows) if (!numbers.has(number)) row.remove();
  state.rules.forEach((rule, place) => {
    const row = rows.get(rule.number) || ruleRow(rule.number);
    row.classList.toggle("selected", selected?.kind === "rule" && selected.number === rule.number);
    const { source, destination, protocol, source_port, destination_port, link } = rule.rule;
    const does = Object.entries(rule.line.words).map(([word, value]) => `${word} ${value}`).join(", ");
    const ports = `${source_port || "any"} → ${destination_port || "any"}`;
    const now = latest(lineKey(rule));
    const texts = [
      rule.number, source || "any", destination || "any", protocol || "any", ports, link || "", does || "nothing",
      now ? showRate(now.rate) : "", `${rule.line.dropped_packets} of ${rule.line.offered_packets}`,
    ];
    texts.forEach((text, index) => setText(row.cells[index], String(text)));
    // A row that is moved while a button in it is pressed loses the click.
    if (body.rows[place] !== row) body.insertBefore(row, body.rows[place] ?? null);
  });
}

function ruleRow(number) {
  const remove = element("button", { type: "button", "aria-label": `Delete rule ${number}` }, "Delete");
  remove.addEventListener("click", (event) => {
    event.stopPropagation();
    act("DELETE", `rules/${number}`);
  });
  const cells = Array.from({ length: 9 }, () => element("td"));
  const row = element("tr", { "data-number": number, tabindex: 0 }, ...cells, element("td", {}, remove));
  row.addEventListener("click", () => select({ kind: "rule", number }));
  row.addEventListener("keydown", (event) => event.target === row && event.key === "Enter" && select({ kind: "rule", number }));
  return row;
}

$("add-rule").addEventListener("submit", async (event) => {
  event.preventDefault();
  const rule = {};
  for (const field of event.target.elements) if (field.name && field.value.trim()) rule[field.name] = field.value.trim();
  const answer = await act("POST", "rules", rule);
  if (answer) select({ kind: "rule", number: answer.number });
});

// ---- the picture

const WIDTH = 960;
const HEIGHT = 380;

// How many links each node is away from the first one.
function distances(count, joined) {
  const away = Array(count).fill(Infinity);
  away[0] = 0;
  for (let waiting = [0]; waiting.length; ) {
    const here = waiting.shift();
    for (const pair of joined) {
      if (!pair.includes(here)) continue;
      const other = pair[0] === here ? pair[1] : pair[0];
      if (away[other] !== Infinity) continue;
      away[other] = away[here] + 1;
      waiting.push(other);
    }
  }
  const farthest = Math.max(...away.filter(Number.isFinite));
  return away.map((one) => (Number.isFinite(one) ? one : farthest + 1));
}

// Where nodes stand: in columns by their distance from the first one to begin with; then those that are joined
// attract each other and all push each other away. The same topology looks the same each time.
function layOut({ nodes, links }) {
  const index = new Map(nodes.map((node, at) => [node.name, at]));
  const joined = links.map((link) => link.between.map((name) => index.get(name)));
  const away = distances(nodes.length, joined);
  const place = nodes.map((_, at) => {
    const column = away.map((_, other) => other).filter((other) => away[other] === away[at]);
    return { x: away[at], y: column.indexOf(at) - (column.length - 1) / 2 + 0.001 * at };
  });
  const rounds = nodes.length > 100 ? 60 : 300;
  for (let round = 0; round < rounds; round += 1) {
    const moves = place.map(() => ({ x: 0, y: 0 }));
    const push = (one, other, strength) => {
      const dx = place[one].x - place[other].x;
      const dy = place[one].y - place[other].y;
      const distance = Math.max(0.01, Math.hypot(dx, dy));
      const force = strength(distance) / distance;
      moves[one].x += dx * force;
      moves[one].y += dy * force;
      moves[other].x -= dx * force;
      moves[other].y -= dy * force;
    };
    for (let one = 0; one < place.length; one += 1)
      for (let other = 0; other < one; other += 1) push(one, other, (distance) => 1 / distance ** 2);
    for (const [one, other] of joined) push(one, other, (distance) => -distance);
    const heat = 0.15 * (1 - round / rounds) + 0.005;
    place.forEach((at, which) => {
      const { x, y } = moves[which];
      const force = Math.max(1e-9, Math.hypot(x, y));
      const step = Math.min(heat, 0.1 * force) / force;
      at.x += x * step;
      at.y += y * step;
    });
  }
  return fit(place, away);
}

// Turns the way from the first node to those farthest away from it to lie from left to right, and fills the picture.
function fit(place, away) {
  const farthest = Math.max(...away);
  const ends = place.filter((_, at) => away[at] === farthest);
  const mean = (all, of) => all.reduce((sum, at) => sum + of(at), 0) / all.length;
  const turn = Math.atan2(mean(ends, (at) => at.y) - place[0].y, mean(ends, (at) => at.x) - place[0].x);
  const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
  for (const at of place) [at.x, at.y] = [at.x * cos + at.y * sin, at.y * cos - at.x * sin];
  const range = (of) => [Math.min(...place.map(of)), Math.max(...place.map(of))];
  const [left, right] = range((at) => at.x);
  const [top, bottom] = range((at) => at.y);
  const scaleX = (WIDTH - 180) / Math.max(right - left, 0.01);
  // What lies in a row needs little height.
  const isRow = bottom - top < 0.1 * (right - left);
  const height = isRow ? 180 : HEIGHT;
  $("topology").setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  const scaleY = isRow ? 0 : Math.min(1.3 * scaleX, (height - 120) / (bottom - top));
  return place.map((at) => ({
    x: WIDTH / 2 + (at.x - (left + right) / 2) * scaleX,
    y: height / 2 - 5 + (at.y - (top + bottom) / 2) * scaleY,
  }));
}

function drawTopology(places) {
  const picture = $("topology");
  picture.replaceChildren();
  const at = new Map(network.nodes.map((node, index) => [node.name, places[index]]));
  const beside = new Map();
  const switches = [];
  for (const link of network.links) {
    const [from, to] = link.between.map((name) => at.get(name));
    // Links that join the same nodes bend away from each other.
    const pair = [...link.between].sort().join(" ");
    const count = beside.get(pair) || 0;
    beside.set(pair, count + 1);
    const bend = (count % 2 ? -1 : 1) * Math.ceil(count / 2) * 70;
    const length = Math.max(1, Math.hypot(to.x - from.x, to.y - from.y));
    const across = { x: (-(to.y - from.y) / length) * bend, y: ((to.x - from.x) / length) * bend };
    const middle = { x: (from.x + to.x) / 2 + across.x, y: (from.y + to.y) / 2 + across.y };
    const control = { x: middle.x + across.x, y: middle.y + across.y };
    const path = `M${from.x},${from.y} Q${control.x},${control.y} ${to.x},${to.y}`;
    const group = svg("g", { class: "link", tabindex: 0, role: "button", "aria-label": `Link ${link.name}`, "data-link": link.name },
      svg("title"), svg("path", { class: "reach", d: path }), svg("path", { class: "wire", d: path }),
      svg("text", { x: middle.x, y: middle.y - 18 }, link.name), svg("text", { class: "small rates", x: middle.x, y: middle.y + 26 }),
      svg("text", { class: "small words", x: middle.x, y: middle.y + 40 }));
    onPress(group, () => select({ kind: "link", name: link.name }));
    picture.append(group);
    const button = svg("g", { class: "switch", tabindex: 0, role: "button", "data-switch": link.name, transform: `translate(${middle.x},${middle.y})` },
      svg("title"), svg("circle", { r: 11 }), svg("path", { class: "works", d: "M-5,0 L-1.5,4 L5,-4" }),
      svg("path", { class: "broken", d: "M-4,-4 L4,4 M4,-4 L-4,4" }));
    onPress(button, () => {
      const now = state?.links.find((one) => one.name === link.name);
      if (now) act("POST", `links/${encodeURIComponent(link.name)}/${now.up ? "cut" : "heal"}`);
    });
    switches.push(button);
  }
  for (const node of network.nodes) {
    const { x, y } = at.get(node.name);
    const addresses = node.interfaces.flatMap((one) => one.addresses.map((address) => `${one.name} ${address}`));
    const shown = node.interfaces.map((one) => one.addresses[0]?.split("/")[0]).filter(Boolean);
    const wide = Math.max(72, 9 * node.name.length + 18);
    const group = svg("g", { class: "node " + node.kind }, svg("title", {}, addresses.join("\n")),
      svg("rect", { x: x - wide / 2, y: y - 16, width: wide, height: 32, rx: node.kind === "router" ? 16 : 4 }),
      svg("text", { x, y: y + 5 }, node.name));
    if (node.kind === "host") shown.slice(0, 3).forEach((text, line) => group.append(svg("text", { class: "small", x, y: y + 31 + 13 * line }, text)));
    picture.append(group);
  }
  picture.append(...switches);
}

function showTopology() {
  for (const link of state.links) {
    const group = document.querySelector(`[data-link="${CSS.escape(link.name)}"]`);
    const button = document.querySelector(`[data-switch="${CSS.escape(link.name)}"]`);
    const there = latest(lineKey(link, "forward"));
    const back = latest(lineKey(link, "backward"));
    group.classList.toggle("cut", !link.up);
    group.classList.toggle("selected", selected?.kind === "link" && selected.name === link.name);
    button.classList.toggle("cut", !link.up);
    button.setAttribute("aria-label", `${link.up ? "Cut" : "Heal"} link ${link.name}`);
    setText(button.querySelector("title"), link.up ? "Cut" : "Heal");
    const rates = link.up ? (there ? `${showRate(there.rate)} → ← ${showRate(back.rate)}` : "") : "cut";
    setText(group.querySelector(".rates"), rates);
    const brief = ({ words }) => ["delay", "loss", "bandwidth"].map((word) => words[word]).filter(Boolean).join(" ");
    const [one, other] = [brief(link.forward), brief(link.backward)];
    setText(group.querySelector(".words"), one === other ? one : `${one || "–"} → ← ${other || "–"}`);
    const all = ({ words }) => Object.entries(words).map(([word, value]) => `${word} ${value}`).join(", ") || "perfect";
    setText(group.querySelector("title"), `${link.name}\nforward: ${all(link.forward)}\nbackward: ${all(link.backward)}`);
  }
}

// ---- plots

const PLOTS = [
  { of: "rate", title: "Rate", show: showRate, least: 1000 },
  { of: "delay", title: "Delay", show: showTime, least: 1 },
  { of: "drops", title: "Drops", show: (value) => trim(value) + "/s", least: 1 },
  { of: "queue", title: "Queue", show: showBytes, least: 1000 },
];
const PLOT = { width: 300, height: 130, left: 8, right: 8, top: 18, bottom: 18 };
const SHOWN_SECONDS = (KEPT_SAMPLES * POLL_MS) / 1000;

function drawPlots() {
  $("plots").replaceChildren(
    ...PLOTS.map((plot) => {
      const caption = element("figcaption", {}, element("b", {}, plot.title), element("span", { class: "forward-text" }), element("span", { class: "backward-text" }));
      const picture = svg("svg", { class: "plot", viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img", "aria-label": plot.title });
      return element("figure", { "data-plot": plot.of }, caption, picture);
    }),
  );
}

function showPlots() {
  const owner = selectedState();
  if (!owner) return;
  const isLink = selected.kind === "link";
  const series = isLink
    ? [["forward", samples.get(lineKey(owner, "forward"))], ["backward", samples.get(lineKey(owner, "backward"))]]
    : [["forward", samples.get(lineKey(owner))]];
  for (const plot of PLOTS) {
    const figure = document.querySelector(`[data-plot="${plot.of}"]`);
    const values = series.flatMap(([, known]) => (known || []).map((sample) => sample[plot.of] ?? 0));
    const top = roundUp(Math.max(plot.least, ...values));
    const x = (at) => PLOT.width - PLOT.right - ((state.seconds - at) / SHOWN_SECONDS) * (PLOT.width - PLOT.left - PLOT.right);
    const y = (value) => PLOT.height - PLOT.bottom - (value / top) * (PLOT.height - PLOT.top - PLOT.bottom);
    const parts = [0, 0.5, 1].flatMap((part) => [
      svg("line", { class: "grid", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(part * top), y2: y(part * top) }),
      svg("text", { x: PLOT.left + 2, y: y(part * top) - 3, "text-anchor": "start", class: "axis" }, plot.show(part * top)),
    ]);
    parts.push(svg("text", { x: PLOT.width / 2, y: PLOT.height - 4 }, `last ${SHOWN_SECONDS} s`));
    for (const [name, known] of series) {
      for (const run of runs(known || [], plot.of)) {
        const points = run.map((sample) => `${x(sample.at).toFixed(1)},${y(sample[plot.of]).toFixed(1)}`);
        // One alone is a dot: a line needs two.
        if (points.length === 1) points.push(points[0]);
        parts.push(svg("polyline", { class: name, points: points.join(" ") }));
      }
      const now = (known || []).at(-1)?.[plot.of];
      const sign = isLink ? (name === "forward" ? "→ " : "← ") : "";
      setText(figure.querySelector(`.${name}-text`), now === undefined || now === null ? sign + "–" : sign + plot.show(now));
    }
    figure.querySelector("svg").replaceChildren(...parts);
    figure.querySelectorAll(".axis").forEach((text) => (text.style.textAnchor = "start"));
  }
}

// Samples in a row that have a value.
function runs(known, of) {
  const all = [[]];
  for (const sample of known)
    if (sample[of] === null) all.push([]);
    else all.at(-1).push(sample);
  return all.filter((run) => run.length);
}

function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((digit) => digit * power >= value) * power;
}

// ---- elements

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function setText(at, text) {
  if (at.textContent !== text) at.textContent = text;
}

function onPress(at, action) {
  at.addEventListener("click", action);
  at.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    action();
  });
}

pollForEver();
