/**
 * A caption, and where the model looked when it wrote each word.
 *
 * A word that is pointed at, reached by keyboard or tapped lays its map over the image; without
 * one the image is as it is. The other way round, a place that is pointed at in the image tints
 * the words by how much they looked there. Where the model can be asked (`tools.live`), one map
 * more of each word says which patches it needed: they are deleted, and its probability followed.
 */

const DELETION = "deletion"; // in the address, where another head has its number
const READ =
  "Click a word to keep its map. The deeper a word's tint, the fewer patches it looked at. " +
  "Point at the image, and the tints say how much each word looked there.";
const DELETED =
  "Click a word to keep its map. The deeper a word's tint, the more it loses without the patch " +
  "it needs most. Point at the image, and the tints say what each word loses without that patch.";

export function render(element, { items = [] }, tools) {
  const { html, empty, state, live } = tools;
  if (!items.length) return element.append(empty("There is no caption to show."));

  const look = { opacity: 0.6, paint: "blue", shared: false };
  const at = { item: 0, word: null, head: 0 }; // all count from 0
  let passing = null; // the word under the mouse: it shows for as long as it is there
  const unpacked = new Map(); // the maps of items that were looked at
  const stage = html("div", { class: "stage" });
  const deleting = live?.falls ? tools.deletion.asking(live.falls, learn) : null;
  const several = items.length > 1;
  const thumbs = several ? tools.thumbnails(items.map(thumb), (item) => go({ item })) : null;
  element.append(...(thumbs ? [thumbs.element] : []), stage);
  state.changed(adopt);
  adopt(state.read());

  /** What the address asks for, as far as it exists. Numbers in the address count from 1. */
  function adopt({ item, word, head }) {
    at.item = within(Number(item) - 1, items.length) ?? 0;
    at.word = within(Number(word) - 1, wordsOf(items[at.item]).length);
    at.head = within(Number(head) - 1, mapsOf(at.item).heads.length) ?? 0;
    draw();
    if (head === DELETION) deleting?.start();
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

  /** What deleting patches did is one head more, and the one that is shown. */
  function learn(falls, byHand) {
    unpacked.set(at.item, withFalls(mapsOf(at.item), falls, tools.deletion));
    at.head = mapsOf(at.item).heads.length - 1;
    at.word ??= wordsOf(items[at.item]).length ? 0 : null;
    write();
    draw();
    if (byHand) stage.querySelector("select.head")?.focus(); // the button that had it is gone
  }

  function chooseHead(head) {
    at.head = head;
    redraw();
    tint(stage, view());
    write();
  }

  function write() {
    const word = at.word === null ? {} : { word: at.word + 1 };
    const head = mapsOf(at.item).signed(at.head) ? DELETION : at.head + 1;
    state.write({ item: at.item + 1, ...word, head });
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
      details(view(), { chooseHead, redraw, deleting }),
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
  const none = () => null;
  if (!item.maps) return { heads: [], rows: 0, columns: 0, of: none, signed: () => false };
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
    signed: () => false,
    greatest: (head) => Math.max(...maps.slice(head * count, (head + 1) * count).map(greatest)),
  };
}

/** The same maps, and after them what each word lost without each patch. */
function withFalls(maps, falls, { mapOf }) {
  const own = falls.names.map((_, i) => mapOf(falls, i));
  const last = maps.heads.length;
  const [rows, columns] = falls.grid;
  return {
    ...maps,
    ...{ rows, columns, falls },
    heads: [...maps.heads, "deletion: which patches it needed"],
    of: (head, word) =>
      head === last ? (word === null ? null : (own[word]?.map ?? null)) : maps.of(head, word),
    greatest: (head) =>
      head === last ? Math.max(...own.map(({ top }) => top)) : maps.greatest(head),
    signed: (head) => head === last,
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

/** Say which word is shown, which one the Tab key comes to, and what its tint means. */
function mark(stage, { word, at, maps }) {
  const signed = maps.signed(at.head);
  const meaning = stage.querySelector(".tints");
  if (meaning) meaning.textContent = signed ? DELETED : READ;
  for (const one of stage.querySelectorAll("select.paint")) one.disabled = signed; // has its own
  stage.querySelectorAll(".word").forEach((button, i) => {
    button.setAttribute("aria-checked", String(i === at.word));
    button.tabIndex = i === (at.word ?? 0) ? 0 : -1;
    button.classList.toggle("shown", i === word);
  });
}

/**
 * Tint the words: by how gathered their maps are, or by how much they looked at one patch; where
 * patches were deleted, by how much they lose without the one they need most, or without that one.
 */
function tint(stage, { maps, at, tools }, patch = null) {
  const buttons = [...stage.querySelectorAll(".word")];
  const found = buttons.map((_, i) => maps.of(at.head, i));
  const shares = found.map((map) => map?.[patch] ?? 0);
  const most = Math.max(...shares, 0);
  const whole = maps.signed(at.head) ? (map) => tools.maps.greatest(map ?? []) : gathered;
  buttons.forEach((button, i) => {
    const relative = most ? Math.max(0, shares[i]) / most : 0;
    const value = patch === null ? whole(found[i]) : relative;
    button.style.setProperty("--tint", value.toFixed(3));
  });
}

/** What the drawing needs to know. */
function shownIn({ item, maps, word, at, look, tools }) {
  const map = maps.of(at.head, word);
  const signed = maps.signed(at.head);
  const sizes = signed ? map?.map(Math.abs) : map;
  return {
    item,
    map,
    signed,
    rows: maps.rows,
    columns: maps.columns,
    top: map && look.shared ? maps.greatest(at.head) : tools.maps.greatest(sizes ?? []),
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
    const about = () => {
      const few = Math.max(1, Math.round(spread(shown.map)));
      return `spread over about ${few} of ${patches}`;
    };
    const [low, high] = overlay.endsOf(shown);
    const note = shown.signed ? tools.deletion.summary(maps.falls, word) : about();
    return [
      html("span", {}, "‘", html("bdi", {}, wordsOf(item)[word]), `’, ${maps.heads[at.head]}`),
      html("span", { class: "scale" }, low, overlay.strip(shown), high),
      html("span", { class: "note" }, note),
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
    const words = shown.signed
      ? tools.deletion.fate(maps.falls, i, patch)
      : `looked at ${who}, with ${format.percent(shares[i], 2)} of its look`;
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

function details(view, { chooseHead, redraw, deleting }) {
  const { item, maps, tools } = view;
  const { html } = tools;
  const references = item.references ?? [];
  return html(
    "div",
    { class: "right" },
    maps.rows > 0 && [
      controls(view, { chooseHead, redraw }),
      html("p", { class: "note tints" }),
    ],
    references.length > 0 && [
      html("h4", {}, references.length === 1 ? "Reference" : "References"),
      html(
        "ul",
        { class: "references" },
        references.map((words) => html("li", { dir: "auto" }, words)),
      ),
    ],
    !maps.falls && deleting?.element,
    html("div", { class: "controls" }, tools.savingButtons(...kept(view))),
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

/**
 * What is saved: the name of its file, and the drawing. It is what is kept on the page, not what
 * the mouse passed on its way to the button.
 */
function kept(view) {
  const { format, overlay, shortened } = view.tools;
  const title = spoken(view.item);
  const shown = () => shownIn({ ...view, word: view.at.word });
  const file = () =>
    `${format.slug(title, "image").slice(0, 40)}-${format.slug(shown().name, "word")}`;
  const drawing = () => {
    const { name, ...rest } = shown();
    const [, , width] = overlay.placeOf({ ...rest, rows: 1, columns: 1 }, 0, 0);
    const letters = Math.floor((Math.max(width, 320) - 230) / 8); // left of the scale
    const item = { ...view.item, title };
    const made = overlay.keepsake({ ...rest, item, name: shortened(name, letters) });
    made.querySelector("svg").append(...outlines({ ...view, word: view.at.word }));
    return made;
  };
  return [file, drawing];
}

/** What the row of images needs to know of one. */
function thumb(item, i) {
  const name = item.name ?? `image ${i + 1}`;
  return { image: item.image, ...sizeOf(item), name, title: spoken(item) || name };
}

/** For those who do not see the picture: the caption, or where the word looked most. */
function described({ item, maps, word, tools }, { map, columns, name, signed }) {
  const title = item.name ?? "image";
  if (!map) return `${title}: ${spoken(item)}`;
  if (signed) return `${title}; ${name}; ${tools.deletion.summary(maps.falls, word)}`;
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
