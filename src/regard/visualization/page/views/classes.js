/** How often each class was recognised: a dot, and around it the interval it may lie in. */

const FOLDED = 40;
const [INK, BLUE, PALE] = ["#1b1f24", "#1f5fa8", "#8fafd3"]; // of the drawing that is saved

export function render(
  element,
  { rows = [], items = "Images" },
  { html, svg, empty, format, ticks, choice, unfolding, ...tools },
) {
  if (!rows.length) return element.append(empty("There are no classes to compare."));
  const orders = {
    worst: (a, b) => (a.accuracy ?? 2) - (b.accuracy ?? 2) || byName(a, b), // unseen classes last
    best: (a, b) => (b.accuracy ?? -1) - (a.accuracy ?? -1) || byName(a, b),
    name: byName,
  };
  const ends = rows.map((row) => row.low ?? row.accuracy ?? 1);
  // The axis starts at a round number below the lowest end, so that good classes stay apart.
  const start = Math.max(0, Math.floor(ends.reduce((a, b) => Math.min(a, b), 1) * 10 - 1e-9) / 10);
  const place = (share) => `${((share - start) / (1 - start || 1)) * 100}%`;
  const marks = ticks(start, 1, 3);

  const body = html("tbody");
  const more = html("div");
  const words = { worst: "Worst first", best: "Best first", name: "By name" };
  element.append(
    choice("Order of classes", words, "worst", sort),
    html(
      "table",
      {},
      html(
        "thead",
        {},
        html(
          "tr",
          {},
          html("th", { scope: "col" }, "Class"),
          html("th", { scope: "col", class: "number" }, items),
          html("th", { scope: "col", class: "axis" }, axis()),
          html("th", { scope: "col", class: "number" }, "Accuracy"),
        ),
      ),
      body,
    ),
    more,
    html(
      "div",
      { class: "controls saving" },
      tools.savingButtons("classes", () => tools.sheet("Accuracy", [["", plot()]])),
      tools.savingTable("classes", table),
    ),
  );
  let shown = []; // all classes, in the order that was chosen
  sort("worst");

  function sort(order) {
    shown = [...rows].sort(orders[order]);
    const button = unfolding(shown, FOLDED, (some) => body.replaceChildren(...some.map(row)));
    more.replaceChildren(...(button ? [button] : []));
  }

  function row({ name, count, accuracy, low, high }) {
    const range = format.interval(low, high, "%");
    return html(
      "tr",
      {},
      html("th", { scope: "row", title: name }, name),
      html("td", { class: "number" }, format.number(count)),
      html("td", { class: "axis" }, track(accuracy, low, high)),
      html(
        "td",
        { class: "number" },
        format.percent(accuracy),
        range && html("span", { class: "range" }, range),
      ),
    );
  }

  function track(accuracy, low, high) {
    if (!Number.isFinite(accuracy)) return null;
    return svg(
      "svg",
      { height: 26, "aria-hidden": "true" },
      marks.map((tick) =>
        svg("line", { class: "rule", x1: place(tick), x2: place(tick), y1: 0, y2: 26 }),
      ),
      Number.isFinite(low) &&
        Number.isFinite(high) &&
        svg("line", { class: "whisker", x1: place(low), x2: place(high), y1: 13, y2: 13 }),
      svg("circle", { cx: place(accuracy), cy: 13, r: 4.5 }),
    );
  }

  function axis() {
    const labels = format.labels(marks, "%");
    return svg(
      "svg",
      { height: 16, "aria-hidden": "true" },
      marks.map((tick, i) =>
        svg("text", { class: "tick middle", x: place(tick), y: 12 }, labels[i]),
      ),
    );
  }

  function table() {
    const columns = ["name", "count", "accuracy", "low", "high"];
    return [columns, ...shown.map((each) => columns.map((column) => each[column]))];
  }

  /** All classes as a drawing that stands alone. */
  function plot() {
    const [left, right, tall] = [150, 430, 22];
    const x = tools.scale([start, 1], [left, right]);
    const text = (words, at, y, anchor) =>
      svg("text", { x: at, y, fill: INK, "font-size": 12, "text-anchor": anchor }, words);
    const labels = format.labels(marks, "%");
    const height = 24 + tall * shown.length;
    const line = (y, one) => [
      text(tools.shortened(one.name, 20), left - 14, y + 4, "end"),
      Number.isFinite(one.low) &&
        Number.isFinite(one.high) &&
        svg("path", { d: `M${x(one.low)} ${y}H${x(one.high)}`, stroke: PALE, "stroke-width": 2 }),
      Number.isFinite(one.accuracy) &&
        svg("circle", { cx: x(one.accuracy), cy: y, r: 4.5, fill: BLUE }),
      text(format.percent(one.accuracy), right + 66, y + 4, "end"),
    ];
    return svg(
      "svg",
      { width: right + 70, height },
      marks.map((mark, i) => [
        text(labels[i], x(mark), 12, "middle"),
        svg("line", { x1: x(mark), x2: x(mark), y1: 18, y2: height, stroke: "#e2e7ed" }),
      ]),
      shown.map((one, i) => line(24 + tall * (i + 0.5), one)),
    );
  }
}

const byName = (a, b) => String(a.name).localeCompare(String(b.name), "en", { numeric: true });
