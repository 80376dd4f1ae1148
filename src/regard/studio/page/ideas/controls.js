/** Where numbers are put in: the matrices, their sizes, and β. */

import { TOKENS, WIDTH } from "studio/ideas/chosen";

const SPAN = 1000; // the largest number that a cell takes
const END = 400; // of the slider: its ends are 0 and ∞, and between them a hundred steps are × 10

/** A matrix as cells to type in; arrow keys change a number by a tenth. */
export function editor({ html }, name, words, state, changed) {
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

export function sizeControls({ html }, state, resized) {
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
export function betaControl({ html, format }, state, changed) {
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
