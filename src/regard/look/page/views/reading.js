/**
 * A text, and where each of its words looked: at words of the same text, or of another one.
 *
 * A word that is pointed at, reached by keyboard or tapped shades the words that it looked at, the
 * more the deeper. Beside the text is the map of all words at once, with the word's row framed.
 */

const LARGEST = 400; // pixels along a side of the map
const CELL = 20; // pixels that a word gets there if there is room
const FINEST = 1.5; // pixels that one gets at least; where there is less, several share them
const NAMED = 3; // words named as looked at most
const PATIENCE = 150; // ms before the address follows: browsers refuse hundreds of changes a second
const SIGNS = /\r\n|[\0-\x1f]/g;

export function render(element, { items = [] }, tools) {
  const { html, empty, state } = tools;
  if (!items.length) return element.append(empty("There is no text to show."));

  const look = { gentle: false };
  const at = { item: 0, word: null, head: 0 }; // all count from 0
  let passing = null; // the word under the mouse: it shows for as long as it is there
  let parts = {}; // of what is drawn
  let later = 0; // the timer of the address
  const known = new Map(); // the maps of items that were looked at
  const spread = html("div", { class: "spread" });
  element.append(spread);
  state.changed(adopt);
  adopt(state.read());
  whenDark(() => parts.figure && paint(parts.whole.querySelector("canvas"), view()));

  /** What the address asks for, as far as it exists. Numbers in the address count from 1. */
  function adopt({ item, word, head }) {
    clearTimeout(later);
    at.item = within(Number(item) - 1, items.length) ?? 0;
    at.head = within(Number(head) - 1, mapsOf(at.item).heads.length) ?? 0;
    const { length } = askedOf(items[at.item]);
    at.word = within(Number(word) - 1, length) ?? opening(items[at.item]);
    draw();
  }

  /** Look at another text with the same head, if it has one so numbered. */
  function go(item) {
    const head = within(at.head, mapsOf(item).heads.length) ?? 0;
    Object.assign(at, { item, head, word: opening(items[item]) });
    draw();
    spread.querySelector("select.text").focus();
    write();
  }

  /** Keep a word, or with null none, whatever the mouse is over. */
  function choose(word) {
    at.word = word;
    pass(null);
    write();
  }

  /** Show a word until the mouse is elsewhere. */
  function pass(word) {
    passing = word;
    show(parts, view());
  }

  function chooseHead(head) {
    const count = mapsOf(at.item).heads.length;
    at.head = (head + count) % count;
    spread.querySelector("select.head").value = at.head;
    repaint();
    write();
  }

  function repaint() {
    if (parts.figure) paint(parts.whole.querySelector("canvas"), view());
    show(parts, view());
  }

  function write() {
    clearTimeout(later);
    const word = at.word === null ? {} : { word: at.word + 1 };
    const choices = { item: at.item + 1, ...word, head: at.head + 1 };
    later = setTimeout(() => state.write(choices), PATIENCE);
  }

  function mapsOf(index) {
    if (!known.has(index)) known.set(index, mapsIn(items[index]));
    return known.get(index);
  }

  function draw() {
    passing = null;
    const shown = view();
    parts = partsOf(shown, { choose, pass });
    spread.replaceChildren(
      controls(shown, { items, go, chooseHead, repaint, look }),
      html("div", { class: "texts" }, parts.texts),
      html("div", { class: "side" }, parts.readout, parts.figure),
    );
    repaint();
  }

  function view() {
    const maps = mapsOf(at.item);
    const word = passing ?? at.word;
    return { item: items[at.item], maps, map: maps.of(at.head), word, at, look, tools };
  }
}

/** The maps of a text: of(head) is what that head's words looked at, decoded when asked for. */
function mapsIn(item) {
  const { maps, heads } = item;
  const [n, m] = [askedOf(item).length, readOf(item).length];
  if (!maps) return { heads: [], of: () => null };
  const [count, rows, ...rest] = maps.shape;
  const single = rest.length === 1 || (rest.length === 2 && rest[0] === 1); // or a scale a row
  if (rows !== n || rest.at(-1) !== m || !single) {
    throw new Error(`${n} words that look at ${m} have maps of shape ${maps.shape.join(" × ")}`);
  }
  const decoded = new Map();
  return {
    heads: Array.from({ length: count }, (_, i) => heads?.[i] ?? `map ${i + 1}`),
    of: (head) => {
      if (!decoded.has(head)) decoded.set(head, decode(maps, head, count, n, m, !item.read));
      return decoded.get(head);
    },
  };
}

/** One head's rows of shares; of many heads and a long text all at once would take a while. */
function decode({ scale, base64 }, head, heads, n, m, own) {
  const start = head * n * m;
  const lead = start % 3; // four letters are three bytes
  const end = Math.ceil((start + n * m) / 3) * 4;
  const bytes = atob(base64.slice(((start - lead) / 3) * 4, end));
  const scales = [scale].flat();
  const rows = [];
  let causal = own;
  for (let i = 0; i < n; i += 1) {
    const factor = scales[Math.floor(((head * n + i) * scales.length) / (heads * n))];
    const row = new Float32Array(m);
    for (let j = 0; j < m; j += 1) row[j] = bytes.charCodeAt(lead + i * m + j) * factor;
    causal &&= row.subarray(i + 1).every((share) => share === 0);
    rows.push(row);
  }
  const tops = rows.map((row) => row.reduce((most, share) => Math.max(most, share), 0));
  return { rows, tops, causal };
}

/** Between no shade and the deepest, which the word looked at most has. */
function depth(share, top, { gentle }) {
  const relative = top ? share / top : 0;
  return gentle ? Math.sqrt(relative) : relative;
}

/** All that changes with the word: the texts, what is said of them, and the map's frame. */
function partsOf(view, acts) {
  const { item, maps, tools } = view;
  const { html } = tools;
  const [askedName, readName] = item.titles ?? ["Words that look", "Words looked at"];
  const asked = askedOf(item).map((token) => tokenOf(token, html, { role: "radio" }));
  const looked = item.read?.map((token) => tokenOf(token, html)) ?? asked;
  const line = asked.length ? lineOf(asked, view, acts) : null;
  const titled = (words, children) => [html("h4", {}, words), children];
  const text = { class: "tokens", dir: "auto" };
  const whole = html("div", { class: "whole" });
  const parts = {
    asked,
    looked,
    whole,
    readout: html("div", { class: "looks", role: "status" }),
    texts: [
      item.name && html("h3", { dir: "auto" }, item.name),
      item.read && titled(readName, html("p", text, spaced(item.read, looked))),
      item.read && line ? titled(askedName, line) : line,
      !line && html("p", { class: "note" }, "The text has no words."),
      item.note && html("p", { class: "note", dir: "auto" }, item.note),
    ],
    figure:
      maps.heads.length > 0 &&
      looked.length > 0 &&
      line &&
      html(
        "figure",
        {},
        html("p", { class: "across" }, "looks ↓, looked at →"),
        whole,
        html(
          "figcaption",
          { class: "note" },
          "All words at once: a row looks, and is strongest where it looked most. ",
          "The frame is the row of the word in the text; point at any other.",
        ),
      ),
  };
  if (parts.figure) whole.append(...wholeMap(view, acts));
  return parts;
}

/**
 * A word as it stands in the text; line ends and tabs have a quiet sign beside them.
 *
 * The space before a word stays outside, where it can end a line; alone it is a word.
 */
function tokenOf(token, html, attributes = {}) {
  const blank = token !== "" && !token.trim();
  token = blank ? token : token.replace(/^ +/, "");
  const marks = [...token.matchAll(SIGNS)].map(([sign]) => sign);
  const pieces = token.split(SIGNS).flatMap((words, i) => {
    if (i === 0) return [words];
    const sign = marks[i - 1];
    const ends = sign.endsWith("\n") ? "\n" : "";
    return [html("span", { class: "sign" }, visible(sign)), `${ends}${words}`];
  });
  return html(
    "span",
    {
      class: blank && !marks.length ? "token blank" : "token",
      "aria-label": blank || token === "" ? spelled(token) : null,
      ...attributes,
    },
    token === "" ? html("span", { class: "sign" }, visible(token)) : pieces,
  );
}

/** Words with the spaces that stand before them. */
function spaced(tokens, spans) {
  return spans.map((span, i) => [tokens[i].trim() ? /^ */.exec(tokens[i])[0] : "", span]);
}

/** The words that look, of which at most one is chosen. */
function lineOf(spans, { item, at, tools }, { choose, pass }) {
  const places = new Map(spans.map((span, i) => [span, i]));
  const placeOf = ({ target }) => places.get(target.closest(".token")) ?? null;
  const line = tools.html(
    "p",
    {
      class: "tokens asked",
      dir: "auto",
      role: "radiogroup",
      "aria-label": "Words of the text; arrow keys move between them",
      on: { click, keydown, focusin, pointerover, pointerleave },
    },
    spaced(askedOf(item), spans),
  );
  return line;

  function click(event) {
    const place = placeOf(event);
    if (place !== null) choose(place);
  }

  /** Only the keyboard's focus chooses: a click has done so already. */
  function focusin(event) {
    const place = placeOf(event);
    if (event.target.matches(":focus-visible") && place !== at.word) choose(place);
  }

  function keydown(event) {
    if (event.key === "Escape") return choose(null);
    const place = placeOf(event);
    const to = place === null ? null : goal(event.key, place);
    if (to === null) return;
    event.preventDefault();
    if (!spans[to]) return; // the edge
    choose(to);
    spans[to].focus();
  }

  function goal(key, place) {
    const leftward = getComputedStyle(line).direction === "rtl" ? 1 : -1;
    if (key === "ArrowLeft") return place + leftward;
    if (key === "ArrowRight") return place - leftward;
    if (key === "ArrowUp") return beyond(spans, place, -1);
    if (key === "ArrowDown") return beyond(spans, place, 1);
    return { Home: 0, End: spans.length - 1 }[key] ?? null;
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

/** The word above (−1) or below (1) in the text as it is wrapped; the same one at the edge. */
function beyond(spans, from, step) {
  const boxOf = (span) => [...span.getClientRects()].reduce((a, b) => (b.width > a.width ? b : a));
  const middle = ({ left, right }) => (left + right) / 2;
  const here = boxOf(spans[from]);
  const apart = (a, b) => Math.abs(a.top - b.top) > here.height / 2;
  let best = { place: from, far: Infinity, box: null };
  for (let i = from + step; spans[i]; i += step) {
    const box = boxOf(spans[i]);
    if (!apart(box, here)) continue;
    if (best.box && apart(box, best.box)) break; // a line further
    const far = Math.abs(middle(box) - middle(here));
    if (far < best.far) best = { place: i, far, box };
  }
  return best.place;
}

/** Shade what the word looked at, name the strongest, and frame its row. */
function show({ asked, looked, readout, whole }, view) {
  const { map, word, at, look } = view;
  const row = word === null ? null : (map?.rows[word] ?? null);
  const top = row ? map.tops[word] : 0;
  looked.forEach((span, i) => {
    const tint = row ? depth(row[i], top, look).toFixed(3) : "0.000";
    if (span.style.getPropertyValue("--tint") !== tint) span.style.setProperty("--tint", tint);
  });
  asked.forEach((span, i) => {
    span.setAttribute("aria-checked", String(i === at.word));
    span.tabIndex = i === (at.word ?? 0) ? 0 : -1;
    span.classList.toggle("shown", i === word);
    span.classList.toggle("later", Boolean(row && map.causal && i > word));
  });
  readout.replaceChildren(...said(view, row, top));
  const frame = whole.querySelector(".frame");
  if (!frame) return;
  frame.hidden = !row;
  frame.style.setProperty("top", `${(100 * (word ?? 0)) / asked.length}%`);
}

/** The words looked at most, with their shares, and how much is left for all others. */
function said({ item, map, word, look, tools }, row, top) {
  const { html } = tools;
  if (!map) return [html("p", { class: "note" }, "No map was kept of this text.")];
  if (!row) return [html("p", { class: "note" }, "Point at a word to see where it looked.")];
  const named = (token) => html("bdi", {}, visible(token));
  const who = ["‘", named(askedOf(item)[word]), "’ looked at"];
  if (!top) return [html("div", { class: "who" }, html("span", {}, who, " nothing"))];
  const most = strongest(row);
  const rest = row.reduce((sum, share) => sum + share, 0) - sumOf(most.map((i) => row[i]));
  const others = (map.causal ? word + 1 : row.length) - most.length;
  const bar = (i) =>
    html(
      "li",
      {},
      html(
        "span",
        { class: "name" },
        ["‘", named(readOf(item)[i]), "’ "],
        html("small", {}, !item.read && i === word ? "itself" : `place ${i + 1}`),
      ),
      html("span", { class: "track" }, html("i", { style: { width: `${100 * row[i]}%` } })),
      html("span", { class: "share" }, percent(row[i], tools)),
    );
  return [
    html(
      "div",
      { class: "who" },
      html("span", {}, who),
      html("span", { class: "scale" }, "0", html("i", { style: strip(look) }), percent(top, tools)),
    ),
    html("ol", {}, most.map(bar)),
    html(
      "p",
      { class: "rest" },
      others > 0 && `and ${percent(Math.max(0, rest), tools)} at `,
      others > 0 && (others === 1 ? "one other" : `${others} others`),
    ),
  ];
}

/** The places of the greatest shares, greatest first; those looked at not at all are left out. */
function strongest(row) {
  const best = [];
  row.forEach((share, i) => {
    const place = best.findIndex((j) => share > row[j]);
    if (share > 0) best.splice(place < 0 ? best.length : place, 0, i);
    best.length = Math.min(best.length, NAMED);
  });
  return best;
}

/** The shades from none to the deepest, as they stand behind words. */
function strip(look) {
  const shades = Array.from({ length: 9 }, (_, i) => {
    const tint = Math.round(100 * depth(i / 8, 1, look));
    return `color-mix(in srgb, var(--shade) ${tint}%, transparent)`;
  });
  return { background: `linear-gradient(to right, ${shades.join(", ")})` };
}

/** A pixel a pair of words, and a frame for the row of one. */
function wholeMap({ item, maps, at, tools }, { choose, pass }) {
  const { html, hint, unhint } = tools;
  const [n, m] = [askedOf(item).length, readOf(item).length];
  const cell = Math.min(CELL, LARGEST / Math.max(n, m));
  const side = (count) => Math.round(Math.max(Math.min(96, CELL * count), cell * count));
  const canvas = html("canvas", {
    width: Math.ceil(m / together(n, m)),
    height: Math.ceil(n / together(n, m)),
    role: "img",
    style: { width: `${side(m)}px`, "aspect-ratio": `${side(m)} / ${side(n)}` },
    on: { pointermove: ask, pointerdown: ask, click, pointerleave },
  });
  return [canvas, html("div", { class: "frame", style: { height: `${100 / n}%` } })];

  function cellAt({ clientX, clientY }) {
    const box = canvas.getBoundingClientRect();
    const place = (part, count) => within(Math.floor(part * count), count);
    const row = place((clientY - box.top) / box.height, n);
    const column = place((clientX - box.left) / box.width, m);
    return row === null || column === null ? null : { row, column };
  }

  function ask(event) {
    const found = cellAt(event);
    if (!found) return;
    const { row, column } = found;
    const map = maps.of(at.head);
    const [from, to] = [askedOf(item)[row], readOf(item)[column]].map(visible);
    const share = percent(map.rows[row][column], tools);
    hint(event.clientX, event.clientY, `‘${from}’ looked at ‘${to}’: ${share}`);
    if (event.pointerType !== "touch") pass(row);
  }

  function click(event) {
    const found = cellAt(event);
    if (found) choose(found.row);
  }

  function pointerleave({ pointerType }) {
    if (pointerType !== "mouse") return; // a finger has left when it has pointed
    unhint();
    pass(null);
  }
}

/** How many words, along either side, share a pixel of the map. */
function together(n, m) {
  return Math.ceil((FINEST * Math.max(n, m)) / LARGEST);
}

/** Every row on its own scale, as in the text, from the paper to the deepest shade there. */
function paint(canvas, { item, map, maps, at, look }) {
  const [n, m] = [askedOf(item).length, readOf(item).length];
  const { width, height } = canvas;
  const shared = together(n, m);
  const levels = new Uint8Array(width * height);
  map.rows.forEach((row, i) =>
    row.forEach((share, j) => {
      const pixel = Math.floor(i / shared) * width + Math.floor(j / shared);
      const level = Math.round(255 * depth(share, map.tops[i], look));
      if (level > levels[pixel]) levels[pixel] = level; // a thin line stays a line
    }),
  );
  const style = getComputedStyle(canvas);
  const [paper, shade] = [style.backgroundColor, style.color].map(channels);
  const mixed = (level) => paper.map((from, c) => from + ((shade[c] - from) * level) / 255);
  const colours = Array.from({ length: 256 }, (_, level) => [...mixed(level), 255]);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  levels.forEach((level, pixel) => image.data.set(colours[level], 4 * pixel));
  context.putImageData(image, 0, 0);
  const words = `Map of ${n} words that look at ${m}, ${maps.heads[at.head]}`;
  canvas.setAttribute("aria-label", words);
}

/** Call `act` whenever the page turns dark or light. */
function whenDark(act) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", act);
  new MutationObserver(act).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

function controls({ maps, at, tools }, { items, go, chooseHead, repaint, look }) {
  const { html } = tools;
  const options = (words, chosen) =>
    words.map((name, i) => html("option", { value: i, selected: i === chosen }, name));
  const names = items.map(({ name }, i) => name || `text ${i + 1}`);
  const pick = (act) => ({ change: ({ target }) => act(Number(target.value)) });
  const step = (words, by, label) => {
    const click = () => chooseHead(at.head + by);
    return html("button", { type: "button", "aria-label": label, on: { click } }, words);
  };
  const tick = ({ target }) => {
    look.gentle = target.checked;
    repaint();
  };
  return html(
    "div",
    { class: "controls" },
    items.length > 1 &&
      html(
        "label",
        {},
        "Text",
        html("select", { class: "text", on: pick(go) }, options(names, at.item)),
      ),
    maps.heads.length > 1 &&
      html(
        "div",
        { class: "heads" },
        html(
          "label",
          {},
          "Head",
          html("select", { class: "head", on: pick(chooseHead) }, options(maps.heads, at.head)),
        ),
        html("div", { class: "choice" }, step("‹", -1, "Previous head"), step("›", 1, "Next head")),
      ),
    maps.heads.length > 0 &&
      html(
        "label",
        {},
        html("input", { type: "checkbox", checked: look.gentle, on: { change: tick } }),
        "Bring out small shares",
      ),
  );
}

/** The word shown at first: not the first, so that there is something to look back at. */
function opening(item) {
  const asked = askedOf(item);
  const from = Math.min(40, Math.floor((asked.length * 2) / 3));
  const lettered = asked.findIndex((token, i) => i >= from && /[\p{L}\p{N}]/u.test(token));
  return within(lettered < 0 ? from : lettered, asked.length);
}

/** A word where it is named: without the space before it, unless it is nothing else. */
function visible(token) {
  if (token === "") return "∅";
  const pictured = (sign) =>
    ({ "\n": "↵", "\t": "⇥" })[sign] ?? String.fromCharCode(0x2400 + sign.charCodeAt(0));
  const words = token.replace(SIGNS, (sign) => pictured(sign.at(-1)));
  return words.trim() || "␣".repeat(words.length);
}

/** For those who hear the text: what cannot be heard, in words. */
function spelled(token) {
  if (token === "") return "nothing";
  if (token.includes("\n")) return "new line";
  return token.includes("\t") ? "tab" : "space";
}

/** Whole percents, but for small shares. */
function percent(share, { format }) {
  return format.percent(share, share >= 0.0995 || share === 0 ? 0 : 1);
}

/** Red, green and blue of a colour as the browser computes it. */
const channels = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
const askedOf = ({ asked }) => asked ?? [];
const readOf = (item) => item.read ?? askedOf(item);
const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

/** The index if there is one so numbered. */
function within(index, count) {
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}
