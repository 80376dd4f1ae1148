/**
 * Figures by epoch, as training writes them, and charts of them that move together.
 *
 * A line has its `epoch` and figures such as "val/accuracy": a split, a slash, and a quantity.
 * Those of one quantity share a chart.
 */

import { html } from "regard/html";
import { chart } from "regard/chart";
import { keysOf, printed, sheet } from "regard/print";
import { savingButtons } from "regard/save";

const SHARES = /accuracy|top\d|precision|recall|f1|share|(^|\/)true_captions$/; // in percent

const SPLITS = { val: "validation", train_eval: "train" }; // train/loss is of none

/** "%" for figures that are shares of 1. */
export const unitOf = (figure) => (SHARES.test(figure) ? "%" : "");

export const wordsOf = (quantity = "") => quantity.replaceAll("_", " ");

export const epochOf = (line, i) => line.epoch ?? i + 1;

/** Whether less of a quantity is better. */
export const lowerIsBetter = (quantity) => ["loss", "error", "perplexity"].includes(quantity);

/** A figure in words: "validation accuracy" for val/accuracy. */
export function nameOf(name) {
  const slash = name.indexOf("/");
  const split = SPLITS[name.slice(0, slash)] ?? name.slice(0, Math.max(0, slash));
  return `${split} ${wordsOf(name.slice(slash + 1))}`.trim();
}

/** [split in words, quantity, name] of every figure that some line has of a split. */
export function figuresIn(lines) {
  const names = [...new Set(lines.flatMap(Object.keys))].map((name) => [name, name.indexOf("/")]);
  return names
    .filter(([name, slash]) => Object.hasOwn(SPLITS, name.slice(0, slash)))
    .map(([name, slash]) => [SPLITS[name.slice(0, slash)], name.slice(slash + 1), name]);
}

/**
 * The series of one quantity, a split each; `look(split)` gives the name and ink of one.
 *
 * Train lines come first, so that validation lies on top of them.
 */
export function seriesOf(lines, quantity, look) {
  return figuresIn(lines)
    .filter(([, word]) => word === quantity)
    .toSorted(([a], [b]) => (b === "train") - (a === "train"))
    .map(([split, , name]) => ({
      ...look(split),
      kind: split,
      points: lines.map((line, i) => [epochOf(line, i), line[name] ?? null]),
    }));
}

/** What a colour, a dash or a sign stands for. */
export function legendKey(kind, words) {
  return html("span", { class: "key" }, html("i", { class: `swatch ${kind}` }), words);
}

/**
 * A chart for each quantity, in a grid below their legend; the buttons save them all as one figure.
 *
 * `show(quantity, series, marks)` draws one, or draws it anew: then it keeps its crosshair.
 */
export function epochCharts(element, legend, { title, about = "" }) {
  const charts = new Map(); // quantity → {figure, show, point}
  const grid = html("div", { class: "charts" });
  const saving = html("div", { class: "controls saving" }, savingButtons("curves", drawing));
  saving.hidden = true;
  element.append(legend, grid, saving);
  return { show };

  function show(quantity, series, marks) {
    if (charts.has(quantity)) return charts.get(quantity).show(series, marks);
    const words = wordsOf(quantity);
    const figure = html("figure", {}, html("figcaption", {}, words));
    grid.append(figure);
    const label = `${words} by epoch${about}`;
    const axes = { x: { name: "epoch" }, y: { name: words, unit: unitOf(quantity) } };
    charts.set(quantity, { figure, ...chart(figure, { label, ...axes, series, marks, moved }) });
    saving.hidden = false;
  }

  function moved(epoch) {
    for (const one of charts.values()) one.point(epoch);
  }

  function drawing() {
    const parts = [...charts].map(([quantity, { figure }]) => [
      wordsOf(quantity),
      printed(figure.querySelector("svg")),
    ]);
    return sheet(title, parts, keysOf(legend));
  }
}
