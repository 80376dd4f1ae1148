/**
 * How figures went with the epochs: a chart for each quantity, a colour for each run.
 *
 * The quantity is what follows the dot: "validation.accuracy" and "train.accuracy" share a chart.
 */

const DOWN = /loss|error|perplexity|brier/; // better when smaller

export function render(element, { runs = [] }, { html, empty, colour, format, epochs }) {
  const { epochCharts, epochOf, figuresIn, legendKey, seriesOf, unitOf } = epochs;
  const told = toldApart(runs.filter((run) => run.lines?.length)).map((run, i) => ({
    ...run,
    ink: colour.ink(i),
  }));
  const known = told.flatMap((run) => figuresIn(run.lines));
  const quantities = [...new Set(known.map(([, quantity]) => quantity))];
  if (!quantities.length) return element.append(empty("No epoch has been recorded yet."));

  const hidden = new Set();
  const one = told.length === 1;
  const charts = epochCharts(element, legend(), {
    title: one ? told[0].name : "",
    about: `, ${format.plural(told.length, "run")}`,
  });
  draw();

  function draw() {
    for (const quantity of quantities) charts.show(quantity, ...content(quantity));
  }

  function content(quantity) {
    const shown = told.filter((run) => !hidden.has(run.name));
    const series = shown.flatMap((run) =>
      seriesOf(run.lines, quantity, () => ({ name: run.name, ink: run.ink })),
    );
    series.sort((a, b) => (b.kind === "train") - (a.kind === "train")); // of all runs
    return [series, shown.flatMap((run) => marksOf(run, quantity))];
  }

  /** The test figure as a diamond at the last epoch, the best validation epoch as a dot. */
  function marksOf(run, quantity) {
    const marks = [];
    const value = run.marks?.[quantity];
    const at = run.lines.map(epochOf);
    if (Number.isFinite(value)) {
      const words = one && `test ${format.quantity(value, unitOf(quantity))}`;
      const place = { x: at.at(-1), y: value };
      marks.push({ name: run.name, ink: run.ink, kind: "test", shape: "diamond", words, ...place });
    }
    const figures = run.lines.map((line) => line[`validation.${quantity}`]);
    const measured = figures.filter(Number.isFinite);
    const kept = run.lines.findLastIndex((line) => line.best === true);
    if (kept >= 0 && measured.length > 1 && Number.isFinite(figures[kept])) {
      marks.push({ ink: run.ink, x: at[kept], y: figures[kept], shape: "dot" });
    } else if (measured.length > 1) {
      const better = DOWN.test(quantity) ? Math.min : Math.max;
      const best = measured.reduce((a, b) => better(a, b));
      marks.push({ ink: run.ink, x: at[figures.indexOf(best)], y: best, shape: "dot" });
    }
    return marks;
  }

  function legend() {
    const splits = [...new Set(known.map(([split]) => split))];
    const tested = told.some((run) => Object.keys(run.marks ?? {}).length);
    return html(
      "div",
      { class: "legend" },
      !one && told.map(runButton),
      html(
        "span",
        { class: "kinds" },
        splits.map((split) => legendKey(split, split)),
        splits.includes("validation") && legendKey("dot", "best validation"),
        tested && legendKey("diamond", "test"),
      ),
    );
  }

  function runButton(run) {
    const on = {
      click: ({ currentTarget }) => {
        if (!hidden.delete(run.name)) hidden.add(run.name);
        currentTarget.setAttribute("aria-pressed", String(!hidden.has(run.name)));
        draw();
      },
    };
    const attributes = { type: "button", class: "key", "aria-pressed": "true", on };
    return html("button", attributes, html("i", { class: `swatch ${run.ink}` }), run.name);
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
