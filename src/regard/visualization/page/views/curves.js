/**
 * How figures went with the epochs: a chart for each quantity, a colour for each run.
 *
 * The quantity is what follows the slash: "val/accuracy" and "train_eval/accuracy" share a chart.
 */

export function render(element, { runs = [] }, { html, empty, colour, format, epochs }) {
  const { epochCharts, epochOf, figuresIn, legendKey, lowerIsBetter, seriesOf, unitOf, wordsOf } =
    epochs;
  const told = toldApart(runs.filter((run) => run.lines?.length)).map((run, i) => {
    const deciding = figuresIn(run.lines).find(([split]) => split === "validation")?.[1];
    const kept = keptOf(run.lines, deciding, lowerIsBetter);
    return { ...run, ink: colour.ink(i), deciding, kept };
  });
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

  /** The epoch whose weights were kept: its validation as a dot, their test as a diamond. */
  function marksOf(run, quantity) {
    const marks = [];
    const { name, ink, kept } = run;
    const value = run.marks?.[quantity];
    const at = run.lines.map(epochOf);
    if (Number.isFinite(value)) {
      const words = one && `test ${format.quantity(value, unitOf(quantity))}`;
      const place = { x: at.at(kept), y: value }; // −1 is the last
      marks.push({ name, ink, kind: "test", shape: "diamond", words, ...place });
    }
    const figures = run.lines.map((line) => line[`val/${quantity}`]);
    if (Number.isFinite(figures[kept]) && figures.filter(Number.isFinite).length > 1) {
      marks.push({ ink, x: at[kept], y: figures[kept], shape: "dot" });
    }
    return marks;
  }

  function legend() {
    const splits = [...new Set(known.map(([split]) => split))];
    const tested = told.some((run) => Object.keys(run.marks ?? {}).length);
    const deciding = [...new Set(told.map((run) => run.deciding).filter(Boolean))].map(wordsOf);
    return html(
      "div",
      { class: "legend" },
      !one && told.map(runButton),
      html(
        "span",
        { class: "kinds" },
        splits.map((split) => legendKey(split, split)),
        deciding.length > 0 && legendKey("dot", `best validation ${deciding.join(" or ")}`),
        tested && legendKey("diamond", "test, with the weights kept"),
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

/** The line whose weights were kept: the last that says so, else the best; −1 where none can be. */
function keptOf(lines, deciding, lowerIsBetter) {
  const said = lines.findLastIndex((line) => line.is_best === true);
  if (said >= 0) return said;
  const figures = lines.map((line) => line[`val/${deciding}`]);
  const better = lowerIsBetter(deciding) ? Math.min : Math.max;
  const best = figures.filter(Number.isFinite).reduce((a, b) => better(a, b), better());
  return figures.indexOf(best); // of none the best is infinite, and at no place
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
