/**
 * Which patches mattered: a server deletes them one by one, and says how far the answer falls.
 *
 * What it says is {names, whole, grid, falls}: of each name, a class or a word, its probability in
 * the whole image, and how far that falls without each patch. Below 0 it rose.
 */

import { html } from "regard/html";
import { percent, points } from "regard/format";

/**
 * A place with the button, and while it is being found out with how far that is; `start` asks
 * without it.
 *
 * `ask(place)` does the asking, and may come back with nothing if somebody ended it. `found` hears
 * what was found, and whether somebody has just asked for it.
 */
export function asking(ask, found) {
  const click = () => start(true);
  const button = html("button", { type: "button", on: { click } }, "Which patches mattered?");
  const element = html("div", { class: "deleting" }, button);
  return { element, start };

  async function start(byHand = false) {
    const falls = await ask(element);
    if (falls) return found(falls, byHand);
    element.append(button); // what went wrong, if anything, stands before it
    if (document.activeElement === document.body) button.focus({ preventScroll: true });
  }
}

/** The map of one name, and the fall that gets the last colour. */
export function mapOf({ grid: [rows, columns], falls }, index) {
  const map = Float32Array.from(falls[index]);
  const top = map.reduce((most, fall) => Math.max(most, Math.abs(fall)), 0);
  return { map, rows, columns, top, signed: true };
}

/** What becomes of a name without one patch. */
export function fate({ names, whole, falls }, index, patch) {
  const fall = falls[index][patch];
  const [by, to] = [points(Math.abs(fall)), percent(whole[index] - fall)];
  const verb = fall < 0 ? "rises" : "falls";
  return `without it ‘${names[index]}’ ${verb} by ${by} points, to ${to}`;
}

/** What was found of a name, in a sentence or two. */
export function summary({ names, whole, falls, grid: [, columns] }, index) {
  const own = falls[index];
  const most = own.indexOf(Math.max(...own));
  const risen = own.filter((fall) => fall < -0.0005).length;
  const where = `row ${Math.floor(most / columns) + 1}, column ${(most % columns) + 1}`;
  const [from, to] = [whole[index], whole[index] - own[most]].map((share) => percent(share));
  const against =
    {
      0: "None speaks against it.",
      1: `1 of the ${own.length} speaks against it: without that one it rises.`,
    }[risen] ?? `${risen} of the ${own.length} speak against it: without one of them it rises.`;
  return (
    `‘${names[index]}’ has ${from} of the probability, and ${to} without the patch in ${where}, ` +
    `which it needs most. ${against}`
  );
}
