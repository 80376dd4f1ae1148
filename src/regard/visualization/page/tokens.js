/** Words of a text: as they stand in it, as they are named, and as a line to walk along by keys. */

import { html } from "regard/html";

const SIGNS = /\r\n|[\0-\x1f]/g;

/**
 * A word as it stands in the text; line ends and tabs have a quiet sign beside them.
 *
 * The space before a word stays outside, where it can end a line; alone it is a word.
 */
export function tokenOf(token, attributes = {}) {
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
export function spaced(tokens, spans) {
  return spans.map((span, i) => [tokens[i].trim() ? /^ */.exec(tokens[i])[0] : "", span]);
}

/** A word where it is named: without the space before it, unless it is nothing else. */
export function visible(token) {
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

/**
 * A line of words of which at most one is chosen: by click, tap or arrow keys.
 *
 * `choose(place)` is called with the word, or null at Escape; `pass(place)` with the word that the
 * mouse is over, or null when it has left; `chosen()` is asked which one is.
 */
export function walk(tokens, spans, { choose, pass, chosen }) {
  const places = new Map(spans.map((span, i) => [span, i]));
  const placeOf = ({ target }) => places.get(target.closest(".token")) ?? null;
  const line = html(
    "p",
    {
      class: "tokens asked",
      dir: "auto",
      role: "radiogroup",
      "aria-label": "Words of the text; arrow keys move between them",
      on: { click, keydown, focusin, pointerover, pointerleave },
    },
    spaced(tokens, spans),
  );
  return line;

  function click(event) {
    const place = placeOf(event);
    if (place !== null) choose(place);
  }

  /** Only the keyboard's focus chooses: a click has done so already. */
  function focusin(event) {
    const place = placeOf(event);
    if (event.target.matches(":focus-visible") && place !== chosen()) choose(place);
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
export function beyond(spans, from, step) {
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
