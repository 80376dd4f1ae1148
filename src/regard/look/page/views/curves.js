/**
 * How figures went with the epochs: a chart for each quantity, a colour for each run.
 *
 * The quantity is what follows the dot: "validation.accuracy" and "train.accuracy" share a chart.
 */

const SHARES = /accuracy|top\d|precision|recall|f1|share|^true$/; // of 1, so in percent
const DOWN = /loss|error|perplexity|brier/; // better when smaller

export function render(element, { runs = [] }, { html, empty, chart, colour, format }) {
  const told = toldApart(runs.filter((run) => run.lines?.length));
  const quantities = [...new Set(told.flatMap((run) => keys(run).map(([, quantity]) => quantity)))];
  if (!quantities.length) return element.append(empty("No epoch has been recorded yet."));

  const hidden = new Set();
  const charts = [];
  const grid = html("div", { class: "charts" });
  element.append(legend(), grid);
  for (const quantity of quantities) {
    const unit = SHARES.test(quantity) ? "%" : "";
    const words = quantity.replaceAll("_", " ");
    const figure = html("figure", {}, html("figcaption", {}, words));
    grid.append(figure);
    const label = `${words} by epoch, ${format.plural(told.length, "run")}`;
    const options = { label, x: { name: "epoch" }, y: { name: words, unit }, moved };
    const [series, marks] = content(quantity, unit);
    charts.push({ quantity, unit, ...chart(figure, { ...options, series, marks }) });
  }

  function content(quantity, unit) {
    const inked = told.map((run, i) => ({ ...run, ink: colour.ink(i) }));
    const shown = inked.filter((run) => !hidden.has(run.name));
    const series = shown.flatMap((run) =>
      keys(run)
        .filter(([, word]) => word === quantity)
        .map(([split, , key]) => ({
          name: run.name,
          ink: run.ink,
          kind: split,
          points: run.lines.map((line, i) => [line.epoch ?? i + 1, line[key] ?? null]),
        })),
    );
    // Train lines first, so that validation lies on top of them.
    series.sort((a, b) => (b.kind === "train") - (a.kind === "train"));
    return [series, shown.flatMap((run) => marksOf(run, quantity, unit))];
  }

  /** The test figure as a diamond at the last epoch, the best validation epoch as a dot. */
  function marksOf(run, quantity, unit) {
    const marks = [];
    const value = run.marks?.[quantity];
    const epochs = run.lines.map((line, i) => line.epoch ?? i + 1);
    if (Number.isFinite(value)) {
      const words = told.length === 1 && `test ${format.quantity(value, unit)}`;
      const at = { x: epochs.at(-1), y: value };
      marks.push({ name: run.name, ink: run.ink, kind: "test", shape: "diamond", words, ...at });
    }
    const figures = run.lines.map((line) => line[`validation.${quantity}`]);
    const known = figures.filter(Number.isFinite);
    const kept = run.lines.findLastIndex((line) => line.best === true);
    if (kept >= 0 && known.length > 1 && Number.isFinite(figures[kept])) {
      marks.push({ ink: run.ink, x: epochs[kept], y: figures[kept], shape: "dot" });
    } else if (known.length > 1) {
      const best = known.reduce((a, b) => (DOWN.test(quantity) ? Math.min(a, b) : Math.max(a, b)));
      marks.push({ ink: run.ink, x: epochs[figures.indexOf(best)], y: best, shape: "dot" });
    }
    return marks;
  }

  function moved(epoch) {
    for (const one of charts) one.point(epoch);
  }

  function legend() {
    const splits = [...new Set(told.flatMap((run) => keys(run).map(([split]) => split)))];
    const tested = told.some((run) => Object.keys(run.marks ?? {}).length);
    const key = (kind, words) =>
      html("span", { class: "key" }, html("i", { class: `swatch ${kind}` }), words);
    return html(
      "div",
      { class: "legend" },
      told.length > 1 && told.map((run, i) => runButton(run, colour.ink(i))),
      html(
        "span",
        { class: "kinds" },
        splits.map((split) => key(split, split)),
        splits.includes("validation") && key("dot", "best validation"),
        tested && key("diamond", "test"),
      ),
    );
  }

  function runButton(run, ink) {
    const on = {
      click: ({ currentTarget }) => {
        if (!hidden.delete(run.name)) hidden.add(run.name);
        currentTarget.setAttribute("aria-pressed", String(!hidden.has(run.name)));
        for (const one of charts) one.show(...content(one.quantity, one.unit));
      },
    };
    const attributes = { type: "button", class: "key", "aria-pressed": "true", on };
    return html("button", attributes, html("i", { class: `swatch ${ink}` }), run.name);
  }
}

/** Runs of one name are numbered. */
function toldApart(runs) {
  const seen = new Map();
  return runs.map((run) => {
    const count = (seen.get(run.name) ?? 0) + 1;
    seen.set(run.name, count);
    return count > 1 ? { ...run, name: `${run.name} (${count})` } : run;
  });
}

/** [split, quantity, key] for every figure with a dot in its name that some line has. */
function keys(run) {
  const names = new Set(run.lines.flatMap((line) => Object.keys(line)));
  return [...names]
    .filter((name) => name.includes("."))
    .map((name) => {
      const dot = name.indexOf(".");
      return [name.slice(0, dot), name.slice(dot + 1), name];
    });
}
