/** A few lines over one axis, with bands where a low and a high are known. */

export function render(element, { x = {}, y = {}, series = [], words }, tools) {
  const { html, empty, chart, colour, format } = tools;
  const values = x.values ?? [];
  if (!values.length || !series.length)
    return element.append(empty("There are no points to draw."));

  const lines = series.map((one, i) => ({
    name: one.name,
    ink: colour.ink(i),
    points: values.map((value, at) => [value, one.values?.[at] ?? null]),
    band: one.low && one.high ? values.map((value, at) => [value, one.low[at], one.high[at]]) : [],
  }));
  const hidden = new Set();
  const keys = lines.map((one) =>
    html(
      "button",
      {
        type: "button",
        class: "key",
        "aria-pressed": "true",
        on: { click: (e) => toggle(e, one) },
      },
      html("i", { class: `swatch ${one.ink}` }),
      one.name,
    ),
  );
  const legend = html("div", { class: "legend" }, keys);
  if (lines.length > 1) element.append(legend);
  const figure = html("figure", {}, y.name && html("figcaption", {}, y.name));
  element.append(figure);
  const drawn = chart(figure, {
    label: `${y.name ?? "values"} by ${x.name ?? "x"}`,
    x,
    y,
    series: lines,
    height: 300,
  });
  if (words) element.append(html("p", { class: "note" }, words));
  const name = format.slug(y.name ?? "", "lines");
  element.append(html("div", { class: "controls saving" }, tools.savingButtons(name, drawing)));

  function drawing() {
    const part = [y.name, tools.printed(figure.querySelector("svg"))];
    return tools.sheet("", [part], lines.length > 1 ? tools.keysOf(legend) : []);
  }

  function toggle({ currentTarget }, one) {
    if (!hidden.delete(one)) hidden.add(one);
    currentTarget.setAttribute("aria-pressed", String(!hidden.has(one)));
    drawn.show(lines.filter((line) => !hidden.has(line)));
  }
}
