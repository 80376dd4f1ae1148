/**
 * The heads of a model on one text: small maps to choose from, what each does in words, and all
 * their numbers as a table.
 */

import { html } from "regard/html";
import { paint } from "regard/headmaps";
import { render as renderTable } from "regard/views/table";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const TILE = 32; // pixels along a small map, and fewer than twice as many
const [MOSTLY, OFTEN, EVENLY] = [0.5, 0.25, 0.9]; // shares from which a head is said to do a thing
const HABITS = {
  previous: "the previous token",
  first: "the first token",
  itself: "the token itself",
  induction: "what followed the same token before",
};
const COLUMNS = {
  entropy: ["entropy, bits", 1],
  even: ["of possible, %", 100],
  distance: ["distance", 1],
  previous: ["previous, %", 100],
  first: ["first, %", 100],
  itself: ["itself, %", 100],
  induction: ["induction, %", 100],
};

/**
 * Small maps in rows of layers, the mean of all beneath; `choose(head)` is called with a number,
 * `near(head)` when the mouse is over one. `show(head, gentle)` marks the one chosen, and `tell()`
 * says what the heads do once the summaries have come, or have not.
 */
export function headGrid(item, names, maps, summaries, { choose, near, format }) {
  const { rows, columns, first } = gridOf(item, names.length);
  const lines = rows + first; // of cells
  const tile = tileOf(maps.small(0));
  let [at, said] = [0, 0]; // the head chosen, and the one that the words are about
  let gentle = null; // as the small maps are painted now
  const cells = names.map(cell);
  const [width, height] = [columns * tile.across.whole, lines * tile.down.whole];
  const canvas = html("canvas", { class: "maps", width, height, "aria-hidden": "true" });
  const says = html("p", { class: "does" });
  const heading = (words, name) => html("span", { class: name, "aria-hidden": "true" }, words);
  const grid = html(
    "div",
    {
      class: "grid",
      role: "radiogroup",
      "aria-label": "Heads; arrow keys move between layers and heads",
      style: { "--columns": columns, "--lines": lines, ...tile.style },
      on: { keydown, pointerleave: () => say(at) },
    },
    heading("", "row"),
    Array.from({ length: columns }, (_, i) => heading(i + 1, "column")),
    Array.from({ length: rows }, (_, row) => [
      heading(row + 1, "row"),
      cells.slice(first + row * columns, first + (row + 1) * columns),
    ]),
    first > 0 && [heading("mean", "row"), cells[0]],
    canvas,
  );
  const several = names.length > 1 && maps.small(0) !== null;
  const element = html(
    "div",
    { class: "heads" },
    several && [html("h4", {}, "Layers ↓ and heads →"), grid],
    names.length > 0 && says,
  );
  return { element, show, tell };

  function show(head, now) {
    cells[at].setAttribute("aria-checked", "false");
    cells[at].tabIndex = -1;
    const moved = grid.contains(document.activeElement);
    at = head;
    cells[at].setAttribute("aria-checked", "true");
    cells[at].tabIndex = 0;
    if (moved) cells[at].focus();
    say(at);
    if (several && gentle !== now) draw(now);
    gentle = now;
  }

  function tell() {
    cells.forEach((one, head) => one.setAttribute("aria-label", labelOf(head)));
    say(said);
  }

  function labelOf(head) {
    const does = doing(summaries.of(head));
    return does ? `${names[head]}: ${does}` : names[head];
  }

  function cell(name, head) {
    return html("button", {
      type: "button",
      role: "radio",
      class: "cell",
      "aria-checked": "false",
      "aria-label": labelOf(head),
      tabindex: -1,
      on: { click: () => choose(head), pointerenter },
    });
    function pointerenter() {
      near(head);
      say(head);
    }
  }

  /** Paint all small maps, each in the tile that lies over its cell. */
  function draw(now) {
    const levels = new Uint8Array(width * height);
    names.forEach((_, head) => {
      const place = head < first ? rows * columns : head - first;
      const left = (place % columns) * tile.across.whole;
      const top = Math.floor(place / columns) * tile.down.whole;
      lay(levels, width, maps.small(head), tile, left, top);
    });
    paint(canvas, levels, now);
  }

  function say(head) {
    said = head;
    says.replaceChildren(...sentence(names[head], head, summaries, format));
  }

  function keydown(event) {
    const [down, right] = STEPS[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    const to = moved(down, right);
    if (to !== null) choose(to);
  }

  /** The head a step away, or null at the edge. Below the last layer lies the mean. */
  function moved(down, right) {
    if (at < first) return down < 0 ? first + (rows - 1) * columns : null;
    const row = Math.floor((at - first) / columns) + down;
    const column = ((at - first) % columns) + right;
    if (row === rows) return first > 0 ? 0 : null;
    if (row < 0 || column < 0 || column >= columns) return null;
    return first + row * columns + column;
  }
}

/** Rows and columns of small maps, and how many maps come before them. */
function gridOf({ grid }, count) {
  const [rows, columns] = grid ?? [1, count];
  const first = count - rows * columns;
  if (first === 0 || first === 1) return { rows, columns, first };
  return { rows: 1, columns: count, first: 0 };
}

/**
 * What a small map takes of the canvas: its pixels and an edge about them, which is as large a part
 * of the tile as on the page. A map of few words has several pixels to a word: edges can be thin.
 */
function tileOf(small) {
  const { width, height } = small ?? { width: 1, height: 1 };
  const [across, down] = [sideOf(width), sideOf(height)];
  const edges = [down, across].map(({ edge, whole }) => `${((100 * edge) / whole).toFixed(3)}%`);
  // Neither a needle nor a sliver.
  const shape = Math.min(2, Math.max(0.5, width / height)).toFixed(3);
  return { across, down, style: { "--shape": shape, "--edges": edges.join(" ") } };
}

/** How many pixels a word has along one side, how many the edge, and how many that is. */
function sideOf(words) {
  const times = Math.ceil(TILE / words);
  const edge = Math.round((words * times) / 16);
  return { times, edge, whole: words * times + 2 * edge };
}

/** Put a small map into its tile among others; `wide` is how many pixels all of them are. */
function lay(levels, wide, small, { across, down }, left, top) {
  for (let y = 0; y < small.height * down.times; y += 1) {
    const from = Math.floor(y / down.times) * small.width;
    const to = (top + down.edge + y) * wide + left + across.edge;
    for (let x = 0; x < small.width * across.times; x += 1) {
      levels[to + x] = small.levels[from + Math.floor(x / across.times)];
    }
  }
}

/** A head's name and what it does, with the numbers that do not go by a habit. */
function sentence(name, head, summaries, format) {
  const summary = summaries.of(head);
  if (!summary && summaries.expected) return [html("strong", {}, name), missing(summaries)];
  const does = doing(summary);
  const facts = summary && [
    summary.entropy !== null &&
      `${format.number(round(summary.entropy))} bits, ${percent(summary.even)} of what is possible`,
    summary.distance !== null &&
      `${format.plural(round(summary.distance), "place")} away on average`,
  ];
  return [
    html("strong", {}, name),
    does && `: ${does}`,
    facts && html("small", {}, facts.filter(Boolean).join("; ")),
  ].filter(Boolean);
}

/** In place of numbers that are on their way, or why they are not. */
function missing({ trouble }) {
  return html("small", { class: trouble ? "trouble" : null }, trouble || "being measured …");
}

/** What a head does, in words: “mostly the previous token (87%)”. */
function doing(summary) {
  if (!summary || summary.entropy === null) return "";
  if (summary.even >= EVENLY) return `nearly even over all it may read (${percent(summary.even)})`;
  const [habit, share] = Object.keys(HABITS)
    .map((name) => [name, summary[name] ?? 0])
    .reduce((best, other) => (other[1] > best[1] ? other : best));
  if (share >= MOSTLY) return `mostly ${HABITS[habit]} (${percent(share)})`;
  if (share >= OFTEN) return `often ${HABITS[habit]} (${percent(share)})`;
  return summary.previous === null ? "" : "no single habit";
}

/**
 * All numbers, folded away until they are asked for; a row that is clicked chooses its head.
 *
 * `tell()` fills the table that is open once the summaries have come, or have not; `ask()` is
 * called when it is opened, for those that have not.
 */
export function headTable(names, summaries, { choose, ask, tools }) {
  const place = html("div", { class: "table", on: { click } });
  const fold = html(
    "details",
    { class: "all-heads", on: { toggle } },
    html("summary", {}, "All heads in numbers"),
    html(
      "p",
      { class: "note" },
      "Means over the words that have a choice. Induction is the share of what followed earlier ",
      "occurrences of the same token. A heading sorts; a row shows its head.",
    ),
    place,
  );
  let filled = false;
  const any = names.length > 1 && (summaries.all ? known().length > 0 : summaries.expected);
  return { element: any ? fold : null, tell };

  /** The columns that have numbers: of two texts, some have none. */
  function known() {
    const has = (key) => summaries.all.some((summary) => summary[key] !== null);
    return Object.keys(COLUMNS).filter(has);
  }

  function toggle() {
    tell();
    if (fold.open) ask();
  }

  function tell() {
    if (!fold.open || filled) return;
    if (!summaries.all) return place.replaceChildren(missing(summaries));
    filled = true;
    place.replaceChildren();
    const keys = known();
    const columns = ["head", ...keys.map((key) => COLUMNS[key][0])];
    const rows = names.map((name, i) => [name, ...keys.map((key) => value(key, i))]);
    renderTable(place, { columns, rows }, tools);
  }

  function value(key, head) {
    const number = summaries.of(head)[key];
    return number === null ? null : Math.round(number * COLUMNS[key][1] * 100) / 100;
  }

  function click({ target }) {
    const head = names.indexOf(target.closest("tbody tr")?.firstChild.textContent);
    if (head >= 0) choose(head);
  }
}

const percent = (share) => `${Math.round(100 * share)}%`;
const round = (value) => Math.round(10 * value) / 10;
