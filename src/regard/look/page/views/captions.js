/**
 * A caption, and where the model looked when it wrote each word.
 *
 * A word that is pointed at, reached by keyboard or tapped lays its map over the image; without
 * one the image is as it is. The other way round, a place that is pointed at in the image tints
 * the words by how much they looked there.
 */

export function render(element, { items = [] }, tools) {
  const { html, empty, state } = tools;
  if (!items.length) return element.append(empty("There is no caption to show."));

  const look = { opacity: 0.6, paint: "blue", shared: false };
  const at = { item: 0, word: null, head: 0 }; // all count from 0
  let passing = null; // the word under the mouse: it shows for as long as it is there
  const unpacked = new Map(); // the maps of items that were looked at
  const stage = html("div", { class: "stage" });
  const thumbs = items.length > 1 ? thumbnails(items, tools, (item) => go({ item })) : null;
  element.append(...(thumbs ? [thumbs.element] : []), stage);
  state.changed(adopt);
  adopt(state.read());

  /** What the address asks for, as far as it exists. Numbers in the address count from 1. */
  function adopt({ item, word, head }) {
    at.item = within(Number(item) - 1, items.length) ?? 0;
    at.word = within(Number(word) - 1, wordsOf(items[at.item]).length);
    at.head = within(Number(head) - 1, mapsOf(at.item).heads.length) ?? 0;
    draw();
  }

  /** Look at another caption with the same head, if it has one so numbered. */
  function go({ item }) {
    Object.assign(at, { item, word: null });
    at.head = within(at.head, mapsOf(item).heads.length) ?? 0;
    write();
    draw();
  }

  /** Keep a word's map, or with null none, whatever the mouse is over. */
  function choose(word) {
    at.word = word;
    pass(null);
    write();
  }

  /** Show a word's map until the mouse is elsewhere. */
  function pass(word) {
    passing = word;
    redraw();
  }

  function chooseHead(head) {
    at.head = head;
    redraw();
    tint(stage, view());
    write();
  }

  function write() {
    const word = at.word === null ? {} : { word: at.word + 1 };
    state.write({ item: at.item + 1, ...word, head: at.head + 1 });
  }

  function mapsOf(index) {
    if (!unpacked.has(index)) unpacked.set(index, mapsIn(items[index], tools.maps));
    return unpacked.get(index);
  }

  function draw() {
    passing = null;
    stage.replaceChildren(
      captionOf(view(), { choose, pass }),
      html("div", { class: "left" }, pictureOf(view(), stage)),
      details(view(), { chooseHead, redraw }),
    );
    mark(stage, view());
    tint(stage, view());
    thumbs?.choose(at.item);
  }

  /** The words and the controls stay, and with them the focus; only the picture is another. */
  function redraw() {
    stage.querySelector(".picture").replaceWith(pictureOf(view(), stage));
    mark(stage, view());
  }

  function view() {
    const item = { ...items[at.item], ...sizeOf(items[at.item]) };
    return { item, maps: mapsOf(at.item), word: passing ?? at.word, at, look, tools };
  }
}

/** All maps of a caption: of(head, word), and what they have in common. */
function mapsIn(item, { unpack, greatest }) {
  const words = wordsOf(item);
  if (!item.maps) return { heads: [], rows: 0, columns: 0, of: () => null };
  const { shape, rows, columns, maps } = unpack(item.maps);
  const [heads, count] = shape;
  if (shape.length !== 4 || count !== words.length) {
    throw new Error(`${words.length} words have maps of shape ${shape.join(" × ")}`);
  }
  return {
    heads: Array.from({ length: heads }, (_, i) => item.heads?.[i] ?? `map ${i + 1}`),
    rows,
    columns,
    of: (head, word) => (word === null ? null : (maps[head * count + word] ?? null)),
    greatest: (head) => Math.max(...maps.slice(head * count, (head + 1) * count).map(greatest)),
  };
}

/** The caption as a line of words, of which at most one is chosen. */
function captionOf({ item, at, tools }, { choose, pass }) {
  const { html } = tools;
  const buttons = wordsOf(item).map((word) =>
    html("button", { type: "button", role: "radio", class: "word" }, word.trim() ? word : "␣"),
  );
  const placeOf = ({ target }) => within(buttons.indexOf(target.closest(".word")), buttons.length);
  const line = html(
    "p",
    {
      class: "line",
      dir: "auto",
      role: "radiogroup",
      "aria-label": "Words of the caption; arrow keys move between them",
      on: { click, keydown, focusin, pointerover, pointerleave },
    },
    buttons.map((button, i) => [i > 0 && !clings(button.textContent) && " ", button]),
  );
  return html(
    "div",
    { class: "top" },
    item.name && html("h3", { dir: "auto" }, item.name),
    buttons.length ? line : html("p", { class: "note" }, "The caption has no words."),
    item.note && html("p", { class: "note", dir: "auto" }, item.note),
  );

  function click(event) {
    const place = placeOf(event);
    if (place !== null) choose(place === at.word ? null : place);
  }

  /** Only the keyboard's focus chooses: a click decides for itself, and may take back. */
  function focusin(event) {
    const place = placeOf(event);
    if (event.target.matches(":focus-visible") && place !== at.word) choose(place);
  }

  function keydown(event) {
    if (event.key === "Escape") return choose(null);
    const place = placeOf(event);
    const leftward = getComputedStyle(line).direction === "rtl" ? 1 : -1;
    const steps = { ArrowLeft: leftward, ArrowRight: -leftward, ArrowUp: -1, ArrowDown: 1 };
    const ends = { Home: 0, End: buttons.length - 1 };
    const to = ends[event.key] ?? place + (steps[event.key] ?? NaN);
    if (Number.isNaN(to)) return;
    event.preventDefault();
    if (!buttons[to]) return; // the edge
    choose(to);
    buttons[to].focus();
  }

  /** A finger is not over a word before it taps, and between two words the last one holds. */
  function pointerover(event) {
    const place = placeOf(event);
    if (event.pointerType !== "touch" && place !== null) pass(place);
  }

  function pointerleave({ pointerType }) {
    if (pointerType !== "touch") pass(null);
  }
}

/** Say which word is shown, and which one the Tab key comes to. */
function mark(stage, { word, at }) {
  stage.querySelectorAll(".word").forEach((button, i) => {
    button.setAttribute("aria-checked", String(i === at.word));
    button.tabIndex = i === (at.word ?? 0) ? 0 : -1;
    button.classList.toggle("shown", i === word);
  });
}

/** Tint the words: by how gathered their maps are, or by how much they looked at one patch. */
function tint(stage, { maps, at }, patch = null) {
  const buttons = [...stage.querySelectorAll(".word")];
  const found = buttons.map((_, i) => maps.of(at.head, i));
  const shares = found.map((map) => map?.[patch] ?? 0);
  const most = Math.max(...shares);
  buttons.forEach((button, i) => {
    const relative = most ? shares[i] / most : 0;
    const value = patch === null ? gathered(found[i]) : relative;
    button.style.setProperty("--tint", value.toFixed(3));
  });
}

/** What the drawing needs to know. */
function shownIn({ item, maps, word, at, look, tools }) {
  const map = maps.of(at.head, word);
  const own = map ? tools.maps.greatest(map) : 0;
  return {
    item,
    map,
    rows: maps.rows,
    columns: maps.columns,
    top: map && look.shared ? maps.greatest(at.head) : own,
    paint: look.paint,
    opacity: look.opacity,
    name: map ? `‘${wordsOf(item)[word]}’, ${maps.heads[at.head]}` : "image",
  };
}

/** The picture with its scale; the mouse over it asks which words looked there. */
function pictureOf(view, stage) {
  const { item, maps, word, at, tools } = view;
  const { html, format, overlay, hint, unhint } = tools;
  const shown = shownIn(view);
  const drawing = overlay.overlay(shown);
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", described(view, shown));
  drawing.append(...outlines(view));
  if (maps.rows > 0 && wordsOf(item).length) {
    for (const event of ["pointermove", "pointerdown"]) drawing.addEventListener(event, ask);
    drawing.addEventListener("pointerleave", leave);
  }
  return html("figure", { class: "picture" }, drawing, html("figcaption", {}, said()));

  function said() {
    if (!maps.rows) return "No map was kept of this image.";
    if (!shown.map) return html("span", { class: "note" }, "Choose a word to see where it looked.");
    const patches = format.plural(maps.rows * maps.columns, "patch", "patches");
    const about = Math.max(1, Math.round(spread(shown.map)));
    return [
      html("span", {}, "‘", html("bdi", {}, wordsOf(item)[word]), `’, ${maps.heads[at.head]}`),
      html("span", { class: "scale" }, "0", overlay.strip(shown.paint), format.percent(shown.top)),
      html("span", { class: "note" }, `spread over about ${about} of ${patches}`),
    ];
  }

  function ask(event) {
    const box = drawing.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * maps.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * maps.rows);
    if (within(row, maps.rows) === null || within(column, maps.columns) === null) return;
    const patch = row * maps.columns + column;
    tint(stage, view, patch);
    const shares = wordsOf(item).map((_, i) => maps.of(at.head, i)[patch]);
    const i = word ?? shares.indexOf(Math.max(...shares));
    const who = `${word === null ? "most by " : ""}‘${wordsOf(item)[i]}’`;
    const words = `looked at ${who}, with ${format.percent(shares[i], 2)} of its look`;
    hint(event.clientX, event.clientY, `row ${row + 1}, column ${column + 1}: ${words}`);
  }

  function leave({ pointerType }) {
    if (pointerType === "mouse") unhint(); // a finger has left when it has pointed
    tint(stage, view);
  }
}

/** The boxes of what the word names: white within black is seen on every map. */
function outlines({ item, word, tools }) {
  const { svg, overlay } = tools;
  const [, , width, height] = overlay.placeOf({ item, rows: 1, columns: 1 }, 0, 0);
  const named = (item.boxes ?? []).filter((one) => one.word === word);
  return named.flatMap(({ box: [x0, y0, x1, y1] }) => {
    const place = { x: x0 * width, y: y0 * height, fill: "none", rx: 2 };
    const size = { width: (x1 - x0) * width, height: (y1 - y0) * height };
    return [
      svg("rect", { class: "box", ...place, ...size, stroke: "#1b1f24", "stroke-width": 6 }),
      svg("rect", { class: "box", ...place, ...size, stroke: "#ffffff", "stroke-width": 2.5 }),
    ];
  });
}

function details(view, { chooseHead, redraw }) {
  const { item, maps, tools } = view;
  const { html } = tools;
  const references = item.references ?? [];
  return html(
    "div",
    { class: "right" },
    maps.rows > 0 && [
      controls(view, { chooseHead, redraw }),
      html(
        "p",
        { class: "note" },
        "Click a word to keep its map. The deeper a word's tint, the fewer patches it looked at. " +
          "Point at the image, and the tints say how much each word looked there.",
      ),
    ],
    references.length > 0 && [
      html("h4", {}, references.length === 1 ? "Reference" : "References"),
      html(
        "ul",
        { class: "references" },
        references.map((words) => html("li", { dir: "auto" }, words)),
      ),
    ],
    html("div", { class: "controls" }, download(view, "PNG"), download(view, "SVG")),
  );
}

function controls({ maps, at, look, tools }, { chooseHead, redraw }) {
  const { html, colour } = tools;
  const set = (name, value) => {
    look[name] = value;
    redraw();
  };
  const heads = maps.heads.map((words, i) =>
    html("option", { value: i, selected: i === at.head }, words),
  );
  const paints = Object.entries(colour.MAPS).map(([value, { words }]) =>
    html("option", { value, selected: value === look.paint }, words),
  );
  const choose = { change: ({ target }) => chooseHead(Number(target.value)) };
  const paint = { change: ({ target }) => set("paint", target.value) };
  const slide = { input: ({ target }) => set("opacity", Number(target.value)) };
  const tick = { change: ({ target }) => set("shared", target.checked) };
  const range = { type: "range", min: 0, max: 1, step: 0.05, value: look.opacity };
  return html(
    "div",
    { class: "controls" },
    heads.length > 1 &&
      html("label", {}, "Head", html("select", { class: "head", on: choose }, heads)),
    html("label", {}, "Colours", html("select", { class: "paint", on: paint }, paints)),
    html("label", {}, "Opacity", html("input", { ...range, on: slide })),
    html(
      "label",
      {},
      html("input", { type: "checkbox", checked: look.shared, on: tick }),
      "One scale for all words",
    ),
  );
}

/** Saved is what is kept on the page, not what the mouse passed on its way to the button. */
function download(view, kind) {
  const { html, format, overlay, saveSvg, savePng, shortened } = view.tools;
  const click = () => {
    const kept = { ...view, word: view.at.word };
    const { name, ...shown } = shownIn(kept);
    const [, , width] = overlay.placeOf({ ...shown, rows: 1, columns: 1 }, 0, 0);
    const letters = Math.floor((Math.max(width, 320) - 190) / 8); // left of the scale
    const title = spoken(view.item);
    const item = { ...view.item, title };
    const drawing = overlay.keepsake({ ...shown, item, name: shortened(name, letters) });
    drawing.querySelector("svg").append(...outlines(kept));
    const file = `${format.slug(title, "image").slice(0, 40)}-${format.slug(name, "word")}`;
    return (kind === "SVG" ? saveSvg : savePng)(`${file}.${kind.toLowerCase()}`, drawing);
  };
  return html("button", { type: "button", class: "download", on: { click } }, `Save ${kind}`);
}

/** Buttons with the images; the arrow keys go from one to the next. Only those seen are loaded. */
function thumbnails(items, { html, picture }, chosen) {
  const buttons = items.map((item, i) => {
    const { width, height } = sizeOf(item);
    const attributes = { src: picture(item.image), alt: "", loading: "lazy", decoding: "async" };
    const about = item.name ?? `image ${i + 1}`;
    return html(
      "button",
      {
        type: "button",
        role: "radio",
        class: "thumb",
        title: spoken(item) || about,
        "aria-label": about,
        on: { click: () => chosen(i) },
      },
      html("img", { ...attributes, class: Math.max(width, height) <= 64 && "coarse" }),
    );
  });
  const keydown = (event) => {
    const steps = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
    const to = buttons.indexOf(document.activeElement) + (steps[event.key] ?? NaN);
    if (!buttons[to]) return;
    event.preventDefault();
    buttons[to].focus();
    chosen(to);
  };
  const group = { class: "thumbs", role: "radiogroup", "aria-label": "Images", on: { keydown } };
  const element = html("div", group, buttons);
  return {
    element,
    choose: (index) => {
      buttons.forEach((button, i) => {
        button.setAttribute("aria-checked", String(i === index));
        button.tabIndex = i === index ? 0 : -1;
      });
      const { offsetLeft, offsetTop } = buttons[index]; // the page itself stays put
      element.scrollTo(offsetLeft - element.offsetLeft - 64, offsetTop - element.offsetTop - 64);
    },
  };
}

/** For those who do not see the picture: the caption, or where the word looked most. */
function described({ item, word, tools }, { map, columns, name }) {
  const title = item.name ?? "image";
  if (!map) return `${title}: ${spoken(item)}`;
  const most = tools.maps.greatest(map);
  const place = map.indexOf(most);
  const where = `row ${Math.floor(place / columns) + 1}, column ${(place % columns) + 1}`;
  const boxed = item.boxes?.some((one) => one.word === word) ? "; what it names is outlined" : "";
  const share = tools.format.percent(most);
  return `${title}; ${name}; it looked most at ${where}, with ${share}${boxed}`;
}

/** Over how many patches a map is spread: an even map of so many has the same entropy. */
function spread(map) {
  const sum = map.reduce((total, share) => total + share, 0);
  if (!sum) return map.length;
  const surprise = (share) => (share ? -(share / sum) * Math.log(share / sum) : 0);
  return Math.exp(map.reduce((total, share) => total + surprise(share), 0));
}

/** From 0, all patches alike, to 1, one patch alone. */
function gathered(map) {
  return map?.length > 1 ? Math.max(0, 1 - Math.log(spread(map)) / Math.log(map.length)) : 0;
}

/** Width and height in pixels, as the first bytes of a PNG say; else the shape of the grid. */
function sizeOf({ image, grid }) {
  const [, start] = /^data:image\/png;base64,([a-z0-9+/]{32})/i.exec(image ?? "") ?? [];
  const bytes = start ? atob(start) : "";
  const number = (from) =>
    [0, 1, 2, 3].reduce((sum, i) => sum * 256 + bytes.charCodeAt(from + i), 0);
  const [rows, columns] = grid ?? [1, 1];
  return bytes ? { width: number(16), height: number(20) } : { width: columns, height: rows };
}

const wordsOf = ({ words }) => words ?? [];

/** The caption as one string. */
function spoken(item) {
  return wordsOf(item).reduce((text, word) => (clings(word) ? text : `${text} `) + word, "").trim();
}

/** Whether a word follows the one before it without a space, as a full stop does. */
function clings(word) {
  return /^([.,;:!?…%)\]}’”»。、，！？]+|['’]\p{L}+|n['’]t)$/u.test(word);
}

/** The index if there is one so numbered. */
function within(index, count) {
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}
