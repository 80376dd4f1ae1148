/** Keeping what is on the page: a drawing as SVG, or as PNG through a canvas. */

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
