/**
 * The lab: statements about attention as cards, and each of them measured, with numbers of yours.
 *
 * #lab shows all, #lab?verdict=corrected some, and #lab/beta-limits?keys=9 one, measured with nine
 * keys. Formulas come from the server as MathML.
 */

const VERDICTS = {
  holds: "true as it is written",
  corrected: "not true as it is written, but something near it is",
  depends: "true where a condition is met, and not where it is not",
  answered: "an open question, and it has an answer",
};
/** What figures are of, and whether they are to pass. */
const GROUPS = {
  written: ["The statement as it is written", null],
  corrected: ["Its correction", true],
  inside: ["Where its condition is met", true],
  outside: ["Where it is not", false],
  answer: ["The answer", true],
  controls: ["Controls, whose ground was taken away: these must fail", false],
};
const SIGNS = { "at most": "≤", "at least": "≥", equal: "=" };
const MATHML = "http://www.w3.org/1998/Math/MathML";
const PLAIN = new Set(["class", "stretchy", "lspace", "rspace", "form", "display", "mathvariant"]);

export async function render(element, context) {
  const claims = await context.api.lab(context.signal);
  const { id } = context.params;
  if (!id) return showAll(element, claims, context);
  const at = claims.findIndex((claim) => claim.id === id);
  if (at < 0) throw Object.assign(new Error(`There is no claim “${id}”.`), { status: 404 });
  return showOne(element, claims, at, context);
}

// All of them

function showAll(element, claims, { params, remember, tools }) {
  const { html, choice, format } = tools;
  const count = (verdict) => claims.filter((claim) => claim.verdict === verdict).length;
  const words = Object.keys(VERDICTS).map((verdict) => [verdict, `${verdict} ${count(verdict)}`]);
  const choices = { all: `all ${claims.length}`, ...Object.fromEntries(words) };
  let chosen = params.verdict in VERDICTS ? params.verdict : "all";
  const meaning = html("p", { class: "note", role: "status" });
  const list = html("div", {});
  element.append(
    html(
      "header",
      {},
      html("h1", {}, "The theory, checked"),
      html(
        "p",
        { class: "subtitle" },
        `${format.plural(claims.length, "statement")} on attention from course documents, each ` +
          "turned into figures that can fail. Open one to measure it, with numbers of your own.",
      ),
    ),
    html("div", { class: "controls" }, choice("Verdict", choices, chosen, choose)),
    meaning,
    list,
  );
  draw();

  function choose(verdict) {
    chosen = verdict;
    remember({ verdict: verdict === "all" ? null : verdict });
    draw();
  }

  function draw() {
    meaning.textContent = VERDICTS[chosen] ? `${chosen}: ${VERDICTS[chosen]}` : "";
    const shown = claims.filter((claim) => chosen === "all" || claim.verdict === chosen);
    const groups = Map.groupBy(shown, (claim) => claim.source[0]);
    list.replaceChildren(
      ...[...groups].sort().map(([letter, some]) =>
        html(
          "section",
          { class: "document" },
          html("h2", {}, `${letter}: ${some[0].document.split(";")[0]}`),
          html(
            "ul",
            { class: "claims" },
            some.map((claim) => card(claim, tools)),
          ),
        ),
      ),
    );
  }
}

function card(claim, { html }) {
  return html(
    "li",
    { class: "claim" },
    html(
      "div",
      { class: "top" },
      html("a", { href: `#lab/${claim.id}` }, claim.id),
      html("span", { class: "source" }, claim.source),
      badge(html, claim.verdict),
    ),
    html("p", {}, typeset(claim.statement_html, claim.statement)),
  );
}

function badge(html, verdict) {
  return html("span", { class: `badge ${verdict}` }, verdict);
}

// One of them

async function showOne(element, claims, at, { api, params, remember, signal, entitle, tools }) {
  const { html } = tools;
  const claim = claims[at];
  const fields = claim.numbers.map((number) => field(number, params[number.name], tools));
  const result = html("div", { class: "result", "aria-live": "polite" });
  const run = html("button", { class: "primary" }, "Measure");
  const reset = html("button", { type: "button", on: { click: ours } }, "The lab’s own numbers");
  const whole = html("a", { href: "#lab" }, "All statements");
  entitle(claim.id);
  element.append(
    html(
      "header",
      {},
      html("p", { class: "way" }, whole, beside(-1), beside(1)),
      html("div", { class: "heading" }, html("h1", {}, claim.id), badge(html, claim.verdict)),
      html("p", { class: "source" }, `${claim.source} · ${claim.document}`),
    ),
    html(
      "div",
      { class: "one" },
      html(
        "div",
        { class: "told" },
        html("blockquote", {}, typeset(claim.statement_html, claim.statement)),
        html("p", { class: "truth" }, typeset(claim.truth_html, claim.truth)),
        html(
          "form",
          { class: "numbers-form", on: { submit } },
          html("h2", {}, fields.length ? "Your own numbers" : "Measure it"),
          fields.map((one) => one.element),
          html("div", { class: "controls" }, run, fields.length > 0 && reset),
        ),
      ),
      result,
    ),
  );
  await measure();

  function beside(step) {
    const other = claims[at + step];
    const words = step < 0 ? "← " : " →";
    if (!other) return null;
    const name = step < 0 ? words + other.id : other.id + words;
    return html("a", { href: `#lab/${other.id}`, rel: step < 0 ? "prev" : "next" }, name);
  }

  function ours() {
    for (const one of fields) one.reset();
    measure();
  }

  function submit(event) {
    event.preventDefault();
    measure();
  }

  async function measure() {
    const values = fields.map((one) => [one.name, one.read()]);
    if (values.some(([, value]) => value === undefined)) {
      fields.find((one) => one.read() === undefined).focus();
      return;
    }
    const changed = fields.filter((one) => one.changed());
    const kept = fields.map((one) => [one.name, one.changed() ? one.spelt() : null]);
    remember(Object.fromEntries(kept));
    run.disabled = true;
    result.setAttribute("aria-busy", "true");
    try {
      const numbers = Object.fromEntries(
        values.filter(([name]) => changed.some((one) => one.name === name)),
      );
      const found = await api.claim(claim.id, numbers, signal);
      result.replaceChildren(...outcome(found, claim, Object.fromEntries(values), tools));
    } catch (error) {
      if (signal.aborted) return;
      result.replaceChildren(html("p", { class: "trouble", role: "alert" }, error.message));
    }
    run.disabled = false;
    result.removeAttribute("aria-busy");
  }
}

/** One number, or several with spaces between them. */
function field({ name, kind, default: ours, help }, asked, { html }) {
  const several = kind === "ints" || kind === "floats";
  const whole = kind === "int" || kind === "ints";
  const spell = (value) => (several ? value.join(" ") : String(value));
  const id = `number-${name}`;
  const input = html("input", {
    id,
    type: "text",
    inputmode: several ? "text" : whole ? "numeric" : "decimal",
    autocomplete: "off",
    "aria-describedby": `${id}-help`,
    on: { input: () => input.setAttribute("aria-invalid", String(read() === undefined)) },
  });
  input.value = asked ?? spell(ours);
  const hint = several ? `${help} Several, with spaces between.` : help;
  const element = html(
    "div",
    { class: "field" },
    html("label", { for: id }, name.replaceAll("_", " ")),
    input,
    html("p", { class: "note", id: `${id}-help` }, hint),
  );
  return {
    name,
    element,
    read,
    spelt: () => input.value.trim(),
    changed: () => JSON.stringify(read()) !== JSON.stringify(ours),
    focus: () => input.focus(),
    reset: () => {
      input.value = spell(ours);
      input.removeAttribute("aria-invalid");
    },
  };

  /** What is typed, or undefined where it is no number. */
  function read() {
    const words = input.value.replaceAll("−", "-").trim().split(/[\s,]+/).filter(Boolean);
    const values = words.map(Number);
    const fits = values.every(whole ? Number.isInteger : Number.isFinite);
    if (!words.length || !fits || (!several && values.length > 1)) return undefined;
    return several ? values : values[0];
  }
}

// What was found

function outcome(found, claim, numbers, tools) {
  const { html, format, picture } = tools;
  const image = picture(found.picture);
  const spelt = Object.entries(numbers).map(
    ([name, value]) => `--${name.replaceAll("_", "-")} ${[value].flat().join(" ")}`,
  );
  const about = { class: "plot", src: image, alt: `Picture of what ${claim.id} found` };
  const plot = image ? html("img", about) : null;
  return [
    html("h2", {}, "Found: ", verdictWords(found)),
    html("p", { class: "deciding" }, found.deciding),
    ...Object.entries(found.checks).map(([group, checks]) => groupTable(group, checks, tools)),
    plot,
    html(
      "div",
      { class: "controls saving" },
      plot && tools.savingButtons(claim.id, () => tools.framed(plot)),
      tools.savingTable(claim.id, figuresOf(found)),
    ),
    found.notes.length > 0 &&
      html(
        "ul",
        { class: "notes" },
        found.notes.map((note) => html("li", { class: "note" }, note)),
      ),
    html(
      "p",
      { class: "note command" },
      `${format.number(found.seconds)} s. In a terminal: `,
      html("code", {}, ["regard lab", claim.id, ...spelt].join(" ")),
    ),
  ].filter(Boolean);
}

/** All figures as rows, for a spreadsheet. */
function figuresOf({ checks }) {
  const rows = Object.entries(checks).flatMap(([group, some]) =>
    some.map(({ words, value, relation, bound, ok }) => [group, words, value, relation, bound, ok]),
  );
  return [["of", "figure", "value", "relation", "bound", "passes"], ...rows];
}

/** With numbers of one's own a statement may be about what is not the case: that is no fault. */
function verdictWords({ found, own, agrees, verdict }) {
  if (own && found === "disputed") {
    return "neither way with these numbers; what the statement is about is not the case there";
  }
  if (own) return `${found}, with your numbers`;
  return agrees ? found : `${found}, and should be ${verdict}`;
}

function groupTable(group, checks, { html }) {
  const [title, passes] = GROUPS[group];
  return html(
    "div",
    { class: "scroller", tabindex: 0, role: "region", "aria-label": title },
    html("h3", {}, title),
    html("table", { class: "checks" }, html("tbody", {}, checks.map(row))),
  );

  /** A figure that fails where it must is as it should be. */
  function row({ words, value, relation, bound, ok }) {
    const wrong = passes !== null && ok !== passes;
    const mark = { role: "img", "aria-label": ok ? "passes" : "fails" };
    return html(
      "tr",
      { class: wrong ? "wrong" : "" },
      html("td", { class: "mark" }, html("span", mark, ok ? "✓" : "✗")),
      html("td", {}, words),
      html("td", { class: "number" }, figure(value)),
      html("td", { class: "number bound" }, `${SIGNS[relation]} ${figure(bound)}`),
    );
  }
}

/** Four digits, as the lab prints them. */
function figure(value) {
  if (value === null) return "no number";
  const whole = Number.isInteger(value) && Math.abs(value) < 1e15;
  const size = Math.abs(value);
  const plain = size >= 1e-4 && size < 1e4;
  const words = whole
    ? value.toLocaleString("en")
    : plain
      ? String(Number(value.toPrecision(4)))
      : value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
  return words.replaceAll("-", "−");
}

/**
 * Text with formulas, from the server's markup: MathML and spans, and of anything else the words.
 *
 * Formulas are copied element by element, so that nothing but formulas can come in this way.
 */
function typeset(markup, words) {
  if (!markup) return words;
  const parsed = new DOMParser().parseFromString(markup, "text/html").body;
  return [...parsed.childNodes].map(copied);
}

function copied(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  const maths = node.namespaceURI === MATHML;
  if (node.nodeType !== Node.ELEMENT_NODE || !(maths || node.localName === "span")) {
    return document.createTextNode(node.textContent ?? "");
  }
  const made = maths
    ? document.createElementNS(MATHML, node.localName)
    : document.createElement("span");
  for (const { name, value } of node.attributes) {
    if (PLAIN.has(name)) made.setAttribute(name, value);
  }
  made.append(...[...node.childNodes].map(copied));
  return made;
}
