/**
 * A text, and where each of its words looked: at words of the same text, or of another one.
 *
 * A word that is pointed at, reached by keyboard or tapped shades the words that it looked at, the
 * more the deeper. Beneath the text are arcs or the map of all words at once, beside it all heads
 * in small.
 */

import { arcsFigure } from "regard/arcs";
import { depth, headMaps, rowOf } from "regard/headmaps";
import { headGrid, headTable } from "regard/heads";
import { matrixFigure } from "regard/matrix";
import { headSummaries } from "regard/summaries";
import { spaced, tokenOf, visible, walk } from "regard/tokens";

const NAMED = 3; // words named as looked at most
const PATIENCE = 150; // ms before the address follows: browsers refuse hundreds of changes a second
const FORMS = { text: "Text", arcs: "Arcs", matrix: "Matrix" };
const USUAL = "arcs";
const FIGURES = { text: () => null, arcs: arcsFigure, matrix: matrixFigure };

export function render(element, { items = [] }, tools) {
  const { html, empty, state } = tools;
  if (!items.length) return element.append(empty("There is no text to show."));

  const look = { gentle: false };
  const at = { item: 0, word: null, head: 0, form: USUAL }; // numbers count from 0
  let passing = null; // the word under the mouse: it shows for as long as it is there
  let parts = {}; // of what is drawn
  let later = 0; // the timer of the address
  const known = new Map(); // the maps of items that were looked at
  const spread = html("div", { class: "spread" });
  const below = html("div"); // out of reach of what stays in sight beside the text
  element.append(spread, below);
  state.changed(adopt);
  adopt(state.read());

  /** What the address asks for, as far as it exists. Numbers in the address count from 1. */
  function adopt({ item, word, head, form }) {
    clearTimeout(later);
    at.item = within(Number(item) - 1, items.length) ?? 0;
    at.head = within(Number(head) - 1, mapsOf(at.item).count) ?? 0;
    at.form = Object.hasOwn(FORMS, form) ? form : USUAL;
    const { length } = askedOf(items[at.item]);
    at.word = within(Number(word) - 1, length) ?? opening(items[at.item]);
    draw();
  }

  /** Look at another text with the same head, if it has one so numbered. */
  function go(item) {
    const head = within(at.head, mapsOf(item).count) ?? 0;
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
    at.head = head;
    repaint();
    write();
  }

  function chooseForm(form) {
    at.form = form;
    frame();
    show(parts, view());
    parts.figure?.begin();
    write();
  }

  /** Put the figure of the form in its place; it begins once all around it is there. */
  function frame() {
    const { item, maps } = view();
    const any = maps.count && parts.asked.length && parts.looked.length;
    const make = FIGURES[any ? at.form : "text"];
    parts.figure = make({ choose, pass, say: saying(item, tools), tools });
    parts.place.replaceChildren(...(parts.figure ? [parts.figure.element] : []));
    parts.texts.classList.toggle("above", Boolean(parts.figure));
  }

  /** Show the head chosen, now or when its map has come; until then the last one stays. */
  function repaint() {
    const { item, head } = at;
    const maps = mapsOf(item);
    if (!maps.count) return show(parts, view());
    parts.grid.show(head, look.gentle);
    if (maps.known(head)) parts.head = head;
    show(parts, view());
    if (parts.head === head) return;
    const mine = () => at.item === item && at.head === head;
    maps.get(head).then(
      () => mine() && repaint(),
      ({ message }) => mine() && fail(message),
    );
  }

  function fail(message) {
    parts.readout.replaceChildren(html("p", { class: "note trouble" }, message));
  }

  function write() {
    clearTimeout(later);
    const word = at.word === null ? {} : { word: at.word + 1 };
    const form = at.form === USUAL ? {} : { form: at.form };
    const choices = { item: at.item + 1, ...word, head: at.head + 1, ...form };
    later = setTimeout(() => state.write(choices), PATIENCE);
  }

  function mapsOf(index) {
    if (!known.has(index)) known.set(index, mapsIn(items[index], tools));
    return known.get(index);
  }

  /** A head that may be chosen next; if its map does not come, choosing it will say why. */
  function near(head) {
    mapsOf(at.item).get(head).catch(() => {});
  }

  function draw() {
    passing = null;
    parts = {};
    parts = partsOf(view(), { choose, chooseHead, pass, near, tell });
    spread.replaceChildren(
      controls(view(), { items, go, chooseForm, repaint, look }),
      parts.texts,
      html("div", { class: "side" }, parts.readout, parts.grid.element),
    );
    below.replaceChildren(...(parts.table.element ? [parts.table.element] : []));
    frame();
    repaint();
    parts.figure?.begin();
    if (parts.summaries.expected && !parts.summaries.all) afterwards(tell);
  }

  /** Say what the heads do once that has come, where the answer has left it out. */
  async function tell() {
    const { summaries, grid, table } = parts;
    await summaries.get();
    grid.tell();
    table.tell();
  }

  function view() {
    const maps = mapsOf(at.item);
    const { head = null } = parts; // whose map has come
    const map = head === null ? null : maps.known(head);
    const word = passing ?? at.word;
    return { item: items[at.item], maps, map, name: maps.names[head], word, at, look, tools };
  }
}

/** The maps of a text with the names of its heads, and what these do. */
function mapsIn(item, { fetched }) {
  const maps = headMaps(item.maps, askedOf(item).length, readOf(item).length, fetched);
  const names = Array.from({ length: maps.count }, (_, i) => item.heads?.[i] ?? `map ${i + 1}`);
  return { ...maps, names, summaries: headSummaries(item.summaries, fetched) };
}

/** All that changes with the word or the head. */
function partsOf(view, acts) {
  const { item, maps, at, tools } = view;
  const { html } = tools;
  const { names, summaries } = maps;
  const { chooseHead, near } = acts;
  const [askedName, readName] = item.titles ?? ["Words that look", "Words looked at"];
  const asked = askedOf(item).map((token) => tokenOf(token, { role: "radio" }));
  const looked = item.read?.map((token) => tokenOf(token)) ?? asked;
  const walking = { ...acts, chosen: () => at.word };
  const line = asked.length ? walk(askedOf(item), asked, walking) : null;
  const titled = (words, children) => [html("h4", {}, words), children];
  const text = { class: "tokens", dir: "auto" };
  const place = html("div");
  return {
    asked,
    looked,
    place,
    tints: new Array(looked.length).fill("0.000"),
    readout: html("div", { class: "looks", role: "status" }),
    summaries,
    grid: headGrid(item, names, maps, summaries, { choose: chooseHead, near, ...tools }),
    table: headTable(names, summaries, { choose: chooseHead, ask: acts.tell, tools }),
    texts: html(
      "div",
      { class: "texts" },
      item.name && html("h3", { dir: "auto" }, item.name),
      item.read && titled(readName, html("p", text, spaced(item.read, looked))),
      item.read && line ? titled(askedName, line) : line,
      !line && html("p", { class: "note" }, "The text has no words."),
      item.note && html("p", { class: "note", dir: "auto" }, item.note),
      place,
    ),
  };
}

/** What a cell of a map says. */
function saying(item, tools) {
  return ({ levels, columns, scales }, row, column) => {
    const [from, to] = [askedOf(item)[row], readOf(item)[column]].map(visible);
    const share = levels[row * columns + column] * scales[row];
    return `‘${from}’ looked at ‘${to}’: ${percent(share, tools)}`;
  };
}

/** Shade what the word looked at, name the strongest, and draw its figure. */
function show({ asked, looked, tints, readout, figure }, view) {
  const { item, maps, map, name, word, at, look } = view;
  if (!map && maps.count) return; // it is on its way
  const row = word === null || !map ? null : rowOf(map, word);
  const top = row ? 255 * map.scales[word] : 0;
  looked.forEach((span, i) => {
    const tint = (row && top ? depth(row[i] / top, look.gentle) : 0).toFixed(3);
    if (tints[i] !== tint) span.style.setProperty("--tint", (tints[i] = tint));
  });
  asked.forEach((span, i) => {
    span.setAttribute("aria-checked", String(i === at.word));
    span.tabIndex = i === (at.word ?? 0) ? 0 : -1;
    span.classList.toggle("shown", i === word);
    span.classList.toggle("later", Boolean(row && map.causal && i > word));
  });
  readout.replaceChildren(...said(view, row, top));
  figure?.show({
    asked: askedOf(item),
    read: item.read ?? null,
    map,
    word,
    gentle: look.gentle,
    title: item.name ?? "",
    name,
  });
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
function strip({ gentle }) {
  const shades = Array.from({ length: 9 }, (_, i) => {
    const tint = Math.round(100 * depth(i / 8, gentle));
    return `color-mix(in srgb, var(--shade) ${tint}%, transparent)`;
  });
  return { background: `linear-gradient(to right, ${shades.join(", ")})` };
}

function controls({ maps, at, tools }, { items, go, chooseForm, repaint, look }) {
  const { html, choice } = tools;
  const options = items.map(({ name }, i) =>
    html("option", { value: i, selected: i === at.item }, name || `text ${i + 1}`),
  );
  const pick = { change: ({ target }) => go(Number(target.value)) };
  const tick = ({ target }) => {
    look.gentle = target.checked;
    repaint();
  };
  return html(
    "div",
    { class: "controls" },
    items.length > 1 &&
      html("label", {}, "Text", html("select", { class: "text", on: pick }, options)),
    maps.count > 0 && [
      html("div", { class: "forms" }, choice("What is drawn", FORMS, at.form, chooseForm)),
      html(
        "label",
        {},
        html("input", { type: "checkbox", checked: look.gentle, on: { change: tick } }),
        "Bring out small shares",
      ),
    ],
  );
}

/** The word shown at first: not the first, so that there is something to look back at. */
function opening(item) {
  const asked = askedOf(item);
  const from = Math.min(40, Math.floor((asked.length * 2) / 3));
  const lettered = asked.findIndex((token, i) => i >= from && /[\p{L}\p{N}]/u.test(token));
  return within(lettered < 0 ? from : lettered, asked.length);
}

/** Whole percents, but for small shares. */
function percent(share, { format }) {
  return format.percent(share, share >= 0.0995 || share === 0 ? 0 : 1);
}

const askedOf = ({ asked }) => asked ?? [];
const readOf = (item) => item.read ?? askedOf(item);
const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

/** Do it once what is there now has been drawn. */
function afterwards(act) {
  requestAnimationFrame(() => setTimeout(act));
}

/** The index if there is one so numbered. */
function within(index, count) {
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}
