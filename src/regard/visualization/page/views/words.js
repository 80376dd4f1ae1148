/**
 * A text whose words are as deep as they carried the answer: for it in one colour, against it in
 * another, by the method chosen.
 *
 * A word that is pointed at, reached by keyboard or tapped has its number said, by every method.
 * Colour is never alone: what speaks for is underlined, what speaks against is so in dots.
 */

import { beyond } from "regard/tokens";

const STRONGEST = 6; // words listed beside the text
const PATIENCE = 150; // ms before the address follows: browsers refuse hundreds of changes a second

export function render(element, { items = [] }, tools) {
  const { html, empty, state } = tools;
  if (!items.length) return element.append(empty("There is no text to show."));
  items.forEach(check);

  const look = { gentle: false };
  const at = { item: 0, method: 0, word: null }; // all count from 0
  let passing = null; // the word under the mouse: it shows for as long as it is there
  let parts = {}; // of what is drawn
  let later = 0; // the timer of the address
  const spread = html("div", { class: "spread" });
  element.append(spread);
  state.changed(adopt);
  adopt(state.read());

  /** What the address asks for, as far as it exists. Numbers in the address count from 1. */
  function adopt({ item, method, word }) {
    clearTimeout(later);
    at.item = within(Number(item) - 1, items.length) ?? 0;
    at.method = within(Number(method) - 1, methodsOf(items[at.item]).length) ?? 0;
    at.word = within(Number(word) - 1, wordsOf(items[at.item]).length);
    draw();
  }

  /** Look at another text by the same method, if it has one so numbered. */
  function go(item) {
    const method = within(at.method, methodsOf(items[item]).length) ?? 0;
    Object.assign(at, { item, method, word: null });
    draw();
    spread.querySelector("select.text").focus();
    write();
  }

  /** Keep a word, or with null none, whatever the mouse is over. */
  function choose(word) {
    at.word = word;
    pass(null);
    write();
  }

  /** Show a word until the mouse is elsewhere. */
  function pass(word) {
    passing = word;
    point(parts, view());
  }

  /** Go to a word of the list, which may be far up or down a long text. */
  function find(word) {
    choose(word);
    parts.spans[word].scrollIntoView({ block: "nearest" });
    parts.spans[word].focus({ preventScroll: true });
    tell(parts, view());
  }

  function chooseMethod(method) {
    at.method = method;
    shade(parts, view(), find);
    write();
  }

  function write() {
    clearTimeout(later);
    const word = at.word === null ? {} : { word: at.word + 1 };
    const choices = { item: at.item + 1, method: at.method + 1, ...word };
    later = setTimeout(() => state.write(choices), PATIENCE);
  }

  function draw() {
    passing = null;
    const shown = view();
    const spans = wordsOf(shown.item).map((word) => spanOf(word, html));
    parts = {
      spans,
      legend: html("div", { class: "meaning" }),
      readout: html("div", { class: "looks" }),
      strongest: html("div", { class: "strongest" }),
    };
    const repaint = () => shade(parts, view(), find);
    const note = shown.item.note && html("p", { class: "note", dir: "auto" }, shown.item.note);
    const partly = shown.item.alone != null; // which is said before it is read
    spread.replaceChildren(
      controls(shown, { items, go, chooseMethod, repaint, look }),
      html(
        "div",
        { class: "texts" },
        shown.item.name && html("h3", { dir: "auto" }, shown.item.name),
        partly && note,
        parts.legend,
        spans.length > 0 && textOf(spans, shown, { choose, pass, tell: () => tell(parts, view()) }),
        !spans.length && html("p", { class: "note" }, "The text has no words."),
        !partly && note,
      ),
      html(
        "div",
        { class: "side" },
        html("div", {}, answersOf(shown.item, tools)),
        parts.strongest,
        parts.readout,
      ),
      spans.length > 0 && html("div", { class: "controls saving" }, saving()),
    );
    repaint();
  }

  /** The text in its colours, and the numbers of all words by every method. */
  function saving() {
    const { item } = view();
    const methods = methodsOf(item);
    const heading = ["word", ...methods.map(({ name }) => name)];
    const rows = wordsOf(item).map((word, i) => [word, ...methods.map(({ values }) => values[i])]);
    const drawing = () => {
      const text = tools.written(spread.querySelector(".asked"), ".token");
      return tools.sheet(item.name ?? "", [[view().method?.name, text]]);
    };
    const name = tools.format.slug(item.name ?? "", "words");
    return [tools.savingButtons(name, drawing), tools.savingTable(name, [heading, ...rows])];
  }

  function view() {
    const item = items[at.item];
    const method = methodsOf(item)[at.method] ?? null;
    return { item, method, word: passing ?? at.word, at, look, tools };
  }
}

function check(item) {
  const count = wordsOf(item).length;
  for (const { name, values } of methodsOf(item)) {
    if (values?.length !== count) {
      throw new Error(`${count} words have ${values?.length ?? 0} numbers by ${name}`);
    }
  }
}

/** A word as it stands in the text, without the space before it. */
function spanOf(word, html) {
  return html("span", { class: "token", role: "radio" }, word.trim() || "␣");
}

/** The paragraphs, in which at most one word is chosen. */
function textOf(spans, { item, at, tools }, { choose, pass, tell }) {
  const { html, unhint } = tools;
  const places = new Map(spans.map((span, i) => [span, i]));
  const placeOf = ({ target }) => places.get(target.closest(".token")) ?? null;
  const words = wordsOf(item);
  const breaks = [0, ...(item.breaks ?? []), words.length];
  const line = html(
    "div",
    {
      class: "asked",
      role: "radiogroup",
      "aria-label": "Words of the text; arrow keys move between them",
      on: { click, keydown, focusin, focusout: unhint, pointerover, pointerleave },
    },
    breaks.slice(1).map((end, part) => {
      const start = breaks[part];
      const pieces = spans.slice(start, end).map((span, i) => [before(words, start, i), span]);
      return html("p", { class: "tokens", dir: "auto" }, pieces);
    }),
  );
  return line;

  function click(event) {
    const place = placeOf(event);
    if (place === null) return;
    choose(place);
    tell();
  }

  /** Only the keyboard's focus chooses: a click has done so already. */
  function focusin(event) {
    const place = placeOf(event);
    if (!event.target.matches(":focus-visible") || place === null) return;
    if (place !== at.word) choose(place);
    tell();
  }

  function keydown(event) {
    if (event.key === "Escape") return (choose(null), unhint());
    const place = placeOf(event);
    const to = place === null ? null : goal(event.key, place);
    if (to === null) return;
    event.preventDefault();
    spans[to]?.focus(); // which chooses it, unless this is the edge
  }

  function goal(key, place) {
    const leftward = getComputedStyle(spans[place].parentElement).direction === "rtl" ? 1 : -1;
    if (key === "ArrowLeft") return place + leftward;
    if (key === "ArrowRight") return place - leftward;
    if (key === "ArrowUp") return beyond(spans, place, -1);
    if (key === "ArrowDown") return beyond(spans, place, 1);
    return { Home: 0, End: spans.length - 1 }[key] ?? null;
  }

  /** A finger is not over a word before it taps, and between two words the last one holds. */
  function pointerover(event) {
    const place = placeOf(event);
    if (event.pointerType === "touch" || place === null) return;
    pass(place);
    tell();
  }

  function pointerleave({ pointerType }) {
    if (pointerType === "touch") return;
    pass(null);
    unhint();
  }
}

/** The space before a word of a paragraph; its first has none. */
function before(words, start, i) {
  return i ? /^\s*/.exec(words[start + i])[0] : "";
}

/** All that changes with the method: the words' colours, their scale, and the strongest. */
function shade(parts, view, find) {
  const { item, method, look, tools } = view;
  const top = topOf(method);
  parts.spans.forEach((span, i) => {
    const value = method?.values[i] ?? 0;
    const depth = top ? Math.abs(value) / top : 0;
    span.style.setProperty("--tint", (look.gentle ? Math.sqrt(depth) : depth).toFixed(3));
    span.classList.toggle("against", value < 0);
    const number = method && said(value, method, tools);
    span.setAttribute("aria-label", [nameOf(item, i), number].filter(Boolean).join(", "));
  });
  parts.legend.replaceChildren(...legendOf(view, top));
  parts.strongest.replaceChildren(...strongestOf(view, top, find));
  point(parts, view);
}

/** All that changes with the word: which one is marked, and what is said of it. */
function point({ spans, readout }, view) {
  const { word, at } = view;
  spans.forEach((span, i) => {
    span.setAttribute("aria-checked", String(i === at.word));
    span.tabIndex = i === (at.word ?? 0) ? 0 : -1;
    span.classList.toggle("shown", i === word);
  });
  readout.replaceChildren(...readoutOf(view));
}

/** The number of the word that is shown, beside it. */
function tell({ spans }, view) {
  const { item, word, method, tools } = view;
  if (word === null || !method) return tools.unhint();
  const { left, top } = spans[word].getClientRects()[0];
  const number = said(method.values[word], method, tools);
  tools.hint(left - 14, top + 4, `‘${nameOf(item, word)}’ ${number}${sideOf(view, word)}`);
}

/** What the colours mean, with the numbers at their ends; every method has its own scale. */
function legendOf({ item, method, look, tools }, top) {
  const { html } = tools;
  if (!method) return [html("p", { class: "note" }, "No map was kept of this text.")];
  const end = (value) => html("span", {}, said(value, method, tools));
  const { answer = "the answer" } = item;
  const side = (word, kind) =>
    html("span", { class: `end ${kind}`, title: answer }, `${word} `, html("bdi", {}, answer));
  const scale = method.signed
    ? [
        end(-top),
        html("i", { style: strip(look, ["--against", "--for"]) }),
        end(top),
        html("span", { class: "sides" }, side("against", "against"), side("for", "")),
      ]
    : [end(0), html("i", { style: strip(look, ["--for"]) }), end(top)];
  return [
    html("p", { class: "note" }, method.words),
    html("div", { class: "scale" }, top ? scale : "Every word has 0."),
  ];
}

/** The shades as they stand behind words, from the first hue over none to the second. */
function strip({ gentle }, hues) {
  const depth = (x) => Math.round(100 * (gentle ? Math.sqrt(x) : x));
  const mixed = (hue, x) => `color-mix(in srgb, var(${hue}) ${depth(x)}%, transparent)`;
  const steps = Array.from({ length: 9 }, (_, i) => i / 8);
  const rising = steps.map((x) => mixed(hues.at(-1), x));
  const falling = hues.length > 1 ? steps.toReversed().map((x) => mixed(hues[0], x)) : [];
  return { background: `linear-gradient(to right, ${[...falling, ...rising].join(", ")})` };
}

/** The numbers of one word by every method. */
function readoutOf(view) {
  const { item, word, tools } = view;
  const { html } = tools;
  const methods = methodsOf(item);
  if (!methods.length) return [];
  if (word === null) return [html("p", { class: "note" }, "Point at a word to see its numbers.")];
  return [
    html("h4", { dir: "auto" }, "‘", html("bdi", {}, nameOf(item, word)), "’ by every method"),
    html(
      "ol",
      {},
      methods.map((method) => bar(method.name, method.values[word], method, tools)),
    ),
    html("p", { class: "rest" }, without(item, word, tools)),
  ];
}

/** What leaving a word out does, as probabilities: exp of the change in its logarithm. */
function without(item, word, { format }) {
  const lost = methodsOf(item).find(({ unit }) => unit === "log-probability");
  const whole = item.answers?.find(({ name }) => name === item.answer)?.share;
  const shown = item.alone ?? whole; // of a part of a text, its own
  if (!lost || !Number.isFinite(shown)) return "";
  const left = Math.min(1, shown * Math.exp(-lost.values[word]));
  const [from, to] = [shown, left].map((share) => format.percent(share));
  const where = item.alone == null ? "" : " in this part";
  const than = from === to ? " as well" : `, not ${from}`;
  return `Without it, ${item.answer} has ${to}${where}${than}.`;
}

/** The words that carried most, whichever way, greatest first. */
function strongestOf({ item, method, tools }, top, find) {
  const { html } = tools;
  if (!top) return [];
  const order = method.values.map((value, i) => [Math.abs(value), i]);
  order.sort(([a], [b]) => b - a);
  const most = order.slice(0, STRONGEST).filter(([size]) => size > 0);
  const button = (i) =>
    html(
      "button",
      { type: "button", title: "Find it in the text", on: { click: () => find(i) } },
      html("bdi", {}, nameOf(item, i)),
    );
  return [
    html("h4", {}, "Strongest words, ", method.name),
    html(
      "ol",
      {},
      most.map(([, i]) => bar(button(i), method.values[i], method, tools)),
    ),
  ];
}

/** A name, a bar that starts in the middle where numbers have signs, and the number. */
function bar(name, value, method, tools) {
  const { html } = tools;
  const top = topOf(method);
  const length = top ? (100 * Math.abs(value)) / top : 0;
  const half = method.signed ? 2 : 1;
  const start = method.signed ? 50 - (value < 0 ? length / half : 0) : 0;
  const style = { width: `${length / half}%`, left: `${start}%` };
  return html(
    "li",
    {},
    html("span", { class: "name" }, name),
    html(
      "span",
      { class: method.signed ? "track signed" : "track" },
      html("i", { class: value < 0 ? "against" : null, style }),
    ),
    html("span", { class: "share" }, said(value, method, tools)),
  );
}

/** What the model said, how sure it was, and whether it was right. */
function answersOf(item, { html, format }) {
  const answers = item.answers ?? [];
  if (!answers.length) return [];
  const { truth, answer } = item;
  const first = answers[0].name;
  return [
    html("h4", {}, item.alone == null ? "Answer" : "Answer, from all of the text"),
    html(
      "ol",
      { class: "answers" },
      answers.map(({ name, share }) =>
        html(
          "li",
          { class: name === truth ? "truth" : null },
          html("span", { class: "name", title: name }, name),
          html("span", { class: "track" }, html("i", { style: { width: `${100 * share}%` } })),
          html("span", { class: "share" }, format.percent(share)),
        ),
      ),
    ),
    truth != null &&
      html(
        "p",
        { class: first === truth ? "verdict right" : "verdict wrong" },
        first === truth ? `Right: it is ${truth}.` : `Wrong: it is ${truth}.`,
      ),
    answer && answer !== first && html("p", { class: "note" }, `Words are shown for ${answer}.`),
  ];
}

function controls({ item, at, tools }, { items, go, chooseMethod, repaint, look }) {
  const { html, choice } = tools;
  const names = items.map(({ name }, i) => name || `text ${i + 1}`);
  const methods = methodsOf(item).map(({ name }) => name);
  const tick = ({ target }) => {
    look.gentle = target.checked;
    repaint();
  };
  return html(
    "div",
    { class: "controls" },
    items.length > 1 &&
      html(
        "label",
        {},
        "Text",
        html(
          "select",
          { class: "text", on: { change: ({ target }) => go(Number(target.value)) } },
          names.map((name, i) => html("option", { value: i, selected: i === at.item }, name)),
        ),
      ),
    methods.length > 1 &&
      choice("Method", methods, String(at.method), (key) => chooseMethod(Number(key))),
    methods.length > 0 &&
      html(
        "label",
        {},
        html("input", { type: "checkbox", checked: look.gentle, on: { change: tick } }),
        "Bring out small numbers",
      ),
  );
}

/** A number as its method has it: a share in percent, anything signed with its sign. */
function said(value, { signed, unit }, { format }) {
  if (unit === "share") return format.percent(value, Math.abs(value) >= 0.0995 || !value ? 0 : 1);
  if (!value) return "0";
  const size = Math.abs(value);
  const digits = size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  const number = size < 0.0005 ? size.toPrecision(1) : size.toFixed(digits);
  return `${value < 0 ? "−" : signed ? "+" : ""}${number}`;
}

/** For or against what a word speaks. */
function sideOf({ item, method }, word) {
  const value = method.values[word];
  if (!method.signed) return " of what was read";
  return value ? `, ${value < 0 ? "against" : "for"} ${item.answer ?? "the answer"}` : "";
}

const nameOf = (item, i) => wordsOf(item)[i].trim() || "␣";
const topOf = (method) => (method?.values ?? []).reduce((top, v) => Math.max(top, Math.abs(v)), 0);
const wordsOf = ({ words }) => words ?? [];
const methodsOf = ({ methods }) => methods ?? [];

/** The index if there is one so numbered. */
function within(index, count) {
  return Number.isInteger(index) && index >= 0 && index < count ? index : null;
}
