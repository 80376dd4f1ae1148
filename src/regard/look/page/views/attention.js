/**
 * Where the model looked: an image, and over it how much of each patch was read.
 *
 * A map is one head of one layer, the mean of a layer's heads, or the rollout through all layers.
 * It is chosen in the grid of small maps, by clicking or with the arrow keys.
 */

const ROLLOUT = "rollout";
const MEAN = "mean";
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function render(element, { items = [] }, tools) {
  const { html, empty, state } = tools;
  if (!items.length) return element.append(empty("There is no image to show."));

  const look = { opacity: 0.6, paint: "blue", shared: false };
  const at = { item: 0, layer: ROLLOUT, head: MEAN }; // items, layers and heads count from 0
  const unpacked = new Map(); // the maps of items that were looked at
  const stage = html("div", { class: "stage" });
  const thumbs = items.length > 1 ? thumbnails(items, tools, (item) => go({ item })) : null;
  element.append(...(thumbs ? [thumbs.element] : []), stage);
  state.changed(adopt);
  adopt(state.read());

  /** What the address asks for, as far as it exists. Numbers in the address count from 1. */
  function adopt({ item, layer, head }) {
    at.item = within(Number(item) - 1, items.length) ?? 0;
    const { layers, heads } = mapsOf(at.item);
    at.layer = layer === ROLLOUT ? ROLLOUT : (within(Number(layer) - 1, layers) ?? layers - 1);
    at.head = head === MEAN ? MEAN : (within(Number(head) - 1, heads) ?? MEAN);
    if (!layers) at.layer = ROLLOUT;
    draw();
  }

  /** Look at something else, and say so in the address. */
  function go(change) {
    Object.assign(at, change);
    const { layers, heads } = mapsOf(at.item);
    if (at.layer !== ROLLOUT) at.layer = layers ? Math.min(at.layer, layers - 1) : ROLLOUT;
    if (at.head !== MEAN) at.head = heads ? Math.min(at.head, heads - 1) : MEAN;
    const head = at.head === MEAN ? MEAN : at.head + 1;
    const choices = at.layer === ROLLOUT ? { layer: ROLLOUT } : { layer: at.layer + 1, head };
    state.write({ item: at.item + 1, ...choices });
    draw();
  }

  function mapsOf(index) {
    if (!unpacked.has(index)) unpacked.set(index, mapsIn(items[index], tools.maps));
    return unpacked.get(index);
  }

  function draw() {
    const inGrid = stage.querySelector(".grid")?.contains(document.activeElement);
    stage.replaceChildren(...scene(view(), redraw));
    thumbs?.choose(at.item);
    if (inGrid) stage.querySelector('[aria-checked="true"]')?.focus();
  }

  /** Colours and opacity change nothing else, and must not take the focus from their controls. */
  function redraw() {
    stage.querySelector(".picture").replaceWith(pictureOf(view()));
    stage.querySelector(".grid").replaceWith(grid(view()));
  }

  function view() {
    return { item: items[at.item], maps: mapsOf(at.item), at, look, tools, go };
  }
}

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
      maps.rows > 0 && [
        html("h4", {}, maps.layers ? "Layers and heads" : "Rollout"),
        grid(view),
        controls(view, redraw),
      ],
      html("div", { class: "controls" }, download(view, "PNG"), download(view, "SVG")),
    ),
  ];
}

/** What the drawing needs to know. */
function shownIn({ item, maps, at, look, tools }) {
  const map = maps.at(at.layer, at.head);
  const { rows, columns } = maps;
  const top = map ? topOf(map, maps, look, tools) : 0;
  return {
    item,
    map,
    rows,
    columns,
    top,
    paint: look.paint,
    opacity: look.opacity,
    name: nameOf(at),
  };
}

/** The share that gets the last colour: the map's own greatest, or that of all heads. */
function topOf(map, maps, look, tools) {
  return (look.shared && maps.greatest) || tools.maps.greatest(map);
}

/** The large picture with its scale; the pointer reads the share of a patch. */
function pictureOf(view) {
  const { maps, tools } = view;
  const { html, svg, format, overlay, hint, unhint } = tools;
  const shown = shownIn(view);
  const { map, name, top, paint } = shown;
  const drawing = overlay.overlay(shown);
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", described(shown, tools));
  // White within black is seen on every map.
  const edges = [
    svg("rect", { stroke: "#1b1f24", "stroke-width": 4.5 }),
    svg("rect", { stroke: "#ffffff", "stroke-width": 2 }),
  ];
  const pointed = svg("g", { class: "pointed", fill: "none", visibility: "hidden" }, edges);
  drawing.append(pointed);
  if (map)
    for (const event of ["pointermove", "pointerdown"]) drawing.addEventListener(event, point);
  drawing.addEventListener("pointerleave", ({ pointerType }) => {
    if (pointerType !== "mouse") return; // a finger has left when it has pointed
    unhint();
    pointed.setAttribute("visibility", "hidden");
  });
  const scale = () =>
    html("span", { class: "scale" }, "0", overlay.strip(paint), format.percent(top));
  return html(
    "figure",
    { class: "picture" },
    drawing,
    html(
      "figcaption",
      {},
      map ? [html("span", {}, name), scale()] : "No map was kept of this image.",
    ),
  );

  function point(event) {
    const box = drawing.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * maps.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * maps.rows);
    if (within(row, maps.rows) === null || within(column, maps.columns) === null) return;
    const share = map[row * maps.columns + column];
    const times = format.number(share * maps.rows * maps.columns);
    const place = `row ${row + 1}, column ${column + 1}`;
    const words = `${format.percent(share, 2)} of the reading, ${times} times an even share`;
    hint(event.clientX, event.clientY, `${place}: ${words}`);
    const [x, y, width, height] = overlay.placeOf(shown, row, column);
    for (const edge of edges) {
      Object.entries({ x, y, width, height }).forEach((pair) => edge.setAttribute(...pair));
    }
    pointed.setAttribute("visibility", "visible");
  }
}

/** Small maps: a row for each layer, a column for each head and for their mean; then rollout. */
function grid(view) {
  const { maps, at, go, tools } = view;
  const { html } = tools;
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
      style: { "--columns": columns.length || 1, "--shape": `${maps.columns} / ${maps.rows}` },
      on: { keydown },
    },
    maps.layers > 0 && [corner(), columns.map(heading)],
    Array.from({ length: maps.layers }, (_, layer) => [
      html("span", { class: "row" }, layer + 1),
      columns.map((head) => cell(view, layer, head)),
    ]),
    maps.rollout && [corner(), cell(view, ROLLOUT, MEAN)],
    maps.rollout &&
      maps.layers > 0 &&
      html("span", { class: "aside" }, "rollout through all layers"),
  );

  function keydown(event) {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const next = moved(maps, at, step);
    if (next) go(next);
  }
}

/** The map a step away, or nothing at the edge. Below the last layer lies the rollout. */
function moved({ layers, heads, rollout }, { layer, head }, [down, right]) {
  if (layer === ROLLOUT) return down < 0 && layers ? { layer: layers - 1 } : null;
  const to = layer + down;
  if (to === layers) return rollout ? { layer: ROLLOUT } : null;
  const column = (head === MEAN ? heads : head) + right;
  if (to < 0 || column < 0 || column > heads) return null;
  return { layer: to, head: column === heads ? MEAN : column };
}

function cell(view, layer, head) {
  const { maps, at, go, tools } = view;
  const chosen = layer === at.layer && (layer === ROLLOUT || head === at.head);
  const attributes = {
    type: "button",
    role: "radio",
    class: "cell",
    "aria-checked": String(chosen),
    "aria-label": nameOf({ layer, head }),
    tabindex: chosen ? 0 : -1,
    on: { click: () => go(layer === ROLLOUT ? { layer } : { layer, head }) },
  };
  return tools.html("button", attributes, miniature(view, maps.at(layer, head)));
}

/** A map a pixel a patch; the style sheet enlarges it without smoothing. */
function miniature({ maps, look, tools }, map) {
  const canvas = tools.html("canvas", { width: maps.columns, height: maps.rows });
  const context = canvas.getContext("2d");
  const { paint } = tools.colour.MAPS[look.paint];
  const top = topOf(map, maps, look, tools);
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, maps.columns, maps.rows);
  map.forEach((share, i) => {
    const { colour, alpha } = paint(top ? share / top : 0);
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    context.fillRect(i % maps.columns, Math.floor(i / maps.columns), 1, 1);
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

function controls({ look, tools }, redraw) {
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
  return html(
    "div",
    { class: "controls" },
    html("label", {}, "Opacity", html("input", { ...range, on: slide })),
    html("label", {}, "Colours", html("select", { on: choose }, options)),
    html(
      "label",
      {},
      html("input", { type: "checkbox", checked: look.shared, on: tick }),
      "One scale for all maps",
    ),
  );
}

function download(view, kind) {
  const { html, format, overlay, saveSvg, savePng } = view.tools;
  const click = () => {
    const shown = shownIn(view);
    const title = format.slug(view.item.title ?? "", "image").slice(0, 40);
    const name = `${title}-${format.slug(shown.name)}`;
    const save = kind === "SVG" ? saveSvg : savePng;
    return save(`${name}.${kind.toLowerCase()}`, overlay.keepsake(shown));
  };
  return html("button", { type: "button", class: "download", on: { click } }, `Save ${kind}`);
}

/** Buttons with the images; the arrow keys go from one to the next. */
function thumbnails(items, { html, picture }, chosen) {
  const buttons = items.map((item, i) => {
    const coarse = Math.max(item.width, item.height) < 64;
    const attributes = { type: "button", role: "radio", class: "thumb", title: item.title };
    return html(
      "button",
      {
        ...attributes,
        "aria-label": item.title ?? `image ${i + 1}`,
        on: { click: () => chosen(i) },
      },
      html("img", { src: picture(item.image), alt: "", class: coarse && "coarse" }),
    );
  });
  const keydown = (event) => {
    const [down, right] = STEPS[event.key] ?? [0, 0];
    const to = buttons.indexOf(document.activeElement) + down + right;
    if (!(down + right) || !buttons[to]) return;
    event.preventDefault();
    buttons[to].focus();
    chosen(to);
  };
  const group = { class: "thumbs", role: "radiogroup", "aria-label": "Images", on: { keydown } };
  return {
    element: html("div", group, buttons),
    choose: (index) =>
      buttons.forEach((button, i) => {
        button.setAttribute("aria-checked", String(i === index));
        button.tabIndex = i === index ? 0 : -1;
      }),
  };
}

function nameOf({ layer, head }) {
  if (layer === ROLLOUT) return "rollout";
  return `layer ${layer + 1}, ${head === MEAN ? "mean of heads" : `head ${head + 1}`}`;
}

/** For those who do not see the picture: what it shows, and the patch that was read most. */
function described({ item, map, columns, name }, { maps, format }) {
  const title = item.title ?? "image";
  if (!map) return title;
  const most = maps.greatest(map);
  const place = map.indexOf(most);
  const [row, column] = [Math.floor(place / columns) + 1, (place % columns) + 1];
  const words = `most read is the patch in row ${row}, column ${column}`;
  return `${title}; ${name}; ${words}, with ${format.percent(most)}`;
}

/** The index if there is one so numbered. */
function within(index, count) {
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}
