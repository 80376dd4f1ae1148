/**
 * A text on a line, with an arc from a word to each that it looked at; two texts on two lines.
 *
 * Thin arcs in the background are every word's strongest. Where there is no room for words the line
 * has ticks instead, and names the word chosen and those that it looked at most.
 */

import { depth, rowOf } from "regard/headmaps";
import { printed, sheet } from "regard/print";
import { savingButtons } from "regard/save";
import { fit, shortened, svg, ticks } from "regard/svg";
import { visible } from "regard/tokens";

const LETTER = 6.8; // pixels that one takes, on average and generously
const LONGEST = 12; // letters of a word on the line
const UPRIGHT = 13; // pixels between words that stand on end
const EDGE = 8; // pixels left and right of the line
const RISE = 140; // pixels of the highest arc
const MOST = 80; // arcs of one word
const BEHIND = 120; // arcs in the background
const LEAST = 0.01; // share below which nothing is drawn
const NAMED = 3; // words brought out on the line, besides the one that looks
const NOTED = 0.1; // of the strongest, from which one is

/** The figure; `show(shown)` draws another word or head, `choose` and `pass` are of its words. */
export function arcsFigure({ choose, pass, tools }) {
  const { html, hint, unhint } = tools;
  const drawing = svg("svg", { role: "img", on: { pointermove, click, pointerleave } });
  const area = html("div", { class: "arcs area" }, drawing);
  let shown = null;
  let width = 0;
  const name = () => tools.format.slug(`${shown.title} ${shown.name} arcs`, "arcs");
  const element = html(
    "figure",
    {},
    area,
    html(
      "figcaption",
      { class: "note" },
      "An arc goes from a word to what it looked at, the stronger the larger its share. ",
      "Faint ones are the strongest of all other words.",
    ),
    html("div", { class: "controls" }, savingButtons(name, keepsake)),
  );
  return { element, begin, show };

  function begin() {
    fit(area, (wide) => {
      width = wide;
      draw();
    });
  }

  function show(next) {
    shown = next;
    draw();
  }

  function draw() {
    if (!shown || width < 4 * EDGE) return; // too narrow for any line
    const { height, children } = scene(shown, width);
    tools.furnish(drawing, { width, height, "aria-label": described(shown) }, []);
    drawing.replaceChildren(...children);
  }

  function keepsake() {
    return shown && sheet(shown.title, [[`${shown.name}${saidWord(shown)}`, printed(drawing)]]);
  }

  function placeOf({ clientX, clientY }) {
    if (!shown) return null;
    const box = drawing.getBoundingClientRect();
    const { asked, read } = shown;
    if (read && clientY < box.top + box.height / 2) return null; // the text that is looked at
    const place = Math.floor(((clientX - box.left - EDGE) / (box.width - 2 * EDGE)) * asked.length);
    return place >= 0 && place < asked.length ? place : null;
  }

  function pointermove(event) {
    const place = placeOf(event);
    if (place === null || event.pointerType === "touch") return;
    hint(event.clientX, event.clientY, `‘${visible(shown.asked[place])}’, place ${place + 1}`);
    pass(place);
  }

  function click(event) {
    const place = placeOf(event);
    if (place !== null) choose(place);
  }

  function pointerleave({ pointerType }) {
    if (pointerType === "touch") return;
    unhint();
    pass(null);
  }
}

/** All that is drawn at this width, and how high it is. */
function scene(shown, width) {
  const { asked, read, word } = shown;
  const below = lineOf(asked, width);
  const above = read ? lineOf(read, width) : below;
  const top = read ? above.room + 6 : 8;
  const base = top + (read ? 110 : riseOf(asked.length));
  const own = word === null ? [] : arcsOf(shown, word);
  const most = own.slice(0, NAMED).filter(({ part }) => part >= NOTED).map(({ to }) => to);
  const who = word === null ? [] : [word];
  const curve = read ? between(above, below, top, base) : over(below, base, width);
  const lines = read
    ? [labels(above, read, top, -1, most, null), labels(below, asked, base, 1, who, word)]
    : [labels(below, asked, base, 1, [...who, ...most], word)];
  return {
    height: Math.ceil(base + below.room + 4),
    children: [
      svg(
        "g",
        { class: "behind" },
        behind(shown).map((arc) => faint(curve(arc), arc)),
      ),
      svg(
        "g",
        { class: "of-word" },
        own.map((arc) => strong(curve(arc), arc, shown)),
      ),
      ...lines.flat(Infinity),
    ],
  };
}

/** A few words need no high arcs. */
const riseOf = (count) => Math.min(RISE, 40 + 12 * count);

/** Where words stand along a line, and how they are written there. */
function lineOf(tokens, width) {
  const step = (width - 2 * EDGE) / Math.max(1, tokens.length);
  const longest = Math.max(1, ...tokens.map((token) => [...visible(token)].length));
  const letters = Math.min(LONGEST, longest);
  const way = step >= letters * LETTER + 4 ? "across" : step >= UPRIGHT ? "upright" : "ticks";
  const room = { across: 24, upright: letters * LETTER + 12, ticks: 44 }[way];
  return { way, room, width, count: tokens.length, x: (i) => EDGE + (i + 0.5) * step };
}

/** What a word looked at, most first. */
function arcsOf({ map }, from) {
  const row = rowOf(map, from);
  const top = 255 * map.scales[from];
  return Array.from(row, (share, to) => ({ from, to, share, part: top ? share / top : 0 }))
    .filter(({ share }) => share >= LEAST)
    .sort((a, b) => b.share - a.share)
    .slice(0, MOST);
}

/** The strongest of every word but the one shown; a look at oneself is none. */
function behind({ map, read, word }) {
  const found = [];
  for (let from = 0; from < map.rows; from += 1) {
    if (from === word) continue;
    const start = from * map.columns;
    let best = -1;
    for (let to = 0; to < map.columns; to += 1) {
      const other = read || to !== from;
      if (other && (best < 0 || map.levels[start + to] > map.levels[start + best])) best = to;
    }
    const share = best < 0 ? 0 : map.levels[start + best] * map.scales[from];
    if (share >= LEAST) found.push({ from, to: best, share, part: 1 });
  }
  return found.sort((a, b) => b.share - a.share).slice(0, BEHIND);
}

/** Paths over one line; heights go by the third root of distance, or near ones would lie flat. */
function over(line, base, width) {
  const rise = riseOf(line.count);
  return ({ from, to }) => {
    const [a, b] = [line.x(from), line.x(to)];
    if (from === to) return `M${near(a)} ${base}c-9 -18 9 -18 0 0`;
    const far = Math.abs(b - a);
    const radii = `${near(far / 2)} ${near(rise * Math.cbrt(far / (width - 2 * EDGE)))}`;
    return `M${near(a)} ${base}A${radii} 0 0 ${b > a ? 1 : 0} ${near(b)} ${base}`;
  };
}

/** Paths from the line below to the line above. */
function between(above, below, top, base) {
  const middle = (top + base) / 2;
  return ({ from, to }) => {
    const [a, b] = [below.x(from), above.x(to)].map(near);
    return `M${a} ${base}C${a} ${middle} ${b} ${middle} ${b} ${top}`;
  };
}

function faint(d, { share }) {
  const look = { "stroke-width": near(0.5 + share), "stroke-opacity": near(0.15 + 0.3 * share) };
  return svg("path", { d, ...look });
}

function strong(d, { share, part }, { gentle }) {
  const opacity = near(0.15 + 0.85 * depth(part, gentle));
  return svg("path", { d, "stroke-width": near(1 + 5 * share), "stroke-opacity": opacity });
}

/** The words along a line, below it (1) or above (−1), or ticks and the names of a few. */
function labels(line, tokens, y, side, marks, word) {
  const rule = svg("line", { class: "rule", x1: EDGE, x2: line.width - EDGE, y1: y, y2: y });
  const text = (i, attributes, words) => {
    const kind = i === word ? "chosen" : marks.includes(i) ? "looked-at" : "tick";
    return svg("text", { class: kind, ...attributes }, words);
  };
  const named = (i) => shortened(visible(tokens[i]), LONGEST);
  if (line.way === "ticks") {
    return [rule, axis(line, y, side, text), few(line, y, side, marks, text, named)];
  }
  const place = line.way === "across" ? across : upright;
  return [rule, tokens.map((_, i) => text(i, place(line.x(i), y, side), named(i)))];
}

function across(x, y, side) {
  return { x: near(x), y: y + (side > 0 ? 17 : -8), "text-anchor": "middle" };
}

function upright(x, y, side) {
  const transform = `translate(${near(x + 4)} ${y + 7 * side}) rotate(-90)`;
  return { transform, "text-anchor": side > 0 ? "end" : "start" };
}

/** Ticks with the numbers of places. */
function axis(line, y, side, text) {
  const places = ticks(1, line.count, Math.max(2, Math.floor(line.width / 60)), true);
  return places
    .filter((place) => place >= 1)
    .map((place) => {
      const x = near(line.x(place - 1));
      const at = { x, y: y + (side > 0 ? 18 : -10), "text-anchor": "middle" };
      return text(NaN, at, String(place));
    });
}

/** The names of some places beyond the numbers, as many as stand clear of one another. */
function few(line, y, side, marks, text, named) {
  const taken = [];
  return marks.flatMap((i) => {
    const half = ([...named(i)].length * LETTER) / 2 + 3;
    const x = Math.min(line.width - half, Math.max(half, line.x(i)));
    if (taken.some(([left, right]) => x + half > left && x - half < right)) return [];
    taken.push([x - half, x + half]);
    const at = { x: near(x), y: y + (side > 0 ? 36 : -28), "text-anchor": "middle" };
    return [text(i, at, named(i))];
  });
}

/** For those who do not see it. */
function described(shown) {
  const { asked, read, name } = shown;
  const others = read ? ` that look at ${read.length}` : "";
  return `Arcs of ${asked.length} words${others}, ${name}${saidWord(shown)}`;
}

const saidWord = ({ asked, word }) => (word === null ? "" : `, of ‘${visible(asked[word])}’`);
const near = (value) => Math.round(value * 100) / 100;
