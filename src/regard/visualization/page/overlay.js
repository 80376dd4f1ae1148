/**
 * An image with a map over it, as one drawing that carries its own colours and can be saved.
 *
 * What is drawn is {item, map, rows, columns, top, paint, opacity, name, signed}: the image's item,
 * the shares of its patches in rows (or null), the share that gets the last colour, the key of the
 * colours, and the map's name in words. A signed map has points of probability in place of shares,
 * which go from −top to top in colours of their own; what is below 0 has a stroke through it too.
 */

import { picture } from "regard/html";
import { shortened, svg } from "regard/svg";
import { MAPS, SIGNED } from "regard/colour";
import { percent, points } from "regard/format";

const LARGE = 560; // units along the longer side
const FAINT = 0.02; // of the greatest: what is nearer to 0 is neither for nor against
const [INK, MUTED, WHITE] = ["#1b1f24", "#5b6470", "#ffffff"];
let filters = 0; // so far on the page: each needs a name of its own

export function overlay(shown) {
  const { item, map, columns, top, paint, opacity } = shown;
  const [width, height] = sizeOf(item);
  const { keeps, paint: colours } = coloursOf(shown);
  const places = Array.from(map ?? [], (_, i) =>
    placeOf(shown, Math.floor(i / columns), i % columns),
  );
  const patches = places.map(([x, y, w, h], i) => {
    const { colour, alpha } = colours(top ? map[i] / top : 0);
    return svg("rect", { x, y, width: w, height: h, fill: colour, "fill-opacity": alpha });
  });
  const strokes = places.filter((_, i) => shown.signed && map[i] < -FAINT * top).map(stroke);
  return svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}` },
    photograph(item, keeps || !map ? 1 : 1 - opacity),
    svg("g", { class: "map", opacity, "shape-rendering": "crispEdges" }, patches),
    strokes.length > 0 && svg("g", { class: "against" }, strokes),
  );
}

/** The colours of a map: those that were chosen, or those of signed numbers. */
export function coloursOf({ paint, signed }) {
  return signed ? SIGNED : MAPS[paint];
}

/** The ends of a map's scale in words. */
export function endsOf({ top, signed }) {
  return signed ? [points(-top), `${points(top)} points`] : ["0", percent(top)];
}

/** A stroke through a patch that is below 0, for those who see no colours. */
function stroke([x, y, w, h]) {
  const [middle, half] = [x + w / 2, Math.min(w * 0.3, 14)];
  const line = { x1: middle - half, x2: middle + half, y1: y + h / 2, y2: y + h / 2 };
  return [
    svg("line", { ...line, stroke: INK, "stroke-width": 7, "stroke-linecap": "round" }),
    svg("line", { ...line, stroke: WHITE, "stroke-width": 3, "stroke-linecap": "round" }),
  ];
}

/** The same on white, with title and scale beneath: a figure for a paper or a slide. */
export function keepsake(shown) {
  const { item, map, name } = shown;
  const [low, high] = endsOf(shown);
  const [width, height] = sizeOf(item);
  const page = { width: Math.max(width, 320) + 24, height: height + (item.title ? 84 : 60) };
  const line = page.height - 18;
  const end = page.width - 12;
  const inner = overlay(shown);
  inner.setAttribute("x", 12);
  inner.setAttribute("y", 12);
  const text = (words, x, attributes) =>
    svg("text", { x, y: line, fill: MUTED, "font-size": 14, ...attributes }, words);
  const bold = { y: height + 36, fill: INK, "font-size": 16, "font-weight": 600 };
  const bar = { x: end - 104 - 8 * high.length, y: line - 10 };
  return svg(
    "svg",
    {
      ...page,
      viewBox: `0 0 ${page.width} ${page.height}`,
      "font-family": "system-ui, sans-serif",
    },
    svg("rect", { ...page, fill: WHITE }),
    inner,
    item.title && text(shortened(item.title, Math.floor(page.width / 10)), 12, bold),
    map && [
      text(name, 12),
      text(low, bar.x - 8, { "text-anchor": "end" }),
      strip(shown, bar),
      text(high, end, { "text-anchor": "end" }),
    ],
  );
}

/** The colours of a map from the least to the greatest, as a small bar. */
export function strip(shown, attributes = {}) {
  const cells = Array.from({ length: 32 }, (_, i) => {
    const part = (i + 0.5) / 32;
    const { colour, alpha } = coloursOf(shown).paint(shown.signed ? 2 * part - 1 : part);
    return svg("rect", { x: i * 3, width: 3, height: 10, fill: colour, "fill-opacity": alpha });
  });
  return svg(
    "svg",
    { class: "strip", width: 96, height: 10, viewBox: "0 0 96 10", ...attributes },
    svg("rect", { width: 96, height: 10, fill: WHITE }), // what a shade is a shade over
    svg("g", { "shape-rendering": "crispEdges" }, cells),
  );
}

/** x, y, width and height of a patch in the drawing. */
export function placeOf({ item, rows, columns }, row, column) {
  const [width, height] = sizeOf(item);
  const [w, h] = [width / columns, height / rows];
  return [column * w, row * h, w, h].map((value) => Math.round(value * 100) / 100);
}

/** The image. Under a map of colours it is paler, or its own would be taken for the map's. */
function photograph(item, vivid) {
  const [width, height] = sizeOf(item);
  const href = picture(item.image);
  if (!href) return svg("rect", { width, height, fill: "#d5dbe2" });
  const coarse = Math.max(item.width, item.height) * 4 <= LARGE; // so few pixels are shown as such
  const image = svg("image", { href, width, height, preserveAspectRatio: "none" });
  if (coarse) image.setAttribute("image-rendering", "pixelated");
  if (vivid >= 1) return image;
  const id = `paler-${(filters += 1)}`;
  image.setAttribute("filter", `url(#${id})`);
  return [
    svg(
      "filter",
      { id, "color-interpolation-filters": "sRGB", x: 0, y: 0, width: 1, height: 1 },
      svg("feColorMatrix", { type: "saturate", values: vivid.toFixed(2) }),
    ),
    image,
  ];
}

function sizeOf({ width = 1, height = 1 }) {
  const factor = LARGE / Math.max(width, height, 1);
  return [width, height].map((side) => Math.max(1, Math.round(side * factor)));
}
