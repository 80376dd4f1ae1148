/** Drawing: elements of SVG, scales from values to pixels, round ticks, paths with gaps. */

import { furnish } from "regard/html";

export const SPACE = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS(SPACE, tag), attributes, children);
}

/** From values in low … high to pixels in start … end; one value alone lies in the middle. */
export function scale([low, high], [start, end]) {
  if (low === high) return () => (start + end) / 2;
  return (value) => start + ((value - low) / (high - low)) * (end - start);
}

/** Round values in low … high, about `count` of them, a step of 1, 2 or 5 apart. */
export function ticks(low, high, count = 5, whole = false) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = power * ([1, 2, 5].find((factor) => factor * power >= raw * 0.999) ?? 10);
  if (whole) step = Math.max(1, Math.round(step));
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => tidy((first + i) * step));
}

/** Round ticks that low … high lies between: the first is not above it, the last not below. */
export function around(low, high, count = 5) {
  if (low === high) {
    const air = Math.abs(low) * 0.1 || 1;
    return around(low - air, high + air, count);
  }
  const [first, second] = ticks(low, high, count);
  const step = second === undefined ? high - low : second - first;
  const start = Math.floor(low / step + 1e-9);
  const end = Math.ceil(high / step - 1e-9);
  return Array.from({ length: end - start + 1 }, (_, i) => tidy((start + i) * step));
}

/** Points split where a value is missing: nothing is drawn across a gap. */
export function segments(points) {
  const found = [[]];
  for (const [x, y] of points) {
    if (Number.isFinite(y)) found.at(-1).push([x, y]);
    else found.push([]);
  }
  return found.filter((segment) => segment.length);
}

export function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${near(x)} ${near(y)}`).join("");
}

/** Words that fit into so many letters. */
export function shortened(words, most) {
  const letters = [...String(words)];
  return letters.length <= most ? letters.join("") : `${letters.slice(0, most - 1).join("")}…`;
}

/** Call `draw(width)` now and whenever the element's width changes. */
export function fit(element, draw) {
  let last = 0;
  const redraw = () => {
    const width = Math.floor(element.clientWidth);
    if (width && width !== last) draw((last = width));
  };
  new ResizeObserver(redraw).observe(element);
  redraw();
}

const near = (value) => Math.round(value * 100) / 100;
const tidy = (value) => Number(value.toPrecision(12));
