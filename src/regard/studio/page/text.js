/**
 * A text of one's own: what the model says of it and where it looked, while one types; and, with a
 * model that writes, how it goes on, token by token, with what else it might have said.
 */

import { barOf, headingOf, looking } from "studio/document";

const PAUSE = 400; // ms without a key before the model is asked
const LONGEST = 20_000; // letters that the server takes
const KEPT = 1500; // letters that an address keeps
const HOW = {
  temperature: { words: "Temperature", min: 0.05, max: 2, step: 0.05, first: 0.8 },
  top_p: { words: "Top-p", min: 0.05, max: 1, step: 0.05, first: 1 },
  length: { words: "Tokens", min: 10, max: 500, step: 10, first: 100 },
};
const ENDS = { room: "; the model reads no further", undefined: "; stopped" };
const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };

export async function render(element, context) {
  const { api, go, params, remember, signal, tools } = context;
  const { html } = tools;
  import("regard/views/reading").catch(() => {}); // which most answers need: it comes meanwhile
  const look = looking(context, { wait: PAUSE });
  // Of one text that the address brings there is no need to know first what the run is like.
  const soon = params.pair === undefined && Boolean(params.text?.trim());
  if (soon) look.ask({ text: params.text.slice(0, LONGEST) }, "", 0);
  const run = await api.run(params.id, signal);
  if (run.input === "image") return go(`#image/${encodeURIComponent(run.id)}`);
  const pair = run.input === "pair";
  const first = textBox("Text", params.text ?? "");
  const second = pair ? textBox("Second text", params.pair ?? "") : null;
  // A run does one thing at a time: a look would wait until the writing ends, so it is given up.
  const given = { text: () => first.value, begun: look.stop, take };
  const writing = run.writes ? writer(run, context, given) : null;

  element.append(
    headingOf(run, run.writes ? "Begin a text, and let it go on" : "Give it a text", tools),
    html(
      "div",
      { class: "asking" },
      html("div", { class: "input" }, labelled(first), second && labelled(second)),
      html("div", { class: "outcome" }, look.status, look.answer),
    ),
    ...(writing ? [writing.element] : []),
    look.sections,
  );
  let later = 0; // the timer of the address
  if (!soon || pair) asked(0); // nobody types yet

  function textBox(name, value) {
    const box = html("textarea", {
      name,
      rows: pair ? 3 : 5,
      maxlength: LONGEST,
      dir: "auto",
      spellcheck: "false",
      on: { input: () => asked() },
    });
    box.value = value.slice(0, LONGEST);
    return box;
  }

  function labelled(box) {
    return html("label", { class: "typed" }, box.name, box);
  }

  function asked(pause = PAUSE) {
    writing?.stop();
    const [text, other] = [first.value, second?.value ?? ""];
    clearTimeout(later);
    later = setTimeout(note, PAUSE, { text: kept(text), ...(pair && { pair: kept(other) }) });
    if (!text.trim()) look.ask(null, "Type a text.");
    else if (!pair) look.ask({ text }, "", pause);
    // Some runs that read pairs read single texts too; those that do not will say so.
    else look.ask({ text: inLine(text), ...(other.trim() && { pair: inLine(other) }) }, "", pause);
  }

  /** Only after a pause: browsers refuse hundreds of changes of the address. */
  function note(choices) {
    if (!signal.aborted) remember(choices);
  }

  function take(text) {
    first.value = text.slice(0, LONGEST);
    asked();
  }
}

/**
 * The part in which the model goes on with a text.
 *
 * A token that is pointed at, reached by keyboard or clicked shows what was likely in its place;
 * without one it is the newest. `text()` is what to go on with, `begun()` is called at the start,
 * and `take(text)` with all of it when that is to be asked about.
 */
function writer(run, { api, params, remember, signal, tools }, { text, begun, take }) {
  const { html, format } = tools;
  const how = Object.fromEntries(
    Object.entries(HOW).map(([name, { first }]) => [name, Number(params[name]) || first]),
  );
  const tokens = []; // {text, probability, top, span}
  let under = null; // the writing under way
  let [held, passing] = [null, null]; // tokens that were chosen, and that the mouse is over
  let redraw = 0;
  let seed = /^\d{1,9}$/.test(params.seed) ? Number(params.seed) : null; // of the first go
  const go = html("button", { type: "button", class: "primary", on: { click: begin } }, "Write");
  const end = html("button", { type: "button", disabled: true, on: { click: stop } }, "Stop");
  const add = html("button", { type: "button", on: { click: keep } }, "Add to text");
  add.disabled = true;
  const status = html("p", { class: "note", role: "status" });
  const before = html("span", { class: "before" });
  const after = html("span", {
    class: "after",
    role: "radiogroup",
    "aria-label": "Tokens that the model wrote; arrow keys move between them",
    on: { pointerover, pointerleave, click, focusin, keydown },
  });
  const written = html("p", { class: "tokens", dir: "auto" }, before, after);
  const meaning = html(
    "p",
    { class: "note" },
    "The deeper its colour, the less likely a token was. Point at one to see what else was.",
  );
  const likely = html("div", { class: "likely" });
  const parts = [html("div", {}, written, meaning), likely];
  const goneOn = html("div", { class: "gone-on", hidden: true }, parts);
  signal.addEventListener("abort", () => under?.abort());
  const element = html(
    "div",
    { class: "writing" },
    html("div", { class: "controls" }, go, end, add, Object.entries(HOW).map(slider)),
    status,
    goneOn,
  );
  return { element, stop };

  function slider([name, { words, min, max, step }]) {
    const said = html("output", {}, format.number(how[name]));
    const range = html("input", { type: "range", name, min, max, step, value: how[name] });
    range.addEventListener("input", () => {
      how[name] = Number(range.value);
      said.textContent = format.number(how[name]);
    });
    range.addEventListener("change", () => remember({ [name]: how[name] })); // once it is let go
    how[name] = Number(range.value); // which keeps what the address says within its bounds
    said.textContent = format.number(how[name]);
    return html("label", {}, words, range, said);
  }

  async function begin() {
    under?.abort();
    const mine = (under = new AbortController());
    begun();
    tokens.length = 0;
    [held, passing] = [null, null];
    before.textContent = text();
    after.replaceChildren();
    likely.replaceChildren();
    goneOn.hidden = false;
    busy(true);
    const drawn = seed ?? Math.floor(Math.random() * 1e9);
    seed = null; // the next go is another one
    remember({ seed: drawn });
    let ended = null;
    try {
      await api.write(
        run.id,
        { text: text(), ...how, seed: drawn },
        {
          token: (token) => !mine.signal.aborted && receive(token),
          end: (said) => (ended = said),
        },
        mine.signal,
      );
      if (mine !== under) return;
      if (ended?.error) say(ended.error, true);
      else say(`${format.plural(tokens.length, "token")}${ENDS[ended?.why] ?? ""}`);
    } catch (error) {
      if (mine !== under) return;
      say(error.message, true);
    }
    under = null;
    busy(false);
    show();
  }

  function stop() {
    under?.abort();
  }

  /** What was written becomes part of what is asked about, and gone on with. */
  function keep() {
    add.disabled = true;
    take(before.textContent + tokens.map((token) => token.text).join(""));
  }

  function busy(is) {
    if (is && document.activeElement === go) requestAnimationFrame(() => end.focus());
    if (!is && document.activeElement === end) requestAnimationFrame(() => go.focus());
    end.disabled = !is;
    go.disabled = is;
    add.disabled = is || !tokens.length;
    written.setAttribute("aria-busy", String(is));
    if (is) say("writing …");
  }

  function say(words, trouble = false) {
    status.textContent = words;
    status.classList.toggle("trouble", trouble);
  }

  function receive(token) {
    const span = html("span", { class: "token", role: "radio", tabindex: -1 }, token.text);
    const { probability } = token;
    span.style.setProperty("--tint", Math.min(1, -Math.log2(Math.max(probability, 1e-9)) / 10));
    span.setAttribute("aria-label", `${visible(token.text)}, ${format.percent(probability)}`);
    tokens.push({ ...token, span });
    after.append(span);
    // Tokens may come faster than pictures on the screen.
    redraw ||= requestAnimationFrame(() => {
      redraw = 0;
      show();
    });
  }

  /** Mark the token that is looked at, and draw what was likely in its place. */
  function show() {
    const at = passing ?? held ?? tokens.length - 1;
    tokens.forEach(({ span }, i) => {
      span.setAttribute("aria-checked", String(i === held));
      span.classList.toggle("shown", i === at);
      span.tabIndex = i === (held ?? tokens.length - 1) ? 0 : -1;
    });
    if (tokens[at]) likely.replaceChildren(...distribution(tokens[at], at, tools));
  }

  function placeOf({ target }) {
    const span = target.closest(".token");
    const place = tokens.findIndex((token) => token.span === span);
    return place < 0 ? null : place;
  }

  function pointerover(event) {
    if (event.pointerType === "touch") return; // which taps, and is then not over anything
    passing = placeOf(event) ?? passing;
    show();
  }

  function pointerleave() {
    passing = null;
    show();
  }

  function click(event) {
    const place = placeOf(event);
    if (place === null) return;
    held = place === held ? null : place;
    passing = null;
    show();
  }

  function focusin(event) {
    if (!event.target.matches(":focus-visible")) return;
    held = placeOf(event) ?? held;
    show();
  }

  function keydown(event) {
    if (event.key === "Escape") {
      held = null;
      return show();
    }
    const step = STEPS[event.key];
    const place = placeOf(event);
    if (!step || place === null) return;
    event.preventDefault();
    tokens[place + step]?.span.focus(); // which keeps it
  }
}

/** What might have been written as this token, the likeliest first, and what was. */
function distribution({ text, probability, top }, at, tools) {
  const { html, format } = tools;
  const which = place(top, text, probability);
  const bar = ([name, share], i) =>
    barOf(visible(name), share, tools, { class: i === which ? "truth" : null });
  const others = which < 0 ? probability : 0;
  const rest = 1 - others - top.reduce((sum, [, share]) => sum + share, 0);
  return [
    html("h4", {}, `Token ${at + 1}: what was likely`),
    html(
      "ol",
      { class: "answers" },
      top.map(bar),
      which < 0 && bar([text, probability], which),
    ),
    rest > 0.0005 && html("p", { class: "note" }, `All others have ${format.percent(rest)}.`),
  ].filter(Boolean);
}

/**
 * Where the token is that was written, or −1. It has its probability; its text may differ from how
 * it is listed, by a space or by part of a letter.
 */
function place(top, text, probability) {
  const same = top.findIndex(([name, share]) => name === text && share === probability);
  return same < 0 ? top.findIndex(([, share]) => share === probability) : same;
}

/** A token with its spaces and line ends to be seen. */
function visible(text) {
  const signs = { " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍" };
  return text.replace(/[ \n\t\r]/g, (sign) => signs[sign]) || "∅";
}

/** The text as one line, which each of a pair is. */
function inLine(text) {
  return text.replace(/\s*[\r\n\t]+\s*/g, " ").trim();
}

/** The text for the address; one that is empty or too long is left out. */
function kept(text) {
  return text && text.length <= KEPT ? text : null;
}
