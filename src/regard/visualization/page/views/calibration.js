/** Whether the model is as often right as it is sure: a dot for each bin, and how full it is. */

const LEFT = 46;
const TOP = 12;
const UNDER = 74; // for the counts beneath
const BOTTOM = 40;

export function render(element, { bins = [], error }, tools) {
  const { html, svg, empty, fit, scale, format, hint, unhint } = tools;
  const filled = bins.filter((bin) => bin.count > 0 && Number.isFinite(bin.accuracy));
  if (!filled.length) return element.append(empty("There are no answers to compare."));

  if (Number.isFinite(error?.value)) {
    const range = format.interval(error.low, error.high, "%");
    element.append(
      html(
        "p",
        { class: "lead" },
        "Confidence and accuracy are ",
        html("strong", {}, format.percent(error.value)),
        " apart on average",
        range && ` (${range})`,
        ".",
      ),
    );
  }
  const area = html("div", { class: "area" });
  element.append(area);
  fit(area, (width) => area.replaceChildren(drawing(Math.min(width, 480))));
  const saved = () => tools.sheet("Calibration", [["", tools.printed(area.firstChild)]]);
  element.append(
    html("div", { class: "controls saving" }, tools.savingButtons("calibration", saved)),
  );

  function drawing(width) {
    const side = width - LEFT - 22;
    const height = TOP + side + 14 + UNDER + BOTTOM;
    const x = scale([0, 1], [LEFT, LEFT + side]);
    const y = scale([0, 1], [TOP + side, TOP]);
    const floor = TOP + side + 14 + UNDER;
    const most = filled.reduce((most, bin) => Math.max(most, bin.count), 0);
    const tall = (count) => Math.max(1.5, (count / most) * UNDER);
    const marks = [0, 0.2, 0.4, 0.6, 0.8, 1];
    const total = filled.reduce((sum, bin) => sum + bin.count, 0);
    return svg(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "group",
        "aria-label": `Accuracy by confidence, ${format.plural(total, "answer")}`,
      },
      marks.map((mark) => [
        svg("line", { class: "rule", x1: x(0), x2: x(1), y1: y(mark), y2: y(mark) }),
        svg("text", { class: "tick end", x: LEFT - 8, y: y(mark) + 4 }, format.percent(mark, 0)),
        svg("text", { class: "tick middle", x: x(mark), y: floor + 18 }, format.percent(mark, 0)),
      ]),
      svg("line", { class: "ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
      svg("text", { class: "tick", x: x(0) + 6, y: TOP + 14 }, "accuracy"),
      svg("text", { class: "tick", x: x(0) + 6, y: TOP + side + 26 }, "answers"),
      svg("text", { class: "tick end", x: x(1), y: height - 4 }, "confidence"),
      svg("line", { class: "floor", x1: x(0), x2: x(1), y1: floor, y2: floor }),
      filled.map((bin) => bar(bin, x, y, floor, tall(bin.count))),
    );
  }

  function bar(bin, x, y, floor, height) {
    const { low, high, count, confidence, accuracy } = bin;
    const between = `${format.percent(low, 0)} to ${format.percent(high, 0)} confidence`;
    const found = `${format.percent(confidence)} sure, ${format.percent(accuracy)} right`;
    const words = `${format.plural(count, "answer")} with ${between}: ${found}`;
    const show = ({ currentTarget }) => {
      const box = currentTarget.querySelector("circle").getBoundingClientRect();
      hint(box.right, box.top, words);
    };
    const on = { pointerenter: show, focus: show, pointerleave: unhint, blur: unhint };
    return svg(
      "g",
      { class: "bin", tabindex: 0, role: "img", "aria-label": words, on },
      svg("rect", {
        class: "reach",
        x: x(low),
        width: x(high) - x(low),
        y: TOP,
        height: floor - TOP,
      }),
      svg("line", {
        class: "gap",
        x1: x(confidence),
        x2: x(confidence),
        y1: y(confidence),
        y2: y(accuracy),
      }),
      svg("circle", { cx: x(confidence), cy: y(accuracy), r: 5 }),
      svg("rect", {
        class: "count",
        x: x(low) + 1,
        width: x(high) - x(low) - 2,
        y: floor - height,
        height,
      }),
    );
  }
}
