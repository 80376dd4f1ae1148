/** The map of all words at once: a row looks, a column is looked at; named where words fit. */

import { paint } from "regard/headmaps";
import { sheet } from "regard/print";
import { savingButtons } from "regard/save";
import { fit, shortened, svg } from "regard/svg";
import { visible } from "regard/tokens";

const LARGEST = 480; // pixels along a side
const CELL = 24; // pixels that a word gets if there is room
const LEAST = 96; // pixels along a side of a few words, if that is not more than they are given
const FINEST = 1.5; // pixels that one gets at least; where there is less, several share them
const LETTER = 6.8; // pixels that one takes, on average and generously
const LONGEST = 12; // letters of a word beside the map
const LINE = 11; // pixels that a line of words needs
const [MUTED, EDGE] = ["#5b6470", "#c3ccd6"]; // of a map that is saved

/** The figure; `show(shown)` draws another word or head, `choose` and `pass` are of its rows. */
export function matrixFigure({ choose, pass, tools, say }) {
  const { html, hint, unhint } = tools;
  const canvas = html("canvas", {
    role: "img",
    on: { pointermove: ask, pointerdown: ask, click, pointerleave },
  });
  const frame = html("div", { class: "frame" });
  const words = svg("svg", { "aria-hidden": "true" });
  const whole = html("div", { class: "whole" }, canvas, frame);
  const area = html("div", { class: "labelled" }, words, whole);
  let shown = null;
  let width = 0;
  let painted = {}; // what is on the canvas
  const name = () => tools.format.slug(`${shown.title} ${shown.name} matrix`, "matrix");
  const element = html(
    "figure",
    {},
    html("p", { class: "across" }, "looks ↓, looked at →"),
    area,
    html(
      "figcaption",
      { class: "note" },
      "All words at once: a row looks, and is deepest where it looked most. ",
      "The frame is the row of the word in the text; point at any other.",
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
    if (!shown || !width) return;
    const { map, gentle, word } = shown;
    if (painted.map !== map || painted.gentle !== gentle || painted.width !== width) {
      painted = { map, gentle, width };
      lay(shape(shown, width));
      paint(canvas, pooled(map, canvas), gentle);
      canvas.setAttribute(
        "aria-label",
        `Map of ${map.rows} words that look at ${map.columns}, ${shown.name}`,
      );
    }
    frame.hidden = word === null;
    frame.style.setProperty("top", `${(100 * (word ?? 0)) / map.rows}%`);
  }

  /** Give every part its place. */
  function lay({ left, top, wide, high }) {
    const { rows, columns } = shown.map;
    const shared = together(rows, columns);
    canvas.width = Math.ceil(columns / shared);
    canvas.height = Math.ceil(rows / shared);
    canvas.style.setProperty("width", `${wide}px`);
    canvas.style.setProperty("height", `${high}px`);
    whole.style.setProperty("margin", `${top}px 0 0 ${left}px`);
    frame.style.setProperty("height", `${100 / rows}%`);
    tools.furnish(words, { width: left + wide, height: top + high }, []);
    words.replaceChildren(...labels(shown, { left, top, wide, high }));
  }

  function keepsake() {
    if (!shown) return null;
    const place = shape(shown, LARGEST + LONGEST * LETTER);
    const { left, top, wide, high } = place;
    const image = { x: left, y: top, width: wide, height: high, preserveAspectRatio: "none" };
    const inner = svg(
      "svg",
      { width: left + wide + 1, height: top + high + 1 },
      svg("rect", { ...image, fill: "none", stroke: EDGE }),
      svg("image", { ...image, href: canvas.toDataURL(), "image-rendering": "pixelated" }),
      svg("g", { fill: MUTED }, labels(shown, place)),
    );
    return sheet(shown.title, [[shown.name, inner]]);
  }

  function cellAt({ clientX, clientY }) {
    if (!shown) return null;
    const box = canvas.getBoundingClientRect();
    const { rows, columns } = shown.map;
    const row = Math.floor(((clientY - box.top) / box.height) * rows);
    const column = Math.floor(((clientX - box.left) / box.width) * columns);
    const inside = row >= 0 && row < rows && column >= 0 && column < columns;
    return inside ? { row, column } : null;
  }

  function ask(event) {
    const found = cellAt(event);
    if (!found) return;
    hint(event.clientX, event.clientY, say(shown.map, found.row, found.column));
    if (event.pointerType !== "touch") pass(found.row);
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

/** How large the map is within a width, and what room the words left of it and above it take. */
function shape({ asked, read, map }, width) {
  const beside = roomOf(asked);
  const most = Math.max(map.rows, map.columns);
  const step = (room) => Math.min(CELL, Math.min(LARGEST, width - room) / most);
  const fits = step(beside) >= LINE;
  const left = fits ? beside : 0;
  const side = (count) => Math.max(Math.min(LEAST, CELL * count), step(left) * count);
  const [wide, high] = [side(map.columns), side(map.rows)].map((value) => Math.floor(value));
  return { left, top: wide / map.columns >= LINE && fits ? roomOf(read ?? asked) : 0, wide, high };
}

function roomOf(tokens) {
  const longest = Math.max(1, ...tokens.map((token) => [...visible(token)].length));
  return Math.ceil(Math.min(LONGEST, longest) * LETTER) + 8;
}

/** Words left of the rows and, on end, above the columns. */
function labels({ asked, read }, { left, top, wide, high }) {
  const named = (token) => shortened(visible(token), LONGEST);
  const common = { "font-size": 11, class: "tick" };
  const rows = left ? asked : [];
  const columns = top ? (read ?? asked) : [];
  return [
    ...rows.map((token, i) => {
      const y = top + ((i + 0.5) * high) / rows.length + 4;
      return svg("text", { ...common, x: left - 6, y, "text-anchor": "end" }, named(token));
    }),
    ...columns.map((token, i) => {
      const x = left + ((i + 0.5) * wide) / columns.length + 4;
      const transform = `translate(${x} ${top - 6}) rotate(-90)`;
      return svg("text", { ...common, transform }, named(token));
    }),
  ];
}

/** How many words, along either side, share a pixel of the map. */
function together(n, m) {
  return Math.ceil((FINEST * Math.max(n, m)) / LARGEST);
}

/** The greatest level of the cells that share a pixel: a thin line stays a line. */
function pooled({ rows, columns, levels }, { width, height }) {
  const shared = together(rows, columns);
  if (shared === 1) return levels;
  const found = new Uint8Array(width * height);
  for (let i = 0; i < rows; i += 1) {
    const start = Math.floor(i / shared) * width;
    for (let j = 0; j < columns; j += 1) {
      const pixel = start + Math.floor(j / shared);
      const level = levels[i * columns + j];
      if (level > found[pixel]) found[pixel] = level;
    }
  }
  return found;
}
