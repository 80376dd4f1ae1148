/**
 * The formula live: change a number of q, k or v, β or the mask, and see what each query reads.
 *
 * Nothing of attention is computed here. The server is asked, one thing at a time and always the
 * newest, and its answer is drawn. All that was chosen stands in the address.
 */

const TOKENS = 12; // at most
const WIDTH = 8; // numbers of a key or a value, at most
const SPAN = 1000; // the largest number that a cell takes
const PREVIEW = 24; // tokens of the mask's picture
const PAUSE = 12; // milliseconds in which changes gather before the server is asked
const TYPING = 250; // the same while someone types
const PATIENCE = 400; // milliseconds after which an answer no longer keeps a newer question waiting
const END = 400; // of the slider: its ends are 0 and ∞, and between them a hundred steps are × 10
const ATOMS = ["causal", "window(3)", "sinks(1)", "strided(2)", "dilated(2, 2)", "blocks(3)"];
ATOMS.push("prefix(2)", "everywhere(1)", "summary(3, 1)", "random_keys(2, 6)");
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const MATHML = "http://www.w3.org/1998/Math/MathML";
const STYLE = "/page/studio/ideas.css";

export async function render(element, { api, params, remember, signal, tools }) {
  const { html, choice, format } = tools;
  await styled(tools);
  const state = stateFrom(params);
  let drawn = null; // the answer that is shown, and what it answers
  let later = 0;
  let settle;
  const settled = new Promise((resolve) => (settle = resolve));

  const editors = Object.fromEntries(
    [...NAMES].map(([name, words]) => [name, editor(tools, name, words, state, changed)]),
  );
  const sizes = sizeControls(tools, state, resized);
  const beta = betaControl(tools, state, changed);
  const mask = maskControl(tools, state, changed);
  const weights = heat(tools, { label: "Map", say: sayWeight, choose: chooseRow });
  const slopes = heat(tools, { label: "Jacobian", say: saySlope });
  const reads = html("div", { class: "reads" });
  const about = html("p", { class: "note" });
  const slopeWords = html("p", { class: "note" });
  const slopeTitle = html("h2", {});
  const trouble = html("p", { class: "trouble", role: "alert", hidden: true });
  const more = moreControl(tools, { add, back });
  const kinds = { weights: "Weights", scores: "Scores" };

  element.append(
    html(
      "header",
      {},
      html("h1", {}, "Attention, live"),
      html("p", { class: "subtitle" }, formula(), " with every number yours to change."),
    ),
    html(
      "div",
      { class: "bench" },
      html(
        "div",
        { class: "inputs" },
        panel(tools, "Queries, keys, values", [
          html("div", { class: "controls" }, sizes.element, redraw()),
          html(
            "div",
            { class: "editors" },
            Object.values(editors).map((one) => one.element),
          ),
        ]),
        panel(tools, "Mask", [mask.element]),
      ),
      html(
        "div",
        { class: "outputs" },
        panel(tools, "Sharpness", [beta.element]),
        trouble,
        html(
          "div",
          { class: "pair" },
          panel(tools, "What each query reads", [
            html(
              "div",
              { class: "controls" },
              choice("Numbers of the map", kinds, state.show, (kind) => {
                state.show = kind;
                draw();
                keep();
              }),
              ["SVG", "PNG"].map(download),
            ),
            weights.element,
            about,
          ]),
          panel(tools, slopeTitle, [slopes.element, slopeWords]),
        ),
        panel(tools, "One more token", [more.element]),
        panel(tools, "Read: the values, weighted", [reads]),
      ),
    ),
  );

  const ask = newest(answerTo, { done, failed, signal });
  signal.addEventListener("abort", () => clearTimeout(later));
  changed();
  await settled;

  /** Something was chosen: ask, and keep it in the address. */
  function changed() {
    element.dataset.settled = "no";
    ask(structuredClone(state));
    keep();
  }

  /** Browsers let an address change a few times a second, and no more. */
  function keep() {
    clearTimeout(later);
    later = setTimeout(() => remember(addressOf(state)), 200);
  }

  async function answerTo(wish, stop) {
    const { q, k, v, row, before } = wish;
    const said = { mask: wish.mask || null, beta: wish.beta };
    const [found, pictured] = await Promise.allSettled([
      api.attend({ q, k, v, row, before, ...said }, stop),
      api.mask({ mask: said.mask, n: PREVIEW }, stop),
    ]);
    if (pictured.reason) throw Object.assign(pictured.reason, { mask: true });
    if (found.reason) throw found.reason;
    return { ...found.value, pictured: pictured.value };
  }

  function done(answer, wish, last) {
    drawn = { ...answer, wish };
    trouble.hidden = true;
    element.querySelector(".outputs").classList.remove("stale");
    beta.show(answer.beta);
    mask.show(answer.pictured, wish.mask);
    draw();
    if (last) element.dataset.settled = "yes";
    settle();
  }

  function failed(error) {
    // A mask that is half typed is no trouble of the page's, and is spoken of beside it.
    const ofMask = error.status === 422 && error.mask;
    if (ofMask) mask.blame(error.message);
    trouble.textContent = error.message;
    trouble.hidden = ofMask;
    element.querySelector(".outputs").classList.add("stale");
    element.dataset.settled = "yes";
    settle();
  }

  function draw() {
    if (!drawn) return;
    weights.show(mapOf(drawn, state.show));
    slopes.show(slopesOf(drawn));
    const { wish, jacobian, row } = drawn;
    about.textContent = aboutMap(drawn, state.show);
    slopeTitle.textContent = `Slope of row ${row + 1}`;
    const steepest = Math.max(...jacobian.flat().map(Math.abs));
    slopeWords.textContent =
      `How the weight of a key (row) moves with the score of a key (column). ` +
      `The steepest is ${format.number(steepest)}; ${tempered(steepest)}`;
    reads.replaceChildren(...readTable(drawn, tools, chooseRow));
    more.show(drawn, wish);
  }

  function chooseRow(row) {
    if (row === state.row) return;
    state.row = row;
    changed();
  }

  function sayWeight(i, j) {
    const { weights, scores, allowed, wish } = drawn;
    const who = `query ${i + 1}, key ${j + 1}: `;
    const mark = markOf(drawn, i);
    const status = wish.before !== null && mark ? `; ${mark}` : "";
    if (!allowed[i][j]) return `${who}shut by the mask${status}`;
    const score = scores[i][j] === null ? "" : `, score ${format.number(scores[i][j])}`;
    return `${who}weight ${format.number(weights[i][j])}${score}${status}`;
  }

  function saySlope(i, j) {
    const slope = format.number(drawn.jacobian[i][j]);
    return `weight of key ${i + 1} by the score of key ${j + 1}: ${slope}`;
  }

  function resized(tokens, width, values) {
    state.q = cut(state.q, "q", tokens, width);
    state.k = cut(state.k, "k", tokens, width);
    state.v = cut(state.v, "v", tokens, values);
    state.before = null;
    state.row = Math.min(state.row, tokens - 1);
    renew();
  }

  function add() {
    const before = state.q.length;
    if (before >= TOKENS) return;
    resized(before + 1, state.q[0].length, state.v[0].length);
    Object.assign(state, { before, row: before });
    renew();
  }

  function back() {
    resized(state.before, state.q[0].length, state.v[0].length);
  }

  function renew() {
    for (const one of Object.values(editors)) one.fill();
    sizes.fill();
    changed();
  }

  function redraw() {
    const click = () => {
      for (const name of NAMES.keys()) {
        state[name] = state[name].map((row) => row.map(() => rounded(4 * Math.random() - 2)));
      }
      renew();
    };
    return html("button", { type: "button", on: { click } }, "Draw other numbers");
  }

  function download(kind) {
    const click = () => {
      if (!drawn) return;
      const map = mapOf(drawn, state.show);
      const picture = drawMap(map, 560, PRINTED, tools, titleOf(drawn, state.show));
      const save = kind === "SVG" ? tools.saveSvg : tools.savePng;
      return save(`attention-${state.show}.${kind.toLowerCase()}`, picture);
    };
    return html("button", { type: "button", class: "download", on: { click } }, `Save ${kind}`);
  }
}

/** The style of the ideas and of the lab, once; the page waits for it, so that nothing jumps. */
export async function styled({ html }) {
  if (document.querySelector(`link[href="${STYLE}"]`)) return;
  const link = html("link", { rel: "stylesheet", href: STYLE });
  const ready = new Promise((resolve) => {
    for (const event of ["load", "error"]) link.addEventListener(event, resolve);
  });
  document.head.append(link);
  await ready;
}

function panel({ html }, title, inside) {
  const heading = typeof title === "string" ? html("h2", {}, title) : title;
  return html("section", { class: "panel" }, heading, inside);
}

/** read = softmax(β q kᵀ + mask) v, as a formula. */
function formula() {
  const node = (tag, ...inside) => {
    const made = document.createElementNS(MATHML, tag);
    made.append(...inside);
    return made;
  };
  const [mi, mo] = ["mi", "mo"].map((tag) => (words) => node(tag, words));
  const turned = node("msup", mi("k"), mi("⊤"));
  return node(
    "math",
    ...[mi("read"), mo("="), mi("softmax"), mo("("), mi("β"), mi("q"), turned, mo(")"), mi("v")],
  );
}

// What is chosen

/** Names of the matrices, and what they hold. */
const NAMES = new Map([
  ["q", "queries"],
  ["k", "keys"],
  ["v", "values"],
]);

/**
 * @typedef {Object} State
 * @property {number[][]} q
 * @property {number[][]} k
 * @property {number[][]} v
 * @property {number|"inf"|null} beta null is d^-1/2
 * @property {string} mask an expression, or nothing
 * @property {number} row the query whose slope is shown
 * @property {?number} before how many tokens there were before the last came
 * @property {"weights"|"scores"} show
 */

/** The state that an address spells; what it spells badly is as at the start. */
function stateFrom(params) {
  const given = Object.fromEntries([...NAMES.keys()].map((name) => [name, rowsFrom(params[name])]));
  const { q, k, v } = given;
  const fits =
    q && k && v && q.length === k.length && k.length === v.length && q[0].length === k[0].length;
  const start = (name) => [name, cut([], name, 5, 2)];
  const rows = fits ? given : Object.fromEntries([...NAMES.keys()].map(start));
  const n = rows.q.length;
  return {
    ...rows,
    beta: betaFrom(params.beta),
    mask: params.mask ?? "causal",
    row: within(params.row, 0, n - 1) ?? n - 1,
    before: within(params.before, 1, n - 1),
    show: params.show === "scores" ? "scores" : "weights",
  };
}

function addressOf({ q, k, v, beta, mask, row, before, show }) {
  const spelt = (rows) => rows.map((each) => each.join(" ")).join("_");
  const rest = { beta: beta ?? "scale", mask, row, before, show: show === "scores" ? show : null };
  return { q: spelt(q), k: spelt(k), v: spelt(v), ...rest };
}

function rowsFrom(words) {
  const rows = words?.split("_").map((row) => row.split(" ").map(numberFrom));
  const fits =
    rows?.length <= TOKENS &&
    rows[0].length <= WIDTH &&
    rows.every((row) => row.length === rows[0].length && row.every(Number.isFinite));
  return fits ? rows : null;
}

function betaFrom(words) {
  if (words === "inf") return words;
  const value = numberFrom(words ?? "");
  return value >= 0 && value <= 1e6 ? value : null;
}

function numberFrom(words) {
  const value = words.trim() === "" ? NaN : Number(words);
  return Math.abs(value) <= 1e6 ? value : NaN;
}

function within(words, least, most) {
  const value = Number(words ?? NaN);
  return Number.isInteger(value) && value >= least && value <= most ? value : null;
}

/** The same rows, with as many more or fewer numbers as it takes; new ones are drawn. */
function cut(rows, name, count, width) {
  return Array.from({ length: count }, (_, i) =>
    Array.from({ length: width }, (_, j) => rows[i]?.[j] ?? dice(name, i, j)),
  );
}

/** A number from −2 to 2 that hangs on its place alone, so that a page without choices is one. */
function dice(name, i, j) {
  let x = name.charCodeAt(0) * 7919 + i * 104729 + j * 1299709;
  for (const factor of [0x7feb352d, 0x45d9f3b5, 0x2c1b3c6d]) {
    x = Math.imul(x ^ (x >>> 16), factor);
  }
  return rounded((4 * ((x ^ (x >>> 16)) >>> 0)) / 2 ** 32 - 2);
}

const rounded = (value) => Math.round(value * 10) / 10 || 0; // no −0

/**
 * Ask one thing at a time, and after it the newest that was wished for meanwhile.
 *
 * An answer that takes long is let go as soon as there is something newer to ask, so neither a
 * slow server nor a quick hand can leave an old answer on the page.
 */
function newest(ask, { done, failed, signal }) {
  let under = null; // what is being asked
  let waiting = null;
  let timer = 0;
  signal.addEventListener("abort", () => clearTimeout(timer));
  return (wish) => {
    waiting = wish;
    if (under && performance.now() - under.since > PATIENCE) under.stop.abort();
    if (!under && !timer) timer = setTimeout(send, PAUSE);
  };

  async function send() {
    const wish = waiting;
    const stop = new AbortController();
    [timer, waiting, under] = [0, null, { stop, since: performance.now() }];
    try {
      const answer = await ask(wish, AbortSignal.any([stop.signal, signal]));
      if (!signal.aborted) done(answer, wish, !waiting);
    } catch (error) {
      if (!signal.aborted && !waiting) failed(error, wish);
    }
    under = null;
    if (waiting && !signal.aborted) send();
  }
}

// Controls

/** A matrix as cells to type in; arrow keys change a number by a tenth. */
function editor({ html }, name, words, state, changed) {
  const body = html("tbody");
  const shape = html("span", { class: "shape" });
  const element = html(
    "div",
    { class: "matrix-editor" },
    html("p", {}, html("b", {}, name), ` ${words} `, shape),
    html("div", { class: "scroller" }, html("table", { "aria-label": words }, body)),
  );
  fill();
  return { element, fill };

  function fill() {
    const rows = state[name];
    shape.textContent = `${rows.length} × ${rows[0].length}`;
    body.replaceChildren(
      ...rows.map((row, i) =>
        html(
          "tr",
          { class: state.before !== null && i >= state.before && "new" },
          html("th", { scope: "row" }, i + 1),
          row.map((value, j) => html("td", {}, cell(i, j, value))),
        ),
      ),
    );
  }

  function cell(i, j, value) {
    const label = `${name}, row ${i + 1}, column ${j + 1}`;
    const limits = { min: -SPAN, max: SPAN, step: 0.1 };
    return html("input", { type: "number", value, "aria-label": label, ...limits, on: { input } });

    function input({ currentTarget }) {
      const now = currentTarget.valueAsNumber;
      const fits = Math.abs(now) <= SPAN;
      currentTarget.setAttribute("aria-invalid", String(!fits));
      if (!fits) return;
      state[name][i][j] = now;
      changed();
    }
  }
}

function sizeControls({ html }, state, resized) {
  const input = (most) => html("input", { type: "number", min: 1, max: most, on: { change } });
  const [tokens, width, values] = [input(TOKENS), input(WIDTH), input(WIDTH)];
  const labels = [
    ["Tokens", tokens],
    ["Key width", width],
    ["Value width", values],
  ];
  fill();
  return { element: labels.map(([words, one]) => html("label", {}, words, one)), fill };

  function fill() {
    tokens.value = state.q.length;
    width.value = state.q[0].length;
    values.value = state.v[0].length;
  }

  function change() {
    const asked = [tokens, width, values].map((one) => {
      const value = Math.round(one.valueAsNumber);
      return Math.min(Number(one.max), Math.max(1, value || 1));
    });
    resized(...asked);
  }
}

/** β from 0, where all keys count alike, to ∞, where the best one counts alone. */
function betaControl({ html, format }, state, changed) {
  const slider = html("input", {
    type: "range",
    min: 0,
    max: END,
    step: 1,
    "aria-label": "β",
    on: { input },
  });
  const said = html("output", {});
  const to = (words, value) => {
    const click = () => {
      state.beta = value;
      show(value);
      changed();
    };
    return html("button", { type: "button", on: { click } }, words);
  };
  const element = html(
    "div",
    { class: "beta" },
    html("div", { class: "track" }, "0", slider, "∞"),
    html(
      "div",
      { class: "controls" },
      said,
      to("mean, β = 0", 0),
      to("1/√d", null),
      to("hard, β = ∞", "inf"),
    ),
  );
  show(state.beta);
  return { element, show };

  function input() {
    const at = Number(slider.value);
    const value = Number((10 ** ((at - END / 2) / 100)).toPrecision(3));
    state.beta = at === 0 ? 0 : at === END ? "inf" : value;
    tell(state.beta);
    changed();
  }

  /** `value` is what the server took, which says what 1/√d is; the hand on the slider leads. */
  function show(value) {
    if (value === null) return;
    if (document.activeElement !== slider || state.beta === null) slider.value = placeOf(value);
    tell(state.beta ?? value);
  }

  function tell(value) {
    const number = value === "inf" ? "∞" : format.number(value);
    const why = { 0: ": the mean", inf: ": the best key alone" }[value] ?? "";
    said.textContent = `β = ${number}${state.beta === null ? " = 1/√d" : why}`;
    slider.setAttribute("aria-valuetext", said.textContent);
  }

  function placeOf(value) {
    if (value === "inf") return END;
    if (value === 0) return 0;
    return Math.min(END - 1, Math.max(1, Math.round(END / 2 + 100 * Math.log10(value))));
  }
}

/** A mask, typed or put together from chips, and its picture on more tokens than the map has. */
function maskControl({ html, svg, choice, format }, state, changed) {
  let how = "&";
  let pause = 0;
  const wrong = html("p", { class: "trouble", role: "alert", hidden: true });
  const input = html("input", {
    type: "text",
    class: "expression",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "none",
    maxlength: 1000,
    placeholder: "none: every query reads every key",
    "aria-label": "Mask",
    on: { input: typed, blur: () => !wrong.hidden || (input.value = state.mask) },
  });
  input.value = state.mask;
  const chips = ATOMS.map((atom) =>
    html("button", { type: "button", class: "chip", on: { click: () => put(atom) } }, atom),
  );
  const clear = html("button", { type: "button", on: { click: () => set("") } }, "No mask");
  const joins = { "&": "and", "|": "or", "& ~": "and not" };
  const picture = html("div", { class: "preview" });
  const facts = html("p", { class: "note" });
  const element = html(
    "div",
    { class: "masking" },
    input,
    wrong,
    html(
      "div",
      { class: "controls" },
      html("span", {}, "Join with"),
      choice("Join the next with", joins, how, (key) => (how = key)),
      clear,
    ),
    html("div", { class: "chips", role: "group", "aria-label": "Masks" }, chips),
    html("div", { class: "seen" }, picture, facts),
  );
  return { element, show, blame };

  /** Half an expression is wrong, so one that is being typed is given a moment. */
  function typed() {
    state.mask = input.value.trim();
    clearTimeout(pause);
    pause = setTimeout(changed, TYPING);
  }

  function set(expression) {
    clearTimeout(pause);
    input.value = state.mask = expression;
    changed();
  }

  /** Brackets too many are taken away once the server has spelt it. */
  function put(atom) {
    if (state.mask) set(`(${state.mask}) ${how} ${atom}`);
    else set(how === "& ~" ? `~${atom}` : atom);
  }

  function show({ text, matrix, density, causal, reach }, asked) {
    wrong.hidden = true;
    input.removeAttribute("aria-invalid");
    if (asked === state.mask) {
      state.mask = text;
      if (document.activeElement !== input) input.value = text;
    }
    const side = 6;
    const box = `h${side - 1}v${side - 1}h${1 - side}z`;
    const cells = matrix.flatMap((row, i) =>
      row.map((may, j) => (may ? `M${j * side} ${i * side}${box}` : "")),
    );
    const size = PREVIEW * side;
    const label = `The mask on ${PREVIEW} tokens: ${format.percent(density, 0)} may be read`;
    picture.replaceChildren(
      svg(
        "svg",
        { width: size, height: size, role: "img", "aria-label": label },
        svg("rect", { class: "ground", width: size, height: size }),
        svg("path", { class: "open", d: cells.join("") }),
      ),
    );
    const back =
      reach === null ? "as far back as there are keys" : `${format.plural(reach, "key")} back`;
    facts.textContent =
      `On ${PREVIEW} tokens: ${format.percent(density)} of the map may be read. ` +
      (causal ? `No query reads a later key; it reaches ${back}.` : "Queries may read later keys.");
  }

  function blame(words) {
    wrong.textContent = words;
    wrong.hidden = false;
    input.setAttribute("aria-invalid", "true");
  }
}

function moreControl({ html, format }, { add, back }) {
  const more = html("button", { type: "button", class: "add", on: { click: add } }, "Add a token");
  const hidden = { type: "button", hidden: true, on: { click: back } };
  const less = html("button", hidden, "Take it back");
  const words = html("div", { class: "story", role: "status" });
  const buttons = html("div", { class: "controls" }, more, less);
  const element = html("div", { class: "more-token" }, buttons, words);
  return { element, show };

  function show(answer, { before, q }) {
    const n = q.length;
    more.disabled = n >= TOKENS;
    less.hidden = before === null;
    const lines = before === null ? beforehand(answer, n) : afterwards(answer, before, n);
    words.replaceChildren(...lines.filter(Boolean).map((line) => html("p", {}, line)));
  }

  function beforehand({ causal }, n) {
    return [
      causal
        ? "Under this mask nothing reads what comes later: of a token more, " +
          `row ${n + 1} alone would be new.`
        : "Under this mask queries may read later keys: a token more may change old rows.",
    ];
  }

  function afterwards({ more: grown, allowed, causal }, before, n) {
    const count = (rows) => rows.flat().reduce((sum, may) => sum + may, 0);
    const fresh = count(allowed.slice(before));
    const moved = grown.kept.flatMap((kept, i) => (kept ? [] : [i + 1]));
    const kept = count(allowed.slice(0, before).filter((_, i) => grown.kept[i]));
    const entries = (number) => format.plural(number, "entry", "entries");
    const own =
      `From the kept keys and values alone, row ${n} comes out the same as from the whole map` +
      (grown.from_kept > 0 ? `, to ${format.number(grown.from_kept)}.` : ".");
    if (!moved.length) {
      return [
        `${entries(fresh)} of row ${n} are new; all ${kept} of the rows above are kept: ` +
          `no old query reads the new key, so none of their weights changes.`,
        !causal && "That is so here, though this mask does let some queries read later keys.",
        own,
      ];
    }
    const rows = moved.length === 1 ? `row ${moved[0]} changes` : `rows ${listed(moved)} change`;
    const most = format.number(Math.max(...grown.changes));
    return [
      `Row ${n} is new, and the old ${rows} as well, by up to ${most}: this mask is not causal, ` +
        "so old queries read the new key. What was kept of them is wrong now, and they are " +
        "computed anew.",
      kept > 0 && `${entries(kept)} of the other rows are kept.`,
      own,
    ];
  }
}

const listed = (numbers) => `${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`;

// Maps of numbers

/** What is "new", "kept" or "changed" in a map that has just grown; nothing in one that has not. */
function markOf({ more, wish }, i) {
  if (!more) return "";
  if (i >= wish.before) return "new";
  return more.kept[i] ? "kept" : "changed";
}

function mapOf(answer, show) {
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

function slopesOf({ jacobian, allowed, row }) {
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
function heat(tools, { label, say, choose }) {
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
const PRINTED = {
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
function drawMap(map, room, look, { svg }, title = "") {
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

// Words

function titleOf({ wish, beta }, show) {
  const sharpness = beta === "inf" ? "∞" : Number(beta.toPrecision(3));
  return `${show}, β = ${sharpness}, mask: ${wish.mask || "none"}`;
}

function aboutMap({ beta, weights }, show) {
  if (show === "scores") {
    return beta === "inf"
      ? "At β = ∞ a score has no number: its order among the others alone counts."
      : "What softmax is given: β times the product of a query and a key. Below zero is orange.";
  }
  const blind = weights.flatMap((row, i) => (row.some(Boolean) ? [] : [i + 1]));
  if (blind.length) {
    const who = blind.length > 1 ? `Queries ${listed(blind)} read` : `Query ${blind[0]} reads`;
    return `${who} nothing: the mask shuts every key, and what is read is 0.`;
  }
  return "Each row sums to 1. A dot is a key that the mask shuts. Choose a row for its slope.";
}

/** What the steepest slope says of softmax there; a quarter is the most there can be. */
function tempered(steepest) {
  if (steepest < 1e-3) return "softmax is saturated there, and hardly moves.";
  return steepest > 0.2 ? "a quarter is the most there can be." : "it can be a quarter at most.";
}

function readTable({ read, weights, row }, { html, format }, chooseRow) {
  const columns = read[0].map((_, e) => format.column(read.map((each) => each[e])));
  const terms = weights[row].flatMap((weight, j) =>
    weight > 0.0005 ? [`${format.number(Number(weight.toFixed(3)))} v${below(j + 1)}`] : [],
  );
  return [
    html(
      "p",
      { class: "sum" },
      `read${below(row + 1)} = ${terms.join(" + ") || "0"}`,
    ),
    html(
      "div",
      { class: "scroller" },
      html(
        "table",
        { class: "numbers" },
        html(
          "tbody",
          {},
          read.map((_, i) =>
            html(
              "tr",
              { class: i === row && "chosen", on: { click: () => chooseRow(i) } },
              html("th", { scope: "row" }, i + 1),
              columns.map((column) => html("td", { class: "number" }, column[i])),
            ),
          ),
        ),
      ),
    ),
  ];
}

const below = (number) => [...String(number)].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]).join("");
