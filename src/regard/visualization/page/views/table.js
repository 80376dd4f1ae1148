/** Rows under headings; a heading sorts by its column, and again the other way round. */

const FOLDED = 60;

export function render(element, { columns = [], rows = [] }, tools) {
  const { html, empty, format, unfolding } = tools;
  if (!columns.length || !rows.length) return element.append(empty("The table has no rows."));
  const numeric = columns.map((_, i) => rows.every((row) => isNumber(row[i]) || !isKnown(row[i])));
  const written = numeric.map((is, i) => is && format.column(rows.map((row) => row[i])));
  const order = new Intl.Collator("en", { numeric: true });
  let sorted = { column: -1, down: false };

  const buttons = columns.map((name, i) =>
    html("button", { type: "button", on: { click: () => sortBy(i) } }, name),
  );
  const heads = buttons.map((button, i) =>
    html("th", { scope: "col", class: numeric[i] && "number", "aria-sort": "none" }, button),
  );
  const body = html("tbody");
  const fold = unfolding(rows, FOLDED, (some) => fill(some));
  element.append(
    html(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" },
      html("table", {}, html("thead", {}, html("tr", {}, heads)), body),
    ),
  );
  if (fold) element.append(fold);
  const saving = tools.savingTable(tools.name ?? "table", [columns, ...rows]);
  element.append(html("div", { class: "controls saving" }, saving));

  function fill(some) {
    body.replaceChildren(
      ...some.map((row) =>
        html(
          "tr",
          {},
          columns.map((_, i) => cell(row, i)),
        ),
      ),
    );
  }

  function cell(row, i) {
    const words = numeric[i] ? written[i][rows.indexOf(row)] : format.said(row[i]);
    return html("td", { class: numeric[i] && "number" }, words);
  }

  function sortBy(column) {
    sorted = { column, down: sorted.column === column ? !sorted.down : numeric[column] };
    const sign = sorted.down ? -1 : 1;
    const by = [...rows].sort((a, b) => {
      const [left, right] = [a[column], b[column]];
      if (!isKnown(left) || !isKnown(right)) return isKnown(right) - isKnown(left); // missing last
      if (numeric[column]) return sign * (left - right);
      return sign * order.compare(String(left), String(right));
    });
    fold?.remove();
    fill(by);
    heads.forEach((head, i) => {
      const way = sorted.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", i === column ? way : "none");
    });
  }
}

const isNumber = (value) => typeof value === "number";
const isKnown = (value) => value !== null && value !== undefined;
