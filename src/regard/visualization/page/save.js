/** Keeping what is on the page: a drawing as SVG, or as PNG through a canvas; a table as CSV. */

import { html } from "regard/html";

/**
 * Buttons that save a drawing, as PNG and as SVG.
 *
 * `drawing()` makes it when a button is pressed; the file is called `name`, or what it returns.
 */
export function savingButtons(name, drawing) {
  const kinds = { PNG: savePng, SVG: saveSvg };
  return Object.entries(kinds).map(([kind, keep]) =>
    button(kind, () => {
      const made = drawing();
      return made && keep(`${said(name)}.${kind.toLowerCase()}`, made);
    }),
  );
}

/** A button that saves rows of plain values, the first of which are their headings. */
export function savingTable(name, rows) {
  return button("CSV", () => {
    const text = said(rows).map((row) => row.map(field).join(",")).join("\r\n");
    save(`${said(name)}.csv`, new Blob([`${text}\r\n`], { type: "text/csv;charset=utf-8" }));
  });
}

export function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser may still be reading
}

export function saveSvg(name, drawing) {
  save(name, new Blob([source(drawing)], { type: "image/svg+xml" }));
}

/** The same drawing in pixels, `times` as large as its own units. */
export async function savePng(name, drawing, times = 2) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source(drawing))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(drawing.getAttribute("width") * times);
  canvas.height = Math.round(drawing.getAttribute("height") * times);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error(`the browser cannot make a picture of ${canvas.width} pixels`);
  save(name, blob);
}

function source(drawing) {
  const text = new XMLSerializer().serializeToString(drawing);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${text}`;
}

function button(kind, click) {
  return html("button", { type: "button", class: "download", on: { click } }, `Save ${kind}`);
}

/** A field of CSV (RFC 4180). One that a spreadsheet would take for a formula is made a text. */
function field(value) {
  if (value === null || value === undefined) return "";
  const words = String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(words) ? `'${words}` : words;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const said = (value) => (typeof value === "function" ? value() : value);
