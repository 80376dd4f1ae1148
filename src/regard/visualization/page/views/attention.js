/**
 * Where the model looked: an image, and over it how much of each patch was read.
 *
 * A map is one head of one layer, the mean of a layer's heads, or the rollout through all layers.
 * It is chosen in the grid of small maps, by clicking or with the arrow keys. Where the model can
 * be asked (`tools.live`), a patch that is clicked shows what it read itself, and one map more says
 * which patches mattered.
 */

const ROLLOUT = "rollout";
const DELETION = "deletion";
const MEAN = "mean";
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function render(element, { items = [] }, tools) {
  const { html, empty, state, live } = tools;
  if (!items.length) return element.append(empty("There is no image to show."));

  const look = { opacity: 0.6, paint: "blue", shared: false };
  const at = { item: 0, layer: ROLLOUT, head: MEAN, patch: null }; // all count from 0
  const unpacked = new Map(); // the maps of items that were looked at
  const asked = new Map(); // those of patches, by their number
  const lost = new Map(); // what deleting patches did, by item
  let wanted = null; // the patch that was clicked last
  const stage = html("div", { class: "stage", on: { keydown: leave } });
  const thumbs =
    items.length > 1
      ? tools.thumbnails(
          items.map(({ title, ...item }) => ({ ...item, title, name: title })),
          (item) => go({ item, patch: null }),
        )
      : null;
  // One for all drawings of the scene: its work may be under way while other maps are looked at.
  const deleting = live?.falls ? tools.deletion.asking(live.falls, learn) : null;
  element.append(...(thumbs ? [thumbs.element] : []), stage);
  state.changed(adopt);
  adopt(state.read());

  /** What the address asks for, as far as it exists. Numbers in the address count from 1. */
  function adopt({ item, layer, head, patch }) {
    at.item = within(Number(item) - 1, items.length) ?? 0;
    at.patch = null;
    const { layers, heads, rows, columns } = mapsOf(at.item);
    at.layer = layer === ROLLOUT ? ROLLOUT : (within(Number(layer) - 1, layers) ?? layers - 1);
    at.head = head === MEAN ? MEAN : (within(Number(head) - 1, heads) ?? MEAN);
    if (!layers) at.layer = ROLLOUT;
    draw();
    if (layer === DELETION) deleting?.start();
    const own = within(Number(patch) - 1, rows * columns);
    if (own !== null) view().ask?.(own);
  }

  /** Look at something else, and say so in the address. */
  function go(change) {
    Object.assign(at, change);
    const { layers, heads } = mapsOf(at.item);
    if (at.layer === DELETION && !lost.has(at.item)) at.layer = ROLLOUT;
    if (isLayer(at.layer)) at.layer = layers ? Math.min(at.layer, layers - 1) : ROLLOUT;
    if (at.head !== MEAN) at.head = heads ? Math.min(at.head, heads - 1) : MEAN;
    const head = at.head === MEAN ? MEAN : at.head + 1;
    const choices = isLayer(at.layer) ? { layer: at.layer + 1, head } : { layer: at.layer };
    const patch = at.patch === null ? {} : { patch: at.patch + 1 };
    state.write({ item: at.item + 1, ...choices, ...patch });
    draw();
  }

  /** Show what a patch read, once that is known; clicked again, what the answer read. */
  async function ask(patch) {
    wanted = patch === at.patch ? null : patch;
    const mine = wanted;
    if (mine !== null && !asked.has(mine)) {
      try {
        asked.set(mine, mapsIn(await live.reads(mine), tools.maps));
      } catch (error) {
        if (mine === wanted) say(error.message);
        return;
      }
    }
    if (mine !== wanted || !stage.isConnected) return; // another was clicked meanwhile
    go({ patch: mine, layer: at.layer === DELETION ? ROLLOUT : at.layer });
  }

  function learn(falls, byHand) {
    lost.set(at.item, falls);
    go({ layer: DELETION, patch: null });
    if (byHand) focusMap(); // the button that had it is gone
  }

  function leave(event) {
    if (event.key === "Escape" && at.patch !== null) ask(at.patch);
  }

  function mapsOf(index) {
    if (!unpacked.has(index)) unpacked.set(index, mapsIn(items[index], tools.maps));
    return unpacked.get(index);
  }

  function draw() {
    tools.unhint();
    const inside = [".grid", ".picture"].find((part) =>
      stage.querySelector(part)?.contains(document.activeElement),
    );
    stage.replaceChildren(...scene(view(), redraw));
    thumbs?.choose(at.item);
    if (inside === ".grid") focusMap();
    if (inside === ".picture") stage.querySelector(".picture svg").focus();
  }

  function focusMap() {
    stage.querySelector('[aria-checked="true"]')?.focus();
  }

  /** Colours and opacity change nothing else, and must not take the focus from their controls. */
  function redraw() {
    stage.querySelector(".picture").replaceWith(pictureOf(view()));
    stage.querySelector(".grid").replaceWith(grid(view()));
  }

  function say(words) {
    stage.querySelector(".picture .note").textContent = words;
  }

  function view() {
    const maps = at.patch === null ? mapsOf(at.item) : asked.get(at.patch);
    const falls = lost.get(at.item) ?? null;
    const clicked = live?.reads && maps.rollout ? ask : null;
    return { item: items[at.item], maps, falls, at, look, tools, go, ask: clicked, deleting };
  }
}

const isLayer = (layer) => layer !== ROLLOUT && layer !== DELETION;

/** All maps of an item: at(layer, head), and what they have in common. */
function mapsIn({ heads, rollout }, { unpack, mean, greatest }) {
  const all = heads ? unpack(heads) : null;
  const through = rollout ? unpack(rollout).maps[0] : null;
  const [layers, count] = all ? all.shape : [0, 0];
  const [rows, columns] = (heads ?? rollout)?.shape.slice(-2) ?? [0, 0];
  const means = Array.from({ length: layers }, (_, layer) =>
    mean(all.maps.slice(layer * count, (layer + 1) * count)),
  );
  return {
    layers,
    heads: count,
    rows,
    columns,
    rollout: through,
    greatest: (all?.maps ?? []).reduce((most, map) => Math.max(most, greatest(map)), 0),
    at: (layer, head) => {
      if (layer === ROLLOUT) return through;
      return head === MEAN ? means[layer] : all.maps[layer * count + head];
    },
  };
}

function scene(view, redraw) {
  const { item, maps, tools } = view;
  const { html } = tools;
  return [
    html("div", { class: "left" }, pictureOf(view)),
    html(
      "div",
      { class: "right" },
      item.title && html("h3", {}, item.title),
      item.words && html("p", { class: "note" }, item.words),
      answers(item, tools),
      (maps.rows > 0 || view.falls) && [
        html("h4", {}, maps.layers ? "Layers and heads" : maps.rollout ? "Rollout" : "Deletion"),
        grid(view),
        controls(view, redraw),
      ],
      !view.falls && view.deleting?.element,
      html("div", { class: "controls" }, tools.savingButtons(...kept(view))),
    ),
  ];
}

/** What the drawing needs to know. */
function shownIn({ item, maps, falls, at, look, tools }) {
  const { paint, opacity } = look;
  const shared = { item, paint, opacity, name: nameOf(at, maps) };
  if (at.layer === DELETION) return { ...shared, ...tools.deletion.mapOf(falls, 0) };
  const map = maps.at(at.layer, at.head);
  const { rows, columns } = maps;
  return { ...shared, map, rows, columns, top: map ? topOf(map, maps, look, tools) : 0 };
}

/** The share that gets the last colour: the map's own greatest, or that of all heads. */
function topOf(map, maps, look, tools) {
  return (look.shared && maps.greatest) || tools.maps.greatest(map);
}

/** The large picture with its scale; the pointer and the arrow keys read the share of a patch. */
function pictureOf(view) {
  const { item, falls, at, ask, tools } = view;
  const { html, svg, format, overlay, hint, unhint } = tools;
  const shown = shownIn(view);
  const { map, rows, columns, name } = shown;
  const drawing = overlay.overlay(shown);
  const keys = ask ? "; arrow keys move over the patches, Enter shows what one read" : "";
  drawing.setAttribute("role", ask ? "application" : "img");
  drawing.setAttribute("aria-label", described(shown, view) + keys);
  const pointed = svg("g", { class: "pointed", fill: "none", visibility: "hidden" }, edges());
  if (at.patch !== null) drawing.append(svg("g", { fill: "none" }, edges(placed(at.patch))));
  drawing.append(pointed);
  let cursor = at.patch ?? Math.floor(rows / 2) * columns + Math.floor(columns / 2);
  if (map) {
    for (const event of ["pointermove", "pointerdown"]) drawing.addEventListener(event, point);
  }
  if (map && ask) {
    drawing.setAttribute("tabindex", 0);
    drawing.classList.add("asks");
    drawing.addEventListener("click", (event) => {
      const patch = patchAt(event);
      if (patch !== null) ask(patch);
    });
    drawing.addEventListener("keydown", walk);
    drawing.addEventListener("blur", away);
  }
  drawing.addEventListener("pointerleave", ({ pointerType }) => {
    if (pointerType === "mouse") away(); // a finger has left when it has pointed
  });
  const [low, high] = overlay.endsOf(shown);
  const scale = () => html("span", { class: "scale" }, low, overlay.strip(shown), high);
  return html(
    "figure",
    { class: "picture" },
    drawing,
    html(
      "figcaption",
      {},
      map ? [html("span", {}, name), scale()] : "No map was kept of this image.",
      html("span", { class: "note", role: "status" }, aside()),
    ),
  );

  function aside() {
    if (at.layer === DELETION) return tools.deletion.summary(falls, 0);
    if (at.patch !== null) return "What the outlined patch read. Escape goes back.";
    return ask ? "Click a patch to see what it read itself." : "";
  }

  /** White within black is seen on every map. */
  function edges(place = {}) {
    return [
      svg("rect", { stroke: "#1b1f24", "stroke-width": 4.5, ...place }),
      svg("rect", { stroke: "#ffffff", "stroke-width": 2, ...place }),
    ];
  }

  function placed(patch) {
    const [row, column] = [Math.floor(patch / columns), patch % columns];
    const [x, y, width, height] = overlay.placeOf({ item, rows, columns }, row, column);
    return { x, y, width, height };
  }

  function patchAt(event) {
    const box = drawing.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const inside = within(row, rows) !== null && within(column, columns) !== null;
    return inside ? row * columns + column : null;
  }

  function point(event) {
    const patch = patchAt(event);
    if (patch !== null) tell(patch, event.clientX, event.clientY);
  }

  function walk(event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return ask(cursor);
    }
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const row = Math.floor(cursor / columns) + step[0];
    const column = (cursor % columns) + step[1];
    if (within(row, rows) === null || within(column, columns) === null) return;
    tell(row * columns + column);
  }

  /** Outline a patch, and say its number beside the pointer, or beside the patch. */
  function tell(patch, x, y) {
    cursor = patch;
    for (const edge of pointed.children) {
      Object.entries(placed(patch)).forEach((pair) => edge.setAttribute(...pair));
    }
    pointed.setAttribute("visibility", "visible");
    const box = pointed.getBoundingClientRect();
    const place = `row ${Math.floor(patch / columns) + 1}, column ${(patch % columns) + 1}`;
    hint(x ?? box.right, y ?? box.top, `${place}: ${words(patch)}`);
  }

  function words(patch) {
    if (shown.signed) return tools.deletion.fate(falls, 0, patch);
    const times = format.number(map[patch] * rows * columns);
    return `${format.percent(map[patch], 2)} of the reading, ${times} times an even share`;
  }

  function away() {
    unhint();
    pointed.setAttribute("visibility", "hidden");
  }
}

/** Small maps: a row for each layer, a column for each head and for their mean; then rollout. */
function grid(view) {
  const { maps, falls, at, go, tools } = view;
  const { html } = tools;
  const shape = falls && !maps.rows ? falls.grid : [maps.rows, maps.columns];
  const columns = maps.layers ? [...Array(maps.heads).keys(), MEAN] : [];
  const corner = () => html("span", { class: "row", "aria-hidden": "true" });
  const heading = (head) =>
    html(
      "span",
      { class: head === MEAN ? "column mean" : "column" },
      head === MEAN ? MEAN : head + 1,
    );
  return html(
    "div",
    {
      class: "grid",
      role: "radiogroup",
      "aria-label": "Map; arrow keys move between layers and heads",
      style: { "--columns": columns.length || 1, "--shape": `${shape[1]} / ${shape[0]}` },
      on: { keydown },
    },
    maps.layers > 0 && [corner(), columns.map(heading)],
    Array.from({ length: maps.layers }, (_, layer) => [
      html("span", { class: "row" }, layer + 1),
      columns.map((head) => cell(view, layer, head)),
    ]),
    maps.rollout && [corner(), cell(view, ROLLOUT, MEAN)],
    maps.rollout &&
      (maps.layers > 0 || falls) &&
      html("span", { class: "aside" }, "rollout through all layers"),
    falls && [corner(), cell(view, DELETION, MEAN)],
    falls && html("span", { class: "aside" }, "deletion: which patches mattered"),
  );

  function keydown(event) {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const next = moved(maps, falls, at, step);
    if (next) go(next);
  }
}

/** The map a step away, or nothing at the edge. Below the last layer lies the rollout. */
function moved({ layers, heads, rollout }, falls, { layer, head }, [down, right]) {
  const below = [rollout && ROLLOUT, falls && DELETION].filter(Boolean);
  const place = below.indexOf(layer);
  const to = place < 0 ? layer + down : layers + place + down;
  if (to >= layers || place >= 0) {
    if (to < layers) return down < 0 && layers ? { layer: layers - 1 } : null;
    return down && below[to - layers] ? { layer: below[to - layers] } : null;
  }
  const column = (head === MEAN ? heads : head) + right;
  if (to < 0 || column < 0 || column > heads) return null;
  return { layer: to, head: column === heads ? MEAN : column };
}

function cell(view, layer, head) {
  const { at, maps, go, tools } = view;
  const chosen = layer === at.layer && (!isLayer(layer) || head === at.head);
  const gone = layer === DELETION ? { patch: null } : {}; // deleting asks for no patch's reading
  const attributes = {
    type: "button",
    role: "radio",
    class: "cell",
    "aria-checked": String(chosen),
    "aria-label": nameOf({ layer, head, patch: at.patch }, maps),
    tabindex: chosen ? 0 : -1,
    on: { click: () => go(isLayer(layer) ? { layer, head } : { layer, ...gone }) },
  };
  const shown = shownIn({ ...view, at: { ...at, layer, head } });
  return tools.html("button", attributes, miniature(shown, tools));
}

/** A map a pixel a patch; the style sheet enlarges it without smoothing. */
function miniature(shown, { html, overlay }) {
  const { map, rows, columns, top } = shown;
  const canvas = html("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const { paint } = overlay.coloursOf(shown);
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, columns, rows);
  map.forEach((share, i) => {
    const { colour, alpha } = paint(top ? share / top : 0);
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    context.fillRect(i % columns, Math.floor(i / columns), 1, 1);
  });
  return canvas;
}

function answers({ answers: list = [], truth = null }, { html, format }) {
  if (!list.length) return null;
  const bar = ({ name, share }) =>
    html(
      "li",
      { class: name === truth && "truth" },
      html("span", { class: "name", title: name }, name),
      html("span", { class: "track" }, html("i", { style: { width: `${100 * (share ?? 0)}%` } })),
      html("span", { class: "share" }, format.percent(share)),
    );
  return html(
    "div",
    { class: "answers" },
    html("ul", {}, list.map(bar)),
    verdict(list, truth, html),
  );
}

function verdict(list, truth, html) {
  if (truth === null) return null;
  if (list[0].name === truth) return html("p", { class: "verdict right" }, "✓ right");
  const listed = list.some(({ name }) => name === truth);
  const words = ["✗ wrong, the truth is ", html("b", {}, truth)];
  return html("p", { class: "verdict wrong" }, words, !listed && ", which is not among these");
}

function controls({ at, look, tools }, redraw) {
  const { html, colour } = tools;
  const set = (name, value) => {
    look[name] = value;
    redraw();
  };
  const options = Object.entries(colour.MAPS).map(([value, { words }]) =>
    html("option", { value, selected: value === look.paint }, words),
  );
  const slide = { input: ({ target }) => set("opacity", Number(target.value)) };
  const choose = { change: ({ target }) => set("paint", target.value) };
  const tick = { change: ({ target }) => set("shared", target.checked) };
  const range = { type: "range", min: 0, max: 1, step: 0.05, value: look.opacity };
  const signed = at.layer === DELETION; // which has colours and a scale of its own
  return html(
    "div",
    { class: "controls" },
    html("label", {}, "Opacity", html("input", { ...range, on: slide })),
    html("label", {}, "Colours", html("select", { disabled: signed, on: choose }, options)),
    html(
      "label",
      {},
      html("input", { type: "checkbox", checked: look.shared, disabled: signed, on: tick }),
      "One scale for all maps",
    ),
  );
}

/** What is saved: the name of its file, and the drawing. */
function kept(view) {
  const { format, overlay } = view.tools;
  const title = format.slug(view.item.title ?? "", "image").slice(0, 40);
  return [
    () => `${title}-${format.slug(shownIn(view).name)}`,
    () => overlay.keepsake(shownIn(view)),
  ];
}

function nameOf({ layer, head, patch }, { columns }) {
  if (layer === DELETION) return "deletion";
  const place = [Math.floor(patch / columns) + 1, (patch % columns) + 1];
  const whose = patch === null ? "" : `, read by row ${place[0]}, column ${place[1]}`;
  if (layer === ROLLOUT) return `rollout${whose}`;
  return `layer ${layer + 1}, ${head === MEAN ? "mean of heads" : `head ${head + 1}`}${whose}`;
}

/** For those who do not see the picture: what it shows, and the patch that was read most. */
function described({ item, map, columns, name, signed }, { falls, tools }) {
  const title = item.title ?? "image";
  if (!map) return title;
  if (signed) return `${title}; ${name}; ${tools.deletion.summary(falls, 0)}`;
  const most = tools.maps.greatest(map);
  const place = map.indexOf(most);
  const [row, column] = [Math.floor(place / columns) + 1, (place % columns) + 1];
  const words = `most read is the patch in row ${row}, column ${column}`;
  return `${title}; ${name}; ${words}, with ${tools.format.percent(most)}`;
}

/** The index if there is one so numbered. */
function within(index, count) {
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}
