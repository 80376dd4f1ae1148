/** Names and values in two columns; a third element puts a row into a group. */

export function render(element, { rows = [] }, { html, empty, format, name, savingTable }) {
  if (!rows.length) return element.append(empty("Nothing was noted."));
  const groups = new Map();
  for (const [what, value, group = ""] of rows) {
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push([what, value]);
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
          facts.map(([what, value]) => [html("dt", {}, what), html("dd", {}, format.said(value))]),
        ),
      ),
    );
  }
  const table = [["group", "name", "value"], ...rows.map(([what, value, of]) => [of, what, value])];
  element.append(html("div", { class: "controls saving" }, savingTable(name ?? "facts", table)));
}
