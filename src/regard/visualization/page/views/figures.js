/** The numbers that matter, large, each with its interval; with the unit "%" shares of 1. */

export function render(element, { items = [] }, { html, empty, format, name, savingTable }) {
  if (!items.length) return element.append(empty("There are no figures yet."));
  const columns = ["name", "value", "low", "high", "unit"];
  const table = [columns, ...items.map((item) => columns.map((column) => item[column]))];
  element.append(
    html("ul", {}, items.map(figure)),
    html("div", { class: "controls saving" }, savingTable(name ?? "figures", table)),
  );

  function figure({ name: what, value, low, high, unit = "", words }) {
    const [plain] = format.column([value, low, high]); // as many decimals as its interval
    const shown = unit === "" && Number.isFinite(value) ? plain : format.quantity(value, unit);
    const [, digits, sign] = /^(.*?)(%?)$/s.exec(shown);
    const range = format.interval(low, high, unit);
    return html(
      "li",
      {},
      html("h3", {}, what),
      html("p", { class: "number" }, digits, sign && html("span", {}, sign)),
      range && html("p", { class: "range" }, range),
      range && unit === "%" && low >= 0 && high <= 1 && track(value, low, high),
      words && html("p", { class: "note" }, words),
    );
  }

  /** The interval where it lies between 0 and 100%. */
  function track(value, low, high) {
    const place = (share) => `${(100 * share).toFixed(2)}%`;
    return html(
      "div",
      { class: "track", "aria-hidden": "true" },
      html("i", { style: { left: place(low), width: place(high - low) } }),
      html("b", { style: { left: place(value) } }),
    );
  }
}
