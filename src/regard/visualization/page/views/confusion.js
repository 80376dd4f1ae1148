/**
 * Which classes were taken for which. A row is the truth, a column the answer.
 *
 * Right answers are blue and mistakes orange, each on a scale of its own: otherwise the diagonal
 * of a good model would leave every mistake white.
 */

const NUMBERED = 20; // more classes than this leave no room for numbers in the cells
const NAMED = 45; // nor, beyond this, for names beside them
const SHADES = 24;
const FULL = { right: "#1f5fa8", wrong: "#b3500b" }; // as the page has them in the light
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function render(element, { classes = [], counts = [] }, tools) {
  const { html, svg, empty, fit, format, choice, shortened, hint, unhint } = tools;
  const n = classes.length;
  const totals = counts.map((row) => row.reduce((sum, count) => sum + count, 0));
  if (!n || !totals.some(Boolean)) return element.append(empty("There are no answers to count."));

  const share = (i, j) => (totals[i] ? counts[i][j] / totals[i] : 0);
  const mistakes = counts
    .flatMap((row, i) => row.map((count, j) => ({ i, j, count, share: share(i, j) })))
    .filter(({ i, j, count }) => i !== j && count)
    .sort((a, b) => b.count - a.count || b.share - a.share);
  const worst = mistakes.reduce((most, { share }) => Math.max(most, share), 0);

  let unit = "percent";
  let cursor = null; // [row, column], moved by the arrow keys
  let size = null; // of the last drawing
  const area = html("div", { class: "area" });
  const frame = html(
    "div",
    {
      class: n > NUMBERED ? "matrix" : "matrix few",
      tabindex: 0,
      role: "application",
      "aria-label": `${format.plural(n, "class", "classes")}; arrow keys move from cell to cell`,
      on: listeners(),
    },
    area,
  );
  const units = { percent: "Percent of the row", counts: "Counts" };
  element.append(
    html(
      "div",
      { class: "controls" },
      n <= NUMBERED && choice("Numbers in the cells", units, unit, (key) => redraw((unit = key))),
      key("right", "right", 1),
      worst > 0 && key("wrong", "mistaken", worst),
    ),
    frame,
  );
  if (mistakes.length && n > 2) element.append(list(mistakes.slice(0, 6)));
  fit(area, draw);
  element.append(
    html("div", { class: "controls saving" }, tools.savingButtons("confusion", saved)),
  );

  function saved() {
    const ends = [["right", "right", 1], ...(worst > 0 ? [["wrong", "mistaken", worst]] : [])];
    const keys = ends.map(([kind, words, most]) => ({
      kind: "area",
      words: `${words}, the full colour is ${format.percent(most, 0)} of a row`,
      colour: FULL[kind],
    }));
    return tools.sheet("Confusion", [["", tools.printed(area.firstChild)]], keys);
  }

  function redraw() {
    draw(size.width);
  }

  function draw(width) {
    size = measure(width);
    const { cell, left, top, side } = size;
    const named = n <= NAMED;
    area.replaceChildren(
      svg(
        "svg",
        { width: left + Math.max(64, side + 2), height: top + side + 2, "aria-hidden": "true" },
        svg("rect", { class: "ground", x: left, y: top, width: side, height: side }),
        shades(),
        n <= NUMBERED && cell >= 19 && numbers(),
        named && classes.map((name, i) => names(shortened(name, size.letters), i)),
        svg("text", { class: "axis", x: left, y: 12 }, named ? "answer →" : "answer →, truth ↓"),
        named && svg("text", { class: "axis end", x: left - 7, y: top - 7 }, "truth ↓"),
        svg("rect", { class: "cursor", width: cell, height: cell, visibility: "hidden" }),
      ),
    );
    if (cursor) aim();
  }

  /** A class's name at its row and, turned, at its column. */
  function names(words, i) {
    const { cell, left, top } = size;
    const middle = (i + 0.5) * cell + 4;
    const turned = `translate(${left + middle} ${top - 7}) rotate(-90)`;
    return [
      svg("text", { class: "tick end", x: left - 7, y: top + middle }, words),
      svg("text", { class: "tick", transform: turned }, words),
    ];
  }

  function measure(width) {
    const longest = classes.reduce((most, name) => Math.max(most, String(name).length), 0);
    const letters = Math.min(longest, width < 500 ? 9 : 18);
    const margin = n <= NAMED ? Math.max(64, 16 + letters * 6.6) : 4; // truth ↓ fits in 64
    const room = (Math.min(width, 760) - margin - 4) / n;
    const cell = n > NUMBERED ? Math.max(2, room) : Math.min(46, Math.floor(room)); // sharp edges
    return { width, letters, left: margin, top: margin + 14, cell, side: cell * n };
  }

  /** Cells of one shade are one path, so a hundred classes are not ten thousand elements. */
  function shades() {
    const { cell, left, top } = size;
    const gap = cell > 8 ? 1 : 0;
    const paths = new Map();
    for (let i = 0; i < n; i += 1) {
      for (let j = 0; j < n; j += 1) {
        if (!counts[i][j]) continue;
        const level = Math.max(1, Math.round(SHADES * depth(i, j)));
        const shade = `${i === j ? "right" : "wrong"} ${level}`;
        const box =
          `M${(left + j * cell).toFixed(2)} ${(top + i * cell).toFixed(2)}` +
          `h${(cell - gap).toFixed(2)}v${(cell - gap).toFixed(2)}h${-(cell - gap).toFixed(2)}z`;
        paths.set(shade, (paths.get(shade) ?? "") + box);
      }
    }
    return [...paths].map(([shade, d]) => {
      const [kind, level] = shade.split(" ");
      return svg("path", { d, style: { fill: mixture(kind, level / SHADES) } });
    });
  }

  function numbers() {
    const { cell, left, top } = size;
    return counts.flatMap((row, i) =>
      row.map((count, j) => {
        if (!count) return null;
        const percent = format.percent(share(i, j), 0).replace("%", "");
        const attributes = {
          class: `count ${contrast(depth(i, j))} ${cell < 30 ? "small" : ""}`,
          x: left + (j + 0.5) * cell,
          y: top + (i + 0.5) * cell + 4,
        };
        return svg("text", attributes, unit === "counts" ? format.number(count) : percent);
      }),
    );
  }

  /** How dark a cell is, 0 … 1. */
  function depth(i, j) {
    return i === j ? share(i, j) : share(i, j) / worst;
  }

  function key(kind, words, most) {
    const stops = [0, 0.25, 0.5, 0.75, 1].map((part) => mixture(kind, part));
    return html(
      "span",
      { class: "scale" },
      words,
      html("span", {}, "0"),
      html("i", { style: { background: `linear-gradient(to right, ${stops.join(", ")})` } }),
      html("span", {}, format.percent(most, 0)),
    );
  }

  function list(worstOnes) {
    return html(
      "div",
      { class: "pairs" },
      html("h3", {}, "Most often confused"),
      html(
        "ol",
        {},
        worstOnes.map(({ i, j }) => html("li", {}, sentence(i, j))),
      ),
    );
  }

  function sentence(i, j) {
    const count = counts[i][j] ? format.number(counts[i][j]) : "none";
    const of = `${count} of ${format.number(totals[i])} ‘${classes[i]}’`;
    const percent = counts[i][j] ? ` (${format.percent(share(i, j))})` : "";
    const verb = counts[i][j] === 1 ? "was" : "were";
    const deed = i === j ? "recognised" : `called ‘${classes[j]}’`;
    return `${of} ${verb} ${deed}${percent}`;
  }

  function aim() {
    const { cell, left, top } = size;
    const [i, j] = cursor;
    const mark = area.querySelector(".cursor");
    mark.setAttribute("x", left + j * cell);
    mark.setAttribute("y", top + i * cell);
    mark.setAttribute("visibility", "visible");
  }

  function leave() {
    cursor = null;
    area.querySelector(".cursor")?.setAttribute("visibility", "hidden");
    unhint();
  }

  function say(x, y) {
    aim();
    hint(x, y, sentence(...cursor));
  }

  function pointAt(event) {
    const box = area.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left + area.scrollLeft - size.left) / size.cell);
    const i = Math.floor((event.clientY - box.top - size.top) / size.cell);
    if (i < 0 || j < 0 || i >= n || j >= n) return leave();
    cursor = [i, j];
    say(event.clientX, event.clientY);
  }

  function listeners() {
    return {
      pointermove: pointAt,
      pointerdown: pointAt,
      pointerleave: ({ pointerType }) => pointerType === "mouse" && leave(),
      blur: leave,
      keydown: (event) => {
        const step = STEPS[event.key];
        if (event.key === "Escape") leave();
        if (!step) return;
        event.preventDefault();
        const bound = (at) => Math.min(n - 1, Math.max(0, at));
        cursor = cursor ? cursor.map((at, axis) => bound(at + step[axis])) : [0, 0];
        aim();
        const box = area.querySelector(".cursor").getBoundingClientRect();
        say(box.right, box.top);
      },
    };
  }
}

/** Between the ground and the full colour, whichever theme they belong to. */
function mixture(kind, part) {
  return `color-mix(in oklab, var(--${kind}) ${Math.round(8 + 92 * part)}%, var(--${kind}-ground))`;
}

/** Full colours are dark on a light page and light on a dark one, so numbers turn sooner there. */
function contrast(depth) {
  return depth > 0.75 ? "deep" : depth > 0.5 ? "half" : "";
}
