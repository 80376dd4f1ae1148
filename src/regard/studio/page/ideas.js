/**
 * The formula live: change a number of q, k or v, β or the mask, and see what each query reads.
 *
 * Nothing of attention is computed here. The server is asked, one thing at a time and always the
 * newest, and its answer is drawn. All that was chosen stands in the address.
 */

import { NAMES, TOKENS, addressOf, cut, rounded, stateFrom } from "studio/ideas/chosen";
import { betaControl, editor, sizeControls } from "studio/ideas/controls";
import { PRINTED, drawMap, heat, mapOf, slopesOf } from "studio/ideas/map";
import { PREVIEW, maskControl } from "studio/ideas/mask";
import { listed, markOf, moreControl } from "studio/ideas/more";
import { newest } from "studio/ideas/newest";

const MATHML = "http://www.w3.org/1998/Math/MathML";

export async function render(element, { api, params, remember, signal, tools }) {
  const { html, choice, format } = tools;
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
              tools.savingButtons(() => `attention-${state.show}`, printed),
            ),
            weights.element,
            about,
          ]),
          panel(tools, slopeTitle, [
            slopes.element,
            slopeWords,
            html("div", { class: "controls saving" }, tools.savingButtons("slope", printedSlope)),
          ]),
        ),
        panel(tools, "One more token", [more.element]),
        panel(tools, "Read: the values, weighted", [
          reads,
          html("div", { class: "controls saving" }, tools.savingTable("read", rowsRead)),
        ]),
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

  function rowsRead() {
    return drawn ? [drawn.read[0].map((_, i) => `value ${i + 1}`), ...drawn.read] : [];
  }

  function printed() {
    if (!drawn) return null;
    return drawMap(mapOf(drawn, state.show), 560, PRINTED, tools, titleOf(drawn, state.show));
  }

  function printedSlope() {
    if (!drawn) return null;
    const title = `${slopeTitle.textContent}, ${titleOf(drawn, "weights")}`;
    return drawMap(slopesOf(drawn), 560, PRINTED, tools, title);
  }
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
