/**
 * The maps of a text's heads: blocks of bytes, in the document or, all but the first, asked for one
 * at a time.
 *
 * A map is {rows, columns, causal, levels, scales}: a byte for each pair of words, in rows, and the
 * number that makes a row's bytes shares. The greatest byte of a row that looks at all is 255.
 */

const SHADE = [0x5b, 0x93, 0xd1]; // on paper light or dark; how deep is how opaque

/**
 * The maps of `n` words that look at `m`; `fetched(address)` gets a block that is elsewhere.
 *
 * `known(head)` is a map, or null as long as it has not come; `get(head)` is a promise of it, and
 * `small(head)` its thumbnail as {width, height, levels}.
 */
export function headMaps(packed, n, m, fetched) {
  const found = new Map();
  const coming = new Map();
  const count = packed ? countOf(packed, n, m) : 0;
  const size = 4 * n + (packed?.causal ? (n * (n + 1)) / 2 : n * m);
  const thumbnails = packed?.small ? bytesOf(packed.small.base64) : null;
  return { count, causal: Boolean(packed?.causal), known, get, small };

  function known(head) {
    const within = packed?.base64 ?? (head === 0 ? packed?.first : null);
    if (within && !found.has(head)) found.set(head, mapOf(bytesOf(within, head * size, size)));
    return found.get(head) ?? null;
  }

  async function get(head) {
    const there = known(head);
    if (there) return there;
    if (!coming.has(head)) coming.set(head, fetched(`${packed.address}/${head}`));
    try {
      found.set(head, mapOf(await coming.get(head)));
    } finally {
      coming.delete(head); // what failed can be asked for again
    }
    return found.get(head);
  }

  function small(head) {
    if (!thumbnails) return null;
    const [, height, width] = packed.small.shape;
    const start = head * width * height;
    return { width, height, levels: thumbnails.subarray(start, start + width * height) };
  }

  function mapOf(block) {
    if (block.length !== size) throw new Error(`a map has ${block.length} bytes, not ${size}`);
    const numbers = new DataView(block.buffer, block.byteOffset);
    const scales = Float32Array.from({ length: n }, (_, i) => numbers.getFloat32(4 * i, true));
    let levels = block.subarray(4 * n);
    if (packed.causal) levels = square(levels, n);
    return { rows: n, columns: m, causal: packed.causal, levels, scales };
  }
}

/** The shares of one row. */
export function rowOf({ columns, levels, scales }, row) {
  const bytes = levels.subarray(row * columns, (row + 1) * columns);
  return Float32Array.from(bytes, (byte) => byte * scales[row]);
}

/** Between no shade and the deepest, 1, which the word looked at most has. */
export function depth(part, gentle) {
  return gentle ? Math.sqrt(part) : part;
}

/** Levels as an image, the deeper the more opaque: the paper behind may be light or dark. */
export function paint(canvas, levels, gentle) {
  const { width, height } = canvas;
  const image = new ImageData(width, height);
  const colours = new Uint32Array(256);
  const bytes = new Uint8Array(colours.buffer); // whichever way this machine orders them
  for (let level = 0; level < 256; level += 1) {
    bytes.set([...SHADE, Math.round(255 * depth(level / 255, gentle))], 4 * level);
  }
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i += 1) pixels[i] = colours[levels[i]];
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** How many maps there are, if they are of so many words. */
function countOf({ shape }, n, m) {
  const [count, rows, columns] = shape;
  if (shape.length === 3 && rows === n && columns === m) return count;
  throw new Error(`${n} words that look at ${m} have maps of shape ${shape.join(" × ")}`);
}

/** Bytes out of base64, in which four letters are three of them. */
function bytesOf(base64, start = 0, length = null) {
  const lead = start % 3;
  const end = length === null ? base64.length : Math.ceil((start + length) / 3) * 4;
  const letters = atob(base64.slice(((start - lead) / 3) * 4, end));
  const bytes = new Uint8Array(length ?? letters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = letters.charCodeAt(lead + i);
  return bytes;
}

/** Rows that end on the diagonal, filled up with zeros. */
function square(triangle, n) {
  const levels = new Uint8Array(n * n);
  for (let i = 0; i < n; i += 1) {
    const from = (i * (i + 1)) / 2;
    levels.set(triangle.subarray(from, from + i + 1), i * n);
  }
  return levels;
}
