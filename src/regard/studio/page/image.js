/**
 * A picture of one's own: dropped, chosen, pasted or drawn, or one of the run's data; what the
 * model says it is, and where it looked.
 *
 * Drawing is offered by runs whose pictures are grey, and sent as the model sees it. The address
 * keeps what was drawn, or which picture of the data it is; a photo has no room in one.
 */

import { headingOf, looking } from "studio/document";
import { painted, pngOf, seen, sheet, spell } from "studio/draw";

const PAUSE = 250; // ms after a line, in which the next one may begin
const SENT = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];
const LARGEST = 20e6; // bytes that the server takes
const SPELT = 6000; // letters of a drawing that an address keeps
const SPLITS = ["test", "validation", "train"];
const LONGEST = 2048; // pixels along a side of what would be larger, or is of another kind

export async function render(element, context) {
  const { api, go, params, remember, signal, tools } = context;
  const { html, choice } = tools;
  const run = await api.run(params.id, signal);
  if (run.input && run.input !== "image") return go(`#text/${encodeURIComponent(run.id)}`);
  const { size, grey } = picturesOf(run.config);
  const look = looking(context, { wait: PAUSE, bars: true });
  const shown = html("figure", { class: "seen", hidden: true });
  const paper = grey && sheet(tools, { changed: drawn, begun: look.stop, spelt: params.lines });
  const photo = photoBox(tools, { chosen, refused: (words) => look.ask(null, words), signal });
  const own = rowBox(tools, params.row, picked);
  const ways = { draw: paper?.element, photo: photo.element, row: own.element };
  const names = { ...(grey && { draw: "Draw" }), photo: "Photo", row: "Its own data" };
  const usual = grey ? "draw" : "photo";
  const place = html("div", { class: "way" });

  element.append(
    headingOf(run, grey ? "Draw, or show it a picture" : "Show it a picture", tools),
    html(
      "div",
      { class: "asking" },
      html(
        "div",
        { class: "input" },
        choice("How", names, wayOf(params.by), take),
        place,
      ),
      html("div", { class: "outcome" }, shown, look.status, look.answer),
    ),
    look.sections,
  );
  take(wayOf(params.by));

  function wayOf(by) {
    return by in names ? by : usual;
  }

  function take(way) {
    remember({ by: way === usual ? null : way });
    place.replaceChildren(ways[way]);
    if (way === "draw") drawn(paper.lines);
    else if (way === "row") own.ask();
    else if (photo.last()) chosen(photo.last());
    else nothing("The answer comes here.");
  }

  function nothing(words) {
    shown.hidden = true;
    look.ask(null, words);
  }

  function picked(row) {
    remember({ row });
    shown.hidden = true;
    const [split, number] = row.split(":");
    look.ask({ split, index: Number(number) });
  }

  /** Lines are shown at once as the model sees them; it is asked when the hand rests. */
  async function drawn(lines) {
    const spelt = spell(lines);
    remember({ lines: spelt && spelt.length <= SPELT ? spelt : null });
    if (!lines.length) return nothing("Draw something; the answer comes when you lift the pen.");
    const canvas = painted(seen(lines, size), size);
    present(canvas, `what the model sees: ${size} × ${size} pixels`);
    const count = lines.length;
    const blob = await pngOf(canvas);
    if (lines.length === count && place.contains(paper.element)) look.ask(blob);
  }

  async function chosen(file) {
    try {
      const blob = await prepared(file);
      if (signal.aborted || file !== photo.last()) return;
      const picture = html("img", { src: photo.address(), alt: "your picture" });
      picture.addEventListener("error", () => (shown.hidden = true)); // the server may read it yet
      present(picture, file.name || "pasted picture");
      look.ask(blob);
    } catch (error) {
      nothing(error.message);
    }
  }

  function present(picture, words) {
    shown.replaceChildren(picture, html("figcaption", {}, words));
    shown.hidden = false;
  }
}

/** Which picture of the run's own data; `picked` hears it as test:3, as the address says it. */
function rowBox({ html }, asked = "", picked) {
  const found = /^(test|validation|train):(\d{1,7})$/.exec(asked) ?? [];
  const [, split = SPLITS[0], number = "0"] = found;
  const options = SPLITS.map((name) => html("option", { selected: name === split }, name));
  const from = html("select", { on: { change: ask } }, options);
  const field = { type: "number", min: 0, max: 9_999_999, step: 1, value: number };
  const at = html("input", { ...field, on: { input: ask } });
  const element = html(
    "div",
    { class: "controls own-data" },
    html("label", {}, "From", from),
    html("label", {}, "Number", at),
  );
  return { element, ask };

  function ask() {
    if (at.validity.valid && at.value !== "") picked(`${from.value}:${Number(at.value)}`);
  }
}

/**
 * A place for pictures; `chosen` is called with the file, `refused` with words on what is none.
 *
 * Dropping and pasting work anywhere on the page, for as long as the view is shown.
 */
function photoBox({ html }, { chosen, refused, signal }) {
  let last = null;
  let address = null;
  const field = html("input", { type: "file", accept: "image/*", on: { change } });
  const element = html(
    "label",
    { class: "drop" },
    field,
    html("b", {}, "Choose a picture"),
    html("span", {}, "or drop or paste one anywhere"),
  );
  const within = { signal };
  let over = 0; // elements that a dragged file has entered and not left
  addEventListener("dragenter", (event) => mark(event, 1), within);
  addEventListener("dragleave", (event) => mark(event, -1), within);
  addEventListener("dragover", (event) => event.preventDefault(), within); // or nothing can drop
  addEventListener("drop", drop, within);
  addEventListener("paste", ({ clipboardData }) => offer(clipboardData, false), within);
  signal.addEventListener("abort", forget);
  return { element, last: () => last, address: () => address };

  function change() {
    if (field.files.length) take(field.files[0]);
    field.value = ""; // so that the same file can be chosen again
  }

  function mark(event, step) {
    event.preventDefault();
    over = Math.max(0, over + step);
    element.classList.toggle("over", over > 0);
  }

  function drop(event) {
    event.preventDefault(); // the browser would leave the page to show the file
    over = 0;
    element.classList.remove("over");
    offer(event.dataTransfer, true);
  }

  /** What is pasted may be meant for elsewhere; what is dropped is meant for us. */
  function offer(things, meant) {
    const files = [...(things?.files ?? [])];
    const picture = files.find(({ type }) => type.startsWith("image/")) ?? (meant && files[0]);
    if (picture) take(picture);
    else if (meant) refused("That was no file: save the picture first, then drop it.");
  }

  function take(file) {
    forget();
    last = file;
    address = URL.createObjectURL(file);
    if (element.isConnected) chosen(file);
    else refused("You are drawing: choose “Photo” to show that picture.");
  }

  function forget() {
    if (address) URL.revokeObjectURL(address);
    address = null;
  }
}

/** The file as it can be sent: of a kind and size that the server takes. */
async function prepared(file) {
  if (SENT.includes(file.type) && file.size <= LARGEST) return file;
  const picture = await createImageBitmap(file).catch(() => null);
  if (!picture) throw new Error(`${file.name || "That"} is no picture that this browser can read.`);
  const scale = Math.min(1, LONGEST / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  return pngOf(canvas);
}

/** How large the run's pictures are, and whether they are grey, as its configuration says. */
function picturesOf(config) {
  const tables = [config?.[config.kind], config?.model, ...Object.values(config ?? {})];
  const table = tables.find((each) => Number.isInteger(each?.image_size)) ?? {};
  return { size: table.image_size ?? null, grey: table.channels === 1 && table.image_size > 0 };
}
