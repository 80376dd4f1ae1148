/** Where a mask is put together. */

export const PREVIEW = 24; // tokens of the mask's picture
const TYPING = 250; // milliseconds in which someone who types may go on
const ATOMS = ["causal", "window(3)", "sinks(1)", "strided(2)", "dilated(2, 2)", "blocks(3)"];
ATOMS.push("prefix(2)", "global_tokens(1)", "block_summary(3, 1)", "random_keys(2, 6)");

/** A mask, typed or put together from chips, and its picture on more tokens than the map has. */
export function maskControl(tools, state, changed) {
  const { html, svg, choice, format } = tools;
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
    html("div", { class: "controls saving" }, tools.savingButtons("mask", printed)),
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

  function printed() {
    const drawing = picture.querySelector("svg");
    const words = `${state.mask || "no mask"}, on ${PREVIEW} tokens`;
    return drawing && tools.sheet(words, [["", tools.printed(drawing)]]);
  }

  function blame(words) {
    wrong.textContent = words;
    wrong.hidden = false;
    input.setAttribute("aria-invalid", "true");
  }
}
