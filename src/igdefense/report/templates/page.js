"use strict";
const page = JSON.parse(document.getElementById("content").textContent);
const $ = (id) => document.getElementById(id);

// Text from data is set as text, never as HTML.
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function tile(sprite, number) {
  if (number < 0) return element("div", { className: "tile none" });
  const { columns, rows } = page.sprites[sprite];
  const made = element("div", { className: `tile s${sprite}` });
  const at = (place, count) => (count > 1 ? (100 * place) / (count - 1) : 0);
  made.style.backgroundSize = `${100 * columns}% ${100 * rows}%`;
  made.style.backgroundPosition =
    `${at(number % columns, columns)}% ${at(Math.floor(number / columns), rows)}%`;
  return made;
}

function fill(select, names) {
  const chosen = select.value;
  select.replaceChildren(...names.map(([value, text]) => element("option", { value, textContent: text })));
  if (names.some(([value]) => String(value) === chosen)) select.value = chosen;
}

// ---- plots: drawn by Plotly when their tab is first seen, in the colours of the page ----
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const LIGHT = { ink: "#1d1f23", line: "#d9dce1", paper: "#ffffff" };

function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { ink: read("--ink"), line: read("--line"), paper: read("--paper") };
}

function themed(layout, { ink, line, paper }) {
  const axis = (own) => ({ ...own, gridcolor: line, zerolinecolor: ink, linecolor: line, tickcolor: line });
  const result = {
    ...layout, paper_bgcolor: paper, plot_bgcolor: paper,
    font: { family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", size: 13, color: ink },
    hoverlabel: { bgcolor: paper, bordercolor: line, font: { color: ink } },
  };
  for (const name of Object.keys(layout)) if (/^[xy]axis/.test(name)) result[name] = axis(layout[name]);
  if (layout.scene) {
    result.scene = { ...layout.scene };
    for (const name of ["xaxis", "yaxis", "zaxis"]) result.scene[name] = { ...axis(layout.scene[name]), backgroundcolor: paper };
  }
  return result;
}

const PAPER = 640; // pixels between the margins of A4 and of Letter
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false };

let printing = false; // a sheet of paper is narrower than a screen, and never dark

function draw(figure) {
  const { data, layout } = page.figures[figure.dataset.figure];
  const canvas = figure.querySelector(".canvas");
  figure.dataset.drawn = "yes";
  figure.classList.toggle("solid", "scene" in layout);
  if (printing && layout.scene) return null; // paper shows it from above: WebGL's canvas prints empty
  const copy = { data: structuredClone(data), layout: themed(layout, printing ? LIGHT : colours()) };
  if (printing) return Plotly.react(canvas, copy.data, { ...copy.layout, width: PAPER, autosize: false }, CONFIG);
  const drawn = fitted(copy, canvas.clientWidth);
  return Plotly.react(canvas, drawn.data, { ...drawn.layout, width: undefined, autosize: true }, CONFIG);
}

// On a phone: scales of colour below the plot, and solids seen from further away.
function fitted({ data, layout }, width) {
  if (width > 480) return { data, layout };
  for (const trace of data)
    if (trace.colorbar) Object.assign(trace.colorbar, { orientation: "h", y: -0.2, yanchor: "top", thickness: 10, title: { ...trace.colorbar.title, side: "right" } });
  const eye = layout.scene && layout.scene.camera.eye;
  if (eye) layout.scene.camera = { ...layout.scene.camera, eye: { x: 1.15 * eye.x, y: 1.15 * eye.y, z: 1.15 * eye.z } };
  if (layout.scene) layout.margin = { ...layout.margin, b: 70 };
  if (layout.xaxis && layout.xaxis.title) layout.xaxis = { ...layout.xaxis, title: { ...layout.xaxis.title, text: folded(layout.xaxis.title.text) } };
  return { data, layout };
}

// A long name of an axis in two lines, parted at the space nearest its middle.
function folded(text) {
  if (!text || text.length < 36) return text;
  const spaces = [...text.matchAll(/ /g)].map((found) => found.index);
  const middle = spaces.sort((a, b) => Math.abs(a - text.length / 2) - Math.abs(b - text.length / 2))[0];
  return middle === undefined ? text : `${text.slice(0, middle)}<br>${text.slice(middle + 1)}`;
}

function drawIn(panel) {
  for (const figure of panel.querySelectorAll(".plot:not([data-drawn])")) draw(figure);
}

dark.addEventListener("change", () => document.querySelectorAll(".plot[data-drawn]").forEach(draw));

// ---- saving ----
function download(name, address) {
  element("a", { download: name, href: address }).click();
}

function downloadText(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  download(name, address);
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function downloadPicture({ name, title, data, layout }) {
  const light = themed(layout, LIGHT);
  const text = title.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  light.title = { text, font: { size: 15 }, yref: "container", y: 0.98, yanchor: "top" };
  light.margin = { ...layout.margin, t: 112 }; // the title, then two lines of legend
  const picture = { data: structuredClone(data), layout: light };
  download(`${name}.png`, await Plotly.toImage(picture, { format: "png", width: 800, height: 520, scale: 2 }));
}

document.addEventListener("click", (event) => {
  const kind = event.target.dataset && event.target.dataset.save;
  if (!kind) return;
  if (kind === "table") return downloadText("results.csv", page.table);
  if (kind === "outcome") {
    const [name, text] = page.outcomes[event.target.dataset.outcome];
    return downloadText(`${name}.csv`, text);
  }
  const place = event.target.closest(".plot");
  const figure = place ? page.figures[place.dataset.figure] : drawnNeurons;
  if (kind === "csv") downloadText(`${figure.name}.csv`, figure.csv);
  else downloadPicture(figure);
});

// ---- tabs ----
const tabs = [...document.querySelectorAll("[role=tab]")];

function show(tab, focus = true) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", chosen);
    other.tabIndex = chosen ? 0 : -1;
    $(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus({ preventScroll: true });
  tab.parentElement.scrollTo({ left: tab.offsetLeft - 40 });
  drawIn($(tab.getAttribute("aria-controls")));
  history.replaceState(null, "", `#${tab.id.slice(4)}`);
}

tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => show(tab));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(tabs[(to + tabs.length) % tabs.length]);
  });
});

window.addEventListener("beforeprint", () => {
  printing = true;
  document.querySelectorAll(".plot").forEach(draw);
});
window.addEventListener("afterprint", () => {
  printing = false;
  for (const figure of document.querySelectorAll(".plot"))
    if (figure.closest("[hidden]")) delete figure.dataset.drawn;
    else draw(figure);
});

// ---- gallery ----
const ANY = "-1";
let visible = [];

function entry(run, position, attack) {
  const made = attack < 0 ? null : run.attacks[attack];
  const at = made ? made.tiles[position] : -1;
  return {
    position, run, attack: made, at,
    label: page.gallery.labels[position],
    clean: run.clean.predictions[position],
    outcome: made ? page.gallery.outcomes[made.outcomes[position]] : "not attacked",
    prediction: at < 0 ? null : made.predictions[at],
  };
}

const className = (number) => page.gallery.classes[number];

function tilesOf(item) {
  const sprites = item.attack ? item.attack.sprites : [0, 0];
  return [["clean", tile(0, item.position)],
    [`perturbation × ${page.gallery.amplified}`, tile(sprites[1], item.at)],
    ["adversarial", tile(sprites[0], item.at)]];
}

function outcomeOf(item) {
  const kind = { survived: "survived", broken: "broken-outcome" }[item.outcome] || "quiet";
  return element("span", { className: `outcome ${kind}`, textContent: item.outcome });
}

function card(item, i) {
  const to = item.prediction === null ? "" : ` → ${className(item.prediction)}`;
  const made = element("button", { type: "button", className: "card", tabIndex: i ? -1 : 0 },
    element("div", { className: "tiles" }, ...tilesOf(item).map(([, shown]) => shown)),
    element("div", { className: "words" },
      element("div", { textContent: className(item.label) }, " ", outcomeOf(item)),
      element("div", { className: "quiet", textContent: `${className(item.clean)}${to}` })));
  made.addEventListener("click", () => open(i));
  return made;
}

function chosen(form) {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, Number(value)]));
}

function refresh() {
  const want = chosen($("filters"));
  const run = page.gallery.runs[want.run];
  visible = page.gallery.labels
    .map((_, position) => entry(run, position, want.attack < 0 ? run.decisive[position] : want.attack))
    .filter((item) => want.class < 0 || item.label === want.class)
    .filter((item) => want.outcome < 0 || item.outcome === page.gallery.outcomes[want.outcome]);
  $("cards").replaceChildren(...visible.map(card));
  $("count").textContent = `${visible.length} of ${page.gallery.labels.length} images`;
}

function runChanged() {
  const run = page.gallery.runs[chosen($("filters")).run];
  const names = run.attacks.map((attack, i) => [i, attack.name]);
  fill($("filters").elements.attack, [[ANY, "first to break it"], ...names]);
  refresh();
}

function setUpGallery() {
  const { run, class: label, outcome } = $("filters").elements;
  const { runs, classes, outcomes } = page.gallery;
  fill(run, runs.map((one, i) => [i, one.name]));
  fill(label, [[ANY, "all classes"], ...classes.map((name, i) => [i, name])]);
  fill(outcome, [[ANY, "all outcomes"], ...outcomes.map((name, i) => [i, name])]);
  const guided = runs.findIndex((one) => one.guided);
  run.value = String(Math.max(0, guided));
  runChanged();
  $("filters").addEventListener("change", (event) => (event.target === run ? runChanged() : refresh()));
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("cards").addEventListener("keydown", (event) => {
    const cards = [...$("cards").children];
    const across = getComputedStyle($("cards")).gridTemplateColumns.split(" ").length;
    const most = cards.length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -most, End: most }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = cards.indexOf(document.activeElement);
    focusCard(Math.min(Math.max(from + step, 0), most - 1));
  });
}

// The one card that the Tab key stops at.
function focusCard(to) {
  [...$("cards").children].forEach((card, i) => { card.tabIndex = i === to ? 0 : -1; });
  const card = $("cards").children[to];
  if (card) card.focus();
}

// ---- one image ----
let current = 0;

function open(i) {
  if (!visible.length) return;
  current = (i + visible.length) % visible.length;
  const item = visible[current];
  $("detail-title").textContent = `Image ${item.position}: ${className(item.label)}`;
  $("detail-tiles").replaceChildren(...tilesOf(item).map(([name, shown]) =>
    element("figure", {}, shown, element("figcaption", { textContent: name }))));
  const guess = (where, at) => (item.run.guided && at >= 0 ? className(where.guesses[at]) : null);
  const facts = [
    ["run", item.run.name],
    ["attack", item.attack ? `${item.attack.name}, made on the ${item.attack.sees || "defense"}` : "none"],
    ["outcome", item.outcome],
    ["largest change of a pixel", item.at < 0 ? null : `${item.attack.sizes[item.at]}/255`],
    ["true class", className(item.label)],
    ["predicted when clean", className(item.clean)],
    ["predicted when attacked", item.prediction === null ? null : className(item.prediction)],
    ["pseudo-label when clean", guess(item.run.clean, item.position)],
    ["pseudo-label when attacked", item.attack ? guess(item.attack, item.at) : null],
  ];
  $("detail-facts").replaceChildren(...facts.filter(([, value]) => value !== null)
    .flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", { textContent: value })]));
  if (!$("detail").open) $("detail").showModal();
  drawNeurons(item);
}

let drawnNeurons = null;

function drawNeurons(item) {
  const of = item.attack && item.at >= 0 ? item.attack.neurons[item.at] : null;
  $("detail-plot").hidden = $("detail-save").hidden = !of;
  if (!of) return;
  const names = of.neurons.map((neuron) => `n${neuron}`);
  const bar = (name, color, pattern) => ({
    type: "bar", name, x: names, y: of[name], marker: { color, pattern: { shape: pattern, size: 5 } },
    hovertemplate: "%{x}: %{y}",
  });
  const data = [bar("clean", "#0072B2", ""), bar("attacked", "#D55E00", ""), bar("masked", "#009E73", "/")];
  const led = of.led_to === item.label ? "" : ` and of ${className(of.led_to)}`;
  const title = `top neurons of ${className(item.label)}${led}`.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const layout = {
    height: 260, barmode: "group", margin: { l: 52, r: 8, t: 8, b: 48 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: { title: { text: title }, type: "category" }, yaxis: { title: { text: "mean activation" } },
  };
  const lines = of.neurons.map((neuron, i) => [neuron, of.clean[i], of.attacked[i], of.masked[i]].join(","));
  drawnNeurons = {
    name: `neurons-of-image-${item.position}`, title: `Image ${item.position}, ${item.run.name}, ${item.attack.name}`,
    data, layout: { ...layout, height: undefined }, csv: ["neuron,clean,attacked,masked", ...lines, ""].join("\n"),
  };
  Plotly.react($("detail-plot"), data, themed(layout, colours()), CONFIG);
}

function setUpDetail() {
  $("before").addEventListener("click", () => open(current - 1));
  $("after").addEventListener("click", () => open(current + 1));
  $("detail").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { event.preventDefault(); open(current + step); }
  });
  $("detail").addEventListener("close", () => focusCard(current));
}

// ---- neurons ----
function showNeurons() {
  const want = chosen($("neuron-filters"));
  const ranking = page.neurons[want.ranking];
  const label = want.class;
  $("neuron-hint").textContent =
    `Top neurons of ${ranking.layer} for ${ranking.names[label]} by ${ranking.method}, and the images ` +
    `of ${ranking.images} on which each is most active, with their class and mean activation; a blue ` +
    `frame marks ${ranking.names[label]}. A neuron serves the classes with it in their top ${ranking.keep} of ${ranking.width}.`;
  $("neuron-rows").replaceChildren(...ranking.top[label].map(([neuron, score]) => {
    const about = ranking.neurons[neuron];
    const pictures = about.tiles.map((number, i) =>
      element("div", { className: about.labels[i] === label ? "excited own" : "excited" },
        tile(ranking.sprite, number), element("div", { textContent: ranking.names[about.labels[i]] }),
        element("div", { textContent: about.levels[i] })));
    const served = about.serves.map(([name, place]) => `${ranking.names[name]} #${place}`).join(", ");
    return element("div", { className: "neuron" },
      element("div", {}, element("strong", { textContent: `neuron ${neuron}` }),
        element("div", { className: "quiet", textContent: `score ${score}` })),
      element("div", { className: "tiles" }, ...pictures),
      element("div", { className: "served", textContent: `serves ${about.serves.length} of ${ranking.names.length}: ${served || "none"}` }));
  }));
}

function setUpNeurons() {
  const { ranking, class: label } = $("neuron-filters").elements;
  fill(ranking, page.neurons.map((one, i) => [i, one.name]));
  fill(label, page.neurons[0].classes.map((name, i) => [i, name]));
  $("neuron-filters").addEventListener("change", showNeurons);
  $("neuron-filters").addEventListener("submit", (event) => event.preventDefault());
  showNeurons();
}

if (page.gallery) { setUpGallery(); setUpDetail(); }
if (page.neurons.length) setUpNeurons();
show(tabs.find((tab) => tab.id === `tab-${location.hash.slice(1)}`) || tabs[0], false);
