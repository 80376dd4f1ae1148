/** Maps of numbers: which numbers, in what colours, and how one moves in them. */

import { markOf } from "studio/ideas/more";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function mapOf(answer, show) {
  const { weights, scores, allowed, row, more } = answer;
  const values = show === "scores" ? scores : weights;
  const known = values.flat().filter((value) => value !== null);
  const greatest = known.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return {
    values,
    allowed,
    chosen: row,
    most: show === "scores" ? greatest || 1 : 1,
    words: show === "scores" ? (value) => brief(value, 1) : (value) => brief(value, 2),
    down: "query",
    across: "key",
    marks: more && weights.map((_, i) => markOf(answer, i)),
  };
}

export function slopesOf({ jacobian, allowed, row }) {
  const may = allowed[row];
  const most = jacobian.flat().reduce((top, value) => Math.max(top, Math.abs(value)), 0);
  return {
    values: jacobian,
    allowed: jacobian.map((_, i) => jacobian.map((_, j) => may[i] && may[j])),
    chosen: null,
    most: Math.max(most, 1e-3), // slopes that are all but nothing look like it
    words: (value) => brief(value, 2),
    down: "weight",
    across: "score",
    marks: null,
  };
}

/** Short enough for a cell: .41, −.2, 1, and 0 for what is nothing. */
function brief(value, digits) {
  if (value === null) return "";
  if (value === 0) return "0";
  const words = value.toFixed(digits);
  return words.replace(/^(-?)0\./, "$1.").replace("-", "−").replace(/^1\.0+$/, "1");
}

/**
 * A map that the pointer and the arrow keys move in.
 *
 * `say(i, j)` are the words of a cell; `choose(i)` hears of a row that was chosen.
 */
export function heat(tools, { label, say, choose }) {
  const { html, fit, hint, unhint } = tools;
  let map = null;
  let cursor = null;
  let width = 0;
  const area = html("div", { class: "area" });
  const keys = choose ? "arrow keys move, and choose a row" : "arrow keys move from cell to cell";
  const element = html(
    "div",
    {
      class: choose ? "heat rows" : "heat",
      tabindex: 0,
      role: "application",
      "aria-label": `${label}; ${keys}`,
      on: { pointermove, pointerdown, pointerleave, keydown, blur: leave },
    },
    area,
  );
  fit(area, (now) => {
    width = now;
    draw();
  });
  return { element, show };

  function show(next) {
    map = next;
    const [n, m] = [map.values.length, map.values[0].length];
    if (cursor && (cursor[0] >= n || cursor[1] >= m)) leave();
    draw();
  }

  function draw() {
    if (!map || !width) return;
    area.replaceChildren(drawMap(map, width, SEEN, tools));
    aim();
  }

  function aim() {
    area.querySelector(".cursor")?.remove();
    if (!cursor) return;
    const { left, top, cell } = measure(map, width);
    const [x, y] = [left + cursor[1] * cell, top + cursor[0] * cell];
    const box = { class: "cursor", x, y, width: cell - 1, height: cell - 1 };
    area.querySelector("svg").append(tools.svg("rect", box));
  }

  function leave() {
    cursor = null;
    aim();
    unhint();
  }

  function cellAt({ clientX, clientY }) {
    const { left, top, cell } = measure(map, width);
    const box = area.getBoundingClientRect();
    const i = Math.floor((clientY - box.top - top) / cell);
    const j = Math.floor((clientX - box.left - left) / cell);
    const inside = i >= 0 && i < map.values.length && j >= 0 && j < map.values[0].length;
    return inside ? [i, j] : null;
  }

  function pointermove(event) {
    if (!map) return;
    const here = cellAt(event);
    if (!here) return leave();
    cursor = here;
    aim();
    hint(event.clientX, event.clientY, say(...cursor));
  }

  function pointerdown(event) {
    pointermove(event);
    if (cursor) choose?.(cursor[0]);
  }

  function pointerleave({ pointerType }) {
    if (pointerType === "mouse") leave();
  }

  function keydown(event) {
    if (event.key === "Escape") return leave();
    const step = STEPS[event.key];
    if (!step || !map) return;
    event.preventDefault();
    const sizes = [map.values.length, map.values[0].length];
    const start = [map.chosen ?? 0, 0];
    const bound = (at, axis) => Math.min(sizes[axis] - 1, Math.max(0, at));
    cursor = (cursor ?? start).map((at, axis) => bound(at + step[axis], axis));
    aim();
    choose?.(cursor[0]);
    const box = area.querySelector(".cursor").getBoundingClientRect();
    hint(box.right, box.top, say(...cursor));
  }
}

/** Colours by the page's own names, so that they follow the theme. */
const SEEN = {
  ink: "var(--ink)",
  muted: "var(--muted)",
  paper: null,
  line: "var(--edge)",
  accent: "var(--wrong)",
  fill: (part, against) =>
    `color-mix(in oklab, var(--${against ? "wrong" : "right"}) ${Math.round(6 + 94 * part)}%, ` +
    `var(--${against ? "wrong" : "right"}-ground))`,
  on: (part) =>
    part > 0.75
      ? "var(--on-full)"
      : part > 0.5
        ? "light-dark(#1b1f24, #14181d)"
        : "var(--ink)",
};

/** The light ones as they are, for a file that stands alone. */
export const PRINTED = {
  ink: "#1b1f24",
  muted: "#5b6470",
  paper: "#ffffff",
  line: "#c3ccd6",
  accent: "#b3500b",
  fill: (part, against) =>
    against ? between("#fdf0e4", "#b3500b", part) : between("#eaf1f9", "#1f5fa8", part),
  on: (part) => (part > 0.6 ? "#ffffff" : "#1b1f24"),
};

function between(from, to, part) {
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [a, b] = [from, to].map(parts);
  const mixed = a.map((value, i) => Math.round(value + part * (b[i] - value)));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function measure({ values, marks }, width, titled = false) {
  const [n, m] = [values.length, values[0].length];
  const [left, right, top] = [58, marks ? 68 : 3, titled ? 62 : 34];
  const cell = Math.max(18, Math.min(48, Math.floor((width - left - right) / m)));
  return { n, m, left, top, cell, width: left + m * cell + right, height: top + n * cell + 2 };
}

/** The map as a drawing that needs no stylesheet. */
export function drawMap(map, room, look, { svg }, title = "") {
  const { values, allowed, chosen, most, words, marks } = map;
  const { n, m, left, top, cell, width: drawn, height } = measure(map, room, Boolean(title));
  const width = title ? Math.max(drawn, 16 + 7.2 * title.length) : drawn;
  const small = cell < 30;
  const usual = { fill: look.muted, anchor: "middle", weight: 400, size: 12 };
  const text = (x, y, said, special = {}) => {
    const { fill, anchor, weight, size } = { ...usual, ...special };
    const font = `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
    return svg("text", { x, y, style: { fill, "text-anchor": anchor, font } }, said);
  };
  const middle = (i) => (i + 0.5) * cell;
  const cells = values.flatMap((row, i) =>
    row.map((value, j) => {
      const [x, y] = [left + j * cell, top + i * cell];
      const mark = marks?.[i] ?? "";
      if (!allowed[i][j]) {
        const dot = { cx: x + middle(0), cy: y + middle(0), r: 1.5, style: { fill: look.line } };
        return svg("circle", { class: "shut", "data-mark": mark, ...dot });
      }
      const part = value === null ? 0 : Math.min(1, Math.abs(value) / most);
      const box = { x, y, width: cell - 1, height: cell - 1, rx: 2 };
      return svg(
        "g",
        { class: "open", "data-mark": mark },
        svg("rect", {
          ...box,
          style: { fill: look.fill(part, value < 0), opacity: mark === "kept" ? "0.4" : "1" },
        }),
        text(x + cell / 2 - 0.5, y + cell / 2 + 3.5, words(value), {
          fill: mark === "kept" ? look.ink : look.on(part),
          size: small ? 9 : 11,
        }),
      );
    }),
  );
  const accents = { new: look.accent, changed: look.accent, kept: look.muted };
  const besides = marks?.map((mark, i) =>
    text(left + m * cell + 6, top + middle(i) + 4, mark, {
      fill: accents[mark],
      anchor: "start",
      weight: mark === "kept" ? 400 : 600,
    }),
  );
  const outlined = (i, colour, stroke, dash) =>
    svg("rect", {
      x: left - 2,
      y: top + i * cell - 2,
      width: m * cell + 3,
      height: cell + 3,
      rx: 4,
      style: { fill: "none", stroke: colour, "stroke-width": stroke, "stroke-dasharray": dash },
    });
  return svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    look.paper && svg("rect", { width, height, style: { fill: look.paper } }),
    title && text(8, 20, title, { fill: look.ink, anchor: "start", weight: 600, size: 13 }),
    text(left, top - 21, `${map.across} →`, { anchor: "start", size: 11 }),
    text(left - 8, top - 7, `${map.down} ↓`, { anchor: "end", size: 11 }),
    values[0].map((_, j) => text(left + middle(j), top - 7, j + 1)),
    values.map((_, i) =>
      text(left - 8, top + middle(i) + 4, i + 1, {
        anchor: "end",
        fill: i === chosen ? look.ink : look.muted,
        weight: i === chosen ? 700 : 400,
      }),
    ),
    cells,
    besides,
    marks?.map((mark, i) => mark === "new" && outlined(i, look.accent, 2, "none")),
    marks?.map((mark, i) => mark === "changed" && outlined(i, look.accent, 1.5, "3 3")),
    chosen !== null && marks?.[chosen] !== "new" && outlined(chosen, look.ink, 1.5, "none"),
  );
}
