/** Names and values in two columns; a third element puts a row into a group. */

export function render(element, { rows = [] }, { html, empty, format }) {
  if (!rows.length) return element.append(empty("Nothing was noted."));
  const groups = new Map();
  for (const [name, value, group = ""] of rows) {
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push([name, value]);
  }
  for (const [group, facts] of groups) {
    element.append(
      html(
        "div",
        { class: "group" },
        group && html("h3", {}, group),
        html(
          "dl",
          {},
          facts.map(([name, value]) => [html("dt", {}, name), html("dd", {}, format.said(value))]),
        ),
      ),
    );
  }
}
