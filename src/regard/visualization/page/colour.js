/**
 * Colours for values from 0 to 1.
 *
 * Each map goes through its stops at an even pace of lightness (OKLab, Ottosson 2020), and only
 * ever up or only ever down: it keeps its order for every kind of colour vision, and in grey.
 */

export const MAPS = {
  blue: { words: "Blue", paint: ramp(["#f3f6fa", "#9dc3ea", "#2f7fd1", "#123a6e"].map(oklab)) },
  dusk: { words: "Violet to yellow", paint: ramp(sweep()) },
  grey: { words: "Grey", paint: ramp(["#fbfbfb", "#131313"].map(oklab)) },
  // Not a colour but a shade over the image, which keeps its own: what was read stays in the light.
  light: { words: "Spotlight", paint: shade, keeps: true },
};

/**
 * From −1 over 0 to 1: orange for what is against, blue for what is for, pale where neither is.
 * The two differ for every kind of colour vision, and each is darker the further from 0 it is.
 */
const AGAINST = ramp(["#f8f5f2", "#f0b27a", "#c8641a", "#6b2d05"].map(oklab));
export const SIGNED = {
  paint: (value) => (value < 0 ? AGAINST(-value) : MAPS.blue.paint(value)),
};

/** The class that colours a series; eight are told apart, then they come again. */
export const ink = (index) => `ink-${index % 8}`;

function shade(value) {
  return { colour: "#000000", alpha: Number((1 - bound(value)).toFixed(3)) };
}

function ramp(stops) {
  const lightness = stops.map(([light]) => light);
  const [first, last] = [lightness[0], lightness.at(-1)];
  return (value) => {
    const light = first + bound(value) * (last - first);
    let i = 1;
    while (i < stops.length - 1 && (lightness[i] - light) * (last - first) < 0) i += 1;
    const part = (light - lightness[i - 1]) / (lightness[i] - lightness[i - 1]);
    const mixed = stops[i].map((end, axis) => stops[i - 1][axis] * (1 - part) + end * part);
    return { colour: hex(mixed), alpha: 1 };
  };
}

/** From dark violet over blue and green to bright yellow, as lightness, chroma and hue. */
function sweep() {
  const count = 16;
  return Array.from({ length: count + 1 }, (_, i) => {
    const part = i / count;
    const chroma = 0.12 - 0.04 * Math.sin(Math.PI * part) + 0.06 * part ** 2;
    const hue = ((305 - 197 * part) * Math.PI) / 180;
    return [0.26 + 0.66 * part, chroma * Math.cos(hue), chroma * Math.sin(hue)];
  });
}

function oklab(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => linear(parseInt(colour.slice(at, at + 2), 16) / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** The nearest colour a screen can show: as light as asked, and less vivid where need be. */
function hex([light, a, b]) {
  let vivid = 1;
  let rgb = screen(light, a, b);
  while (rgb.some((value) => value < -1e-4 || value > 1.0001) && vivid > 0) {
    vivid -= 0.02;
    rgb = screen(light, a * vivid, b * vivid);
  }
  const digits = (value) =>
    Math.round(255 * gamma(bound(value)))
      .toString(16)
      .padStart(2, "0");
  return `#${rgb.map(digits).join("")}`;
}

function screen(light, a, b) {
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
}

// Functions, not constants: the maps above are made while the module is still being read.
function bound(value) {
  return Math.min(1, Math.max(0, value));
}

function linear(v) {
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
}

function gamma(v) {
  return v <= 0.0031308 ? v * 12.92 : 1.055 * v ** (1 / 2.4) - 0.055;
}
