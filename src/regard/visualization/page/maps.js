/** Maps as they travel: bytes in base64, each map with the number that makes its bytes values. */

/** The maps of `packed`, each a Float32Array in rows, with the shape of the whole. */
export function unpack({ shape, scale, base64 }) {
  const [rows, columns] = shape.slice(-2);
  const size = rows * columns;
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const count = size ? bytes.length / size : 0;
  const maps = Array.from({ length: count }, (_, i) => {
    const factor = Array.isArray(scale) ? scale[i] : scale;
    return Float32Array.from(bytes.subarray(i * size, (i + 1) * size), (byte) => byte * factor);
  });
  return { shape, rows, columns, maps };
}

export function mean(maps) {
  const sum = new Float32Array(maps[0].length);
  for (const map of maps) map.forEach((value, i) => (sum[i] += value / maps.length));
  return sum;
}

export const greatest = (map) => map.reduce((most, value) => Math.max(most, value), 0);
