/**
 * What is drawn on the page, as a figure that stands alone: light, on white, its styles inside.
 *
 * The page's drawings have their colours from its stylesheet, in a theme that somebody chose. Here
 * they are copied with what the stylesheet makes of them in the light.
 */

import { picture } from "regard/html";
import { shortened, svg } from "regard/svg";

const [INK, MUTED] = ["#1b1f24", "#5b6470"];
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const EDGE = 12; // around a figure
const COLOURS = ["fill", "stroke"];
/** What a drawing may have from a stylesheet, with what it is without. */
const PLAIN = {
  "fill-opacity": "1",
  "stroke-width": "1px",
  "stroke-dasharray": "none",
  "stroke-linecap": "butt",
  "stroke-linejoin": "miter",
  opacity: "1",
  "text-anchor": "start",
  "font-size": "16px",
  "font-weight": "400",
  "paint-order": "normal",
};
/** What belongs to the pointer, not to the figure. */
const PASSING = ".cross, .cursor, .pointed, .reach, [visibility='hidden']";

/** A drawing of the page with its styles written into it. */
export function printed(drawing) {
  const copy = drawing.cloneNode(true);
  const pairs = [[drawing, copy]];
  const [from, to] = [drawing, copy].map((one) => [...one.querySelectorAll("*")]);
  from.forEach((one, i) => pairs.push([one, to[i]]));
  inLight(() => {
    for (const [one, twin] of pairs) inscribe(getComputedStyle(one), twin);
  });
  for (const one of copy.querySelectorAll(PASSING)) one.remove();
  copy.removeAttribute("aria-label");
  copy.removeAttribute("role");
  return copy;
}

function inscribe(style, twin) {
  for (const name of ["class", "style", "tabindex", "aria-hidden"]) twin.removeAttribute(name);
  for (const name of COLOURS) {
    const colour = plainColour(style.getPropertyValue(name));
    if (colour !== (name === "fill" ? "#000000" : "none")) twin.setAttribute(name, colour);
  }
  for (const [name, usual] of Object.entries(PLAIN)) {
    const value = style.getPropertyValue(name);
    if (value && value !== usual) twin.setAttribute(name, value);
  }
}

/**
 * Figures under one another on white, each under its heading, with a key to their colours.
 *
 * `parts` are [heading, drawing]; a key is {words, colour, kind}, as `keysOf` finds them.
 */
export function sheet(title, parts, keys = []) {
  const wide = Math.max(320, ...parts.map(([, one]) => Number(one.getAttribute("width"))));
  const made = [];
  let y = EDGE;
  const line = (words, size, weight, fill = INK) => {
    y += size + 4;
    const fits = shortened(words, Math.floor(wide / (size * 0.56)));
    made.push(svg("text", { x: EDGE, y, "font-size": size, "font-weight": weight, fill }, fits));
    y += 6;
  };
  if (title) line(title, 16, 600);
  if (keys.length) {
    const [rows, height] = keyRows(keys, wide, y);
    made.push(...rows);
    y += height;
  }
  for (const [heading, drawing] of parts) {
    if (heading) line(heading, 13, 600);
    const one = drawing.cloneNode(true);
    one.setAttribute("x", EDGE);
    one.setAttribute("y", y);
    made.push(one);
    y += Number(one.getAttribute("height")) + 8;
  }
  const page = { width: wide + 2 * EDGE, height: Math.ceil(y + EDGE - 8) };
  return svg(
    "svg",
    { ...page, viewBox: `0 0 ${page.width} ${page.height}`, "font-family": FONT },
    svg("rect", { ...page, fill: "#ffffff" }),
    made,
  );
}

/** The keys in as many rows as they take, from y on, and how high that is. */
function keyRows(keys, wide, from) {
  let [x, y] = [EDGE, from + 14];
  const rows = keys.map(({ words, colour, kind }) => {
    const long = 30 + 6.8 * [...words].length;
    if (x > EDGE && x + long > wide) [x, y] = [EDGE, y + 20];
    const group = svg(
      "g",
      { transform: `translate(${Math.round(x)} ${Math.round(y)})` },
      keyMark(kind, colour),
      svg("text", { x: 28, y: 4, "font-size": 12, fill: MUTED }, words),
    );
    x += long + 12;
    return group;
  });
  return [rows, y - from + 14];
}

function keyMark(kind, colour) {
  if (kind === "dot") return svg("circle", { cx: 11, r: 3.5, fill: colour });
  if (kind === "diamond") return svg("path", { d: "M11 -5l5 5-5 5-5-5Z", fill: colour });
  if (kind === "area") return svg("rect", { x: 2, y: -6, width: 18, height: 12, fill: colour });
  const dashed = kind === "train" ? { "stroke-dasharray": "5 4", "stroke-width": 1.5 } : {};
  return svg("line", { x2: 22, stroke: colour, "stroke-width": 2, ...dashed });
}

/** The keys of a legend, those of hidden series left out. */
export function keysOf(legend) {
  return inLight(() =>
    [...legend.querySelectorAll(".key:not([aria-pressed='false'])")].map((key) => {
      const swatch = key.querySelector(".swatch");
      const kind = ["train", "dot", "diamond"].find((one) => swatch?.classList.contains(one));
      return { words: key.textContent, kind, colour: plainColour(getComputedStyle(swatch).color) };
    }),
  );
}

/**
 * Text of the page as a drawing: its words where they stand, on the colours behind them.
 *
 * `words` are the elements that have colours; each keeps its own line, as the page wrapped it.
 */
export function written(element, words) {
  const box = element.getBoundingClientRect();
  const found = inLight(() =>
    [...element.querySelectorAll(words)].flatMap((one) => drawnWord(one, box)),
  );
  const size = { width: Math.ceil(box.width), height: Math.ceil(box.height) };
  return svg("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}` }, found);
}

function drawnWord(one, box) {
  const style = getComputedStyle(one);
  const [rect] = one.getClientRects();
  if (!rect) return [];
  const [x, y] = [rect.left - box.left, rect.top - box.top].map((at) => Math.round(at * 100) / 100);
  const [width, height] = [rect.width, rect.height].map((side) => Math.round(side * 100) / 100);
  const line = plainColour(style.textDecorationColor);
  const dots = style.textDecorationStyle === "dotted" ? { "stroke-dasharray": "2 2" } : {};
  const under = { x1: x, x2: x + width, y1: y + height - 2, y2: y + height - 2 };
  return [
    svg("rect", { x, y, width, height, rx: 3, fill: plainColour(style.backgroundColor) }),
    style.textDecorationLine === "underline" &&
      svg("line", { ...under, stroke: line, "stroke-width": 2, ...dots }),
    svg(
      "text",
      {
        x,
        y: y + height * 0.72,
        fill: plainColour(style.color),
        "font-size": style.fontSize,
        "font-weight": style.fontWeight,
        textLength: width,
        lengthAdjust: "spacingAndGlyphs",
      },
      one.textContent,
    ),
  ];
}

/** A picture made of pixels, as a drawing that holds it. */
export function framed({ src, naturalWidth: width, naturalHeight: height }) {
  const size = { width, height };
  return svg(
    "svg",
    { ...size, viewBox: `0 0 ${width} ${height}` },
    svg("image", { href: picture(src), ...size }),
  );
}

/** What `read` finds while the page is shown in the light. Nobody sees it change. */
function inLight(read) {
  const { style } = document.documentElement;
  const before = style.getPropertyValue("color-scheme");
  style.setProperty("color-scheme", "light");
  try {
    return read();
  } finally {
    style.setProperty("color-scheme", before);
  }
}

const known = new Map();

/** A colour that every program can read, of those that a browser mixes: #rrggbb, or rgba. */
export function plainColour(colour) {
  if (colour === "none" || colour.startsWith("url(")) return colour;
  if (!known.has(colour)) {
    const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    const context = pen.getContext("2d", { willReadFrequently: true });
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    const hex = [r, g, b].map((value) => value.toString(16).padStart(2, "0")).join("");
    const sheer = a ? `rgba(${r}, ${g}, ${b}, ${near(a / 255)})` : "none";
    known.set(colour, a === 255 ? `#${hex}` : sheer);
  }
  return known.get(colour);
}

const near = (share) => Math.round(share * 1000) / 1000;
