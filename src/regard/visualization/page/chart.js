/**
 * A chart of lines over one axis, with a crosshair for the pointer and the arrow keys.
 *
 * A series is {name, ink, kind, points: [[x, y], …], band: [[x, low, high], …]}: `ink` is a class
 * that sets the colour, `kind` one that sets the dashes. A mark is {name, ink, x, y, shape, words}
 * with the shape "diamond" or "dot", and words beside it if there are any. Series and marks of one
 * name share a row of the readout, a column for each kind.
 */

import { html } from "regard/html";
import { around, fit, path, scale, segments, svg, ticks } from "regard/svg";
import { column, labels, quantity } from "regard/format";

const TOP = 12;
const BOTTOM = 42;
const CROWD = 4; // rows of a readout that may cover a chart which nobody points at

/**
 * Draw into `element`. `x` and `y` are {name, unit}; `moved` hears the crosshair's x.
 *
 * Returns `show(series, marks)` to draw others, and `point(x)` to move the crosshair, so that
 * charts side by side can move together.
 */
export function chart(
  element,
  { label, x, y, series, marks = [], height = 232, moved = () => {} },
) {
  let at = null; // where the crosshair is, as a value of x
  let held = false; // whether it is this chart that moves it
  let view = null; // what the last drawing knows: xs, scales, sizes
  const area = html("div", { class: "area" });
  const readout = html("table", { class: "readout", hidden: true });
  const frame = html(
    "div",
    { class: "chart", tabindex: 0, role: "slider", "aria-label": label, on: listeners() },
    [area, readout],
  );
  element.append(frame);
  fit(area, draw);
  return { show, point };

  function show(others, otherMarks = []) {
    [series, marks] = [others, otherMarks];
    if (view) draw(view.width);
  }

  function draw(width) {
    view = measure({ x, y, series, marks, width, height });
    const { toX, toY, left, right } = view;
    const cross = svg("g", { class: "cross" });
    view.cross = cross;
    area.replaceChildren(
      svg(
        "svg",
        { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
        view.yTicks.map((tick, i) => [
          svg("line", { class: "rule", x1: left, x2: right, y1: toY(tick), y2: toY(tick) }),
          svg("text", { class: "tick end", x: left - 8, y: toY(tick) + 4 }, view.yLabels[i]),
        ]),
        view.xTicks.map((tick, i) =>
          svg(
            "text",
            { class: "tick middle", x: toX(tick), y: height - BOTTOM + 18 },
            view.xLabels[i],
          ),
        ),
        svg("text", { class: "tick end", x: right, y: height - 5 }, x.name),
        series.map((one) => drawBand(one, view)), // all of them under all lines
        series.map((one) => drawLine(one, view)),
        marks.map((mark) => drawMark(mark, view)),
        cross,
      ),
    );
    aim();
  }

  /** Put crosshair, dots and readout where `at` is. */
  function aim() {
    const { xs, toX, toY, cross } = view;
    frame.setAttribute("aria-valuemin", xs[0] ?? 0);
    frame.setAttribute("aria-valuemax", xs.at(-1) ?? 0);
    const here = at !== null && xs.includes(at);
    readout.hidden = !here;
    frame.setAttribute("aria-valuenow", here ? at : (xs[0] ?? 0));
    if (!here) {
      frame.setAttribute("aria-valuetext", "Arrow keys read the values.");
      return cross.replaceChildren();
    }
    const rows = valuesAt(at);
    const across = toX(at);
    cross.replaceChildren(
      svg("line", { x1: across, x2: across, y1: TOP, y2: height - BOTTOM }),
      ...rows.map((row) => svg("circle", { class: row.ink, cx: across, cy: toY(row.y), r: 3.5 })),
    );
    const heading = `${x.name} ${quantity(at, x.unit)}`;
    readout.replaceChildren(...table(heading, rows, y.unit));
    readout.hidden = readout.hidden || (!held && readout.childElementCount > CROWD);
    beside(across);
    const spoken = rows.map((row) => `${row.name} ${row.kind ?? ""} ${quantity(row.y, y.unit)}`);
    frame.setAttribute("aria-valuetext", [heading, ...spoken].join(", "));
  }

  /** The readout to the right of the crosshair, or to its left, or on the wider side of both. */
  function beside(across) {
    const room = view.width - readout.offsetWidth;
    const [right, left] = [across + 12, across - 12 - readout.offsetWidth];
    const wider = across < view.width / 2 ? room : 0;
    const place = right <= room + 12 ? right : left >= -12 ? left : wider;
    readout.style.setProperty("left", `${place}px`);
  }

  function valuesAt(where) {
    const found = series.flatMap((one) => {
      const point = one.points.find(([px, py]) => px === where && Number.isFinite(py));
      return point ? [{ ...one, y: point[1] }] : [];
    });
    return [...found, ...marks.filter((mark) => mark.x === where && mark.shape === "diamond")];
  }

  function point(where) {
    at = where;
    if (view) aim();
  }

  function move(where) {
    held = where !== null;
    moved(where);
    point(where);
  }

  function pointAt(event) {
    const from = area.getBoundingClientRect().left;
    const distance = (value) => Math.abs(view.toX(value) + from - event.clientX);
    move(view.xs.reduce((a, b) => (distance(b) < distance(a) ? b : a), view.xs[0] ?? null));
  }

  function listeners() {
    return {
      pointermove: pointAt,
      pointerdown: pointAt,
      pointerleave: (event) => event.pointerType === "mouse" && move(null),
      blur: () => move(null),
      keydown: (event) => {
        const last = view.xs.length - 1;
        const now = view.xs.indexOf(at);
        const to = {
          ArrowRight: Math.min(last, now + 1),
          ArrowLeft: now < 0 ? last : Math.max(0, now - 1),
          Home: 0,
          End: last,
        }[event.key];
        if (event.key === "Escape") move(null);
        if (to === undefined || last < 0) return;
        event.preventDefault();
        move(view.xs[to]);
      },
    };
  }
}

/** The readout: a row for each name, a column for each kind; one name alone has rows for kinds. */
function table(heading, found, unit) {
  const values = found.map((one) => one.y);
  const words = unit === "%" ? values.map((value) => quantity(value, unit)) : column(values);
  const names = [...new Set(found.map((one) => one.name))];
  const kinds = [...new Set(found.map((one) => one.kind))];
  const row = (classes, name, cells) =>
    html(
      "tr",
      {},
      html(
        "th",
        { scope: "row" },
        html("i", { class: `swatch ${classes}` }),
        html("span", {}, name),
      ),
      cells.map((cell) => html("td", {}, cell)),
    );
  if (names.length === 1 || kinds.length === 1) {
    const name = (one) => (names.length > 1 ? one.name : (one.kind ?? one.name));
    return [
      html("tr", {}, html("th", { colspan: 2 }, html("strong", {}, heading))),
      ...found.map((one, i) =>
        row(`${one.ink} ${one.shape ?? one.kind ?? ""}`, name(one), [words[i]]),
      ),
    ];
  }
  const at = (name, kind) => found.findIndex((one) => one.name === name && one.kind === kind);
  return [
    html(
      "tr",
      {},
      html("th", {}, html("strong", {}, heading)),
      kinds.map((kind) => html("th", { scope: "col" }, kind)),
    ),
    ...names.map((name) => {
      const { ink } = found.find((one) => one.name === name);
      return row(
        ink,
        name,
        kinds.map((kind) => words[at(name, kind)] ?? ""),
      );
    }),
  ];
}

/** What a drawing of this width needs to know. */
function measure({ x, y, series, marks, width, height }) {
  const points = series.flatMap((one) => one.points).filter(([, value]) => Number.isFinite(value));
  const xs = [...new Set([...points.map(([at]) => at), ...marks.map((mark) => mark.x)])];
  xs.sort((a, b) => a - b);
  const bands = series.flatMap((one) => one.band ?? []).flatMap(([, low, high]) => [low, high]);
  const ys = [...points.map(([, value]) => value), ...marks.map((mark) => mark.y), ...bands];
  const known = ys.filter(Number.isFinite);
  const [least, most] = known.length
    ? [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))]
    : [0, 1];
  const shares = y.unit === "%" && least >= 0 && most <= 1; // no axis beyond what a share can be
  const yTicks = around(least, most).filter((tick) => !shares || (tick >= 0 && tick <= 1));
  const yLabels = labels(yTicks, y.unit);
  const left = 14 + 7 * Math.max(...yLabels.map((words) => words.length));
  const right = width - 20; // half of the last label
  const whole = xs.every(Number.isInteger);
  const xTicks = xs.length ? ticks(xs[0], xs.at(-1), Math.max(2, (right - left) / 70), whole) : [];
  return {
    width,
    xs,
    left,
    right,
    yTicks,
    yLabels,
    xTicks,
    xLabels: labels(xTicks, x.unit),
    toX: scale([xs[0] ?? 0, xs.at(-1) ?? 1], [left + 2, right - 2]),
    toY: scale([yTicks[0], yTicks.at(-1)], [height - BOTTOM, TOP]),
  };
}

function drawBand({ ink, band = [] }, { toX, toY }) {
  const inside = band.filter(([, low, high]) => Number.isFinite(low) && Number.isFinite(high));
  const outline = [
    ...inside.map(([x, , high]) => [toX(x), toY(high)]),
    ...inside.toReversed().map(([x, low]) => [toX(x), toY(low)]),
  ];
  if (outline.length <= 2) return null;
  return svg("g", { class: ink }, svg("path", { class: "band", d: `${path(outline)}Z` }));
}

function drawLine({ ink, kind = "", points }, { toX, toY }) {
  const placed = points.map(([x, y]) => [toX(x), Number.isFinite(y) ? toY(y) : null]);
  return svg(
    "g",
    { class: ink },
    segments(placed).map((segment) =>
      segment.length > 1
        ? svg("path", { class: `series ${kind}`, d: path(segment) })
        : svg("circle", { class: `lone ${kind}`, cx: segment[0][0], cy: segment[0][1], r: 3 }),
    ),
  );
}

function drawMark({ ink, x, y, shape, words }, { toX, toY, left, right }) {
  const [across, down] = [toX(x), toY(y)];
  const beside = across > (left + right) / 2 ? "end" : "start";
  return svg(
    "g",
    { class: ink },
    shape === "diamond"
      ? svg("path", { class: "mark", d: `M${across} ${down - 6}l6 6-6 6-6-6Z` })
      : svg("circle", { class: "mark", cx: across, cy: down, r: 3 }),
    words &&
      svg(
        "text",
        { class: `beside ${beside}`, x: across + (beside === "end" ? -11 : 11), y: down + 4 },
        words,
      ),
  );
}
