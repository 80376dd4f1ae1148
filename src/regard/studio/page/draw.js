/**
 * A sheet to draw on, by mouse, finger, pen or keyboard, and the picture that a model sees of it.
 *
 * What is drawn is kept as lines, so that it can be made as large and as thick as the pictures that
 * the model has learned from, wherever on the sheet it stands and however small it is.
 */

export const SIDE = 100; // units along a side of the sheet; lines are lists of [x, y] in them

const DOTS = 4; // a pixel counts the dots with ink in a square of 4 × 4, as the scans of digits did
const FINE = 16; // pixels along a side from which a picture has room for a margin
const KEYS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
const STEP = 4; // units that an arrow key moves the pen
const PARTS = 10; // of a unit, in which addresses count

/**
 * The sheet, and ways to change what is on it, which is at first what `spelt` says.
 *
 * `changed(lines)` is called whenever a line is done or taken away, `begun()` when one begins.
 */
export function sheet({ html, svg }, { changed, begun, spelt = "" }) {
  const lines = linesFrom(spelt);
  const ink = svg("g", { class: "ink" });
  const tip = svg("circle", { class: "tip", r: 3, cx: SIDE / 2, cy: SIDE / 2 });
  const surface = svg(
    "svg",
    {
      class: "sheet",
      viewBox: `0 0 ${SIDE} ${SIDE}`,
      tabindex: 0,
      role: "application",
      "aria-label":
        "Sheet to draw on. Arrow keys move the pen, space sets it down and lifts it, " +
        "backspace takes the last line away.",
      on: { pointerdown, pointermove, pointerup, pointercancel: pointerup, keydown, blur: lift },
    },
    ink,
    tip,
  );
  const pen = { x: SIDE / 2, y: SIDE / 2, down: false }; // that the keyboard moves
  let drawing = null; // the pointer that draws
  const undo = html("button", { type: "button", on: { click: takeBack } }, "Undo");
  const clear = html("button", { type: "button", on: { click: wipe } }, "Clear");
  show();
  return {
    element: html(
      "div",
      { class: "drawing" },
      surface,
      html("div", { class: "controls" }, undo, clear),
    ),
    lines,
    wipe,
  };

  function begin(place) {
    begun();
    lines.push([place]);
    show();
  }

  function extend(places) {
    lines.at(-1).push(...places);
    ink.lastChild.setAttribute("d", pathOf(lines.at(-1)));
  }

  function end() {
    show();
    changed(lines);
  }

  function takeBack() {
    pen.down = false;
    lines.pop();
    end();
  }

  function wipe() {
    pen.down = false;
    lines.length = 0;
    end();
  }

  function pointerdown(event) {
    if (drawing !== null || event.button !== 0) return;
    lift();
    drawing = event.pointerId;
    surface.setPointerCapture(drawing);
    begin(placeOf(event));
  }

  function pointermove(event) {
    if (event.pointerId !== drawing) return;
    const all = event.getCoalescedEvents?.() ?? []; // those between two pictures of the screen
    extend((all.length ? all : [event]).map(placeOf));
  }

  function pointerup(event) {
    if (event.pointerId !== drawing) return;
    drawing = null;
    end();
  }

  function placeOf({ clientX, clientY }) {
    const { left, top, width, height } = surface.getBoundingClientRect();
    const place = [((clientX - left) / width) * SIDE, ((clientY - top) / height) * SIDE];
    return place.map((at) => Math.round(within(at) * PARTS) / PARTS); // as an address can say it
  }

  function keydown(event) {
    const step = KEYS[event.key];
    const act = step ? () => move(step) : { " ": turn, Backspace: takeBack }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  function move([right, down]) {
    pen.x = within(pen.x + right * STEP);
    pen.y = within(pen.y + down * STEP);
    tip.setAttribute("cx", pen.x);
    tip.setAttribute("cy", pen.y);
    if (pen.down) extend([[pen.x, pen.y]]);
  }

  /** Set the pen down, or lift it. */
  function turn() {
    if (pen.down) return lift();
    pen.down = true;
    begin([pen.x, pen.y]);
  }

  function lift() {
    if (!pen.down) return;
    pen.down = false;
    end();
  }

  function show() {
    ink.replaceChildren(...lines.map((line) => svg("path", { d: pathOf(line) })));
    tip.classList.toggle("down", pen.down);
    undo.disabled = clear.disabled = lines.length === 0;
  }
}

/**
 * The pixels, 0 (paper) to 255 (ink), that a model of `size` × `size` pixels sees of the lines.
 *
 * A coarse one learned from the digits of scikit-learn. They were scanned, fitted to 32 × 32 dots
 * so that they are as high as the square and at most 20 dots wide, thickened or thinned until about
 * three dots in ten were ink, and counted in squares of 4 × 4. A fine one more likely learned from
 * pictures such as MNIST's: within the middle 20 of 28 pixels, with their centre of mass in the
 * centre.
 */
export function seen(lines, size) {
  if (!lines.some((line) => line.length)) return new Uint8Array(size * size);
  const side = size * DOTS;
  const dots = size < FINE ? filled(lines, side) : centred(lines, side);
  const pixels = new Uint8Array(size * size);
  for (let row = 0; row < size; row += 1) {
    for (let column = 0; column < size; column += 1) {
      let count = 0;
      for (let i = 0; i < DOTS * DOTS; i += 1) {
        const [x, y] = [column * DOTS + (i % DOTS), row * DOTS + Math.floor(i / DOTS)];
        count += dots[y * side + x];
      }
      pixels[row * size + column] = Math.floor((count / DOTS ** 2) * 255 + 0.5);
    }
  }
  return pixels;
}

/** As the digits of scikit-learn: the thickness is the one with the usual amount of ink. */
function filled(lines, side) {
  const usual = 0.305 * side ** 2;
  let best = { far: Infinity, dots: null };
  for (let thick = side / 16; thick <= side / 2.5; thick += side / 64) {
    const dots = inked(lines, side, { thick, wide: (20 / 32) * side, high: side });
    const far = Math.abs(dots.reduce((sum, dot) => sum + dot, 0) - usual);
    if (far < best.far) best = { far, dots };
  }
  return best.dots;
}

/** As those of MNIST: drawn once to find the centre of mass, and again where that is central. */
function centred(lines, side) {
  const box = (20 / 28) * side;
  const place = { thick: (2.75 / 28) * side, wide: box, high: box, even: true };
  const dots = inked(lines, side, place);
  let [mass, x, y] = [0, 0, 0];
  dots.forEach((dot, i) => {
    mass += dot;
    x += dot * ((i % side) + 0.5);
    y += dot * (Math.floor(i / side) + 0.5);
  });
  const middle = (sum) => (mass ? side / 2 - sum / mass : 0);
  return inked(lines, side, { ...place, right: middle(x), down: middle(y) });
}

/** Which dots have ink, 1 or 0, when the lines are fitted into a box in the middle. */
function inked(lines, side, { thick, wide, high, even = false, right = 0, down = 0 }) {
  const points = lines.flat();
  const [x, across] = reach(points.map(([x]) => x));
  const [y, along] = reach(points.map(([, y]) => y));
  let [sx, sy] = [(wide - thick) / across, (high - thick) / along]; // without end for a line alone
  if (even) sx = sy = Math.min(sx, sy);
  // What is slender stays so, and what is flat does almost: a 1 is no block, and a dash no 1.
  [sx, sy] = [Math.min(sx, sy), Math.min(sy, 2 * sx)];
  if (!Number.isFinite(sx)) sx = sy = 0; // a dot
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.lineWidth = thick;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  for (const line of lines) {
    line.forEach((place, i) => {
      const at = [
        side / 2 + right + (place[0] - x) * sx,
        side / 2 + down + (place[1] - y) * sy,
      ];
      if (!i) context.moveTo(at[0] - 0.01, at[1]); // a line of no length would not be drawn
      context.lineTo(...at);
    });
  }
  context.stroke();
  const { data } = context.getImageData(0, 0, side, side);
  return Uint8Array.from({ length: side * side }, (_, i) => (data[4 * i + 3] >= 128 ? 1 : 0));
}

/** The middle of numbers, and how far they reach. */
function reach(numbers) {
  const low = numbers.reduce((a, b) => Math.min(a, b));
  const high = numbers.reduce((a, b) => Math.max(a, b));
  return [(low + high) / 2, high - low];
}

/** Pixels on a canvas of their own, bright where there is ink. */
export function painted(pixels, size) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const picture = new ImageData(size, size);
  pixels.forEach((value, i) => picture.data.set([value, value, value, 255], 4 * i));
  canvas.getContext("2d").putImageData(picture, 0, 0);
  return canvas;
}

/** A canvas as the bytes of a PNG. */
export async function pngOf(canvas) {
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error(`The browser cannot make a picture of ${canvas.width} pixels.`);
  return blob;
}

function pathOf(line) {
  const places = line.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  return `M${places[0]}L${places.join("L")}`;
}

const within = (value) => Math.min(SIDE, Math.max(0, value));

/** Lines as letters for an address: two for a number, four for a place, and _ between lines. */
export function spell(lines) {
  const letters = (at) => Math.round(at * PARTS).toString(36).padStart(2, "0");
  return lines.map((line) => line.flat().map(letters).join("")).join("_");
}

/** The lines that an address spells; of one that spells them badly, none. */
function linesFrom(spelt) {
  if (!/^([0-9a-z]{4})+(_([0-9a-z]{4})+)*$/.test(spelt)) return [];
  const number = (letters) => within(parseInt(letters, 36) / PARTS);
  return spelt
    .split("_")
    .map((line) => line.match(/.{4}/g).map((p) => [number(p.slice(0, 2)), number(p.slice(2))]));
}
