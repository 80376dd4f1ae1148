/** Numbers as words. What is missing is a dash, and a minus is a minus. */

export const MISSING = "–";

export function percent(value, digits = 1) {
  return known(value) ? `${fixed(value * 100, digits)}%` : MISSING;
}

/** A difference of two shares: 0.031 is 3.1 points, and a minus says which way. */
export function points(value, digits = 1) {
  return known(value) ? fixed(value * 100, digits) : MISSING;
}

/** Whole numbers in groups of three; others to three figures that count. */
export function number(value) {
  if (!known(value)) return MISSING;
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return grouped(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return minus(value.toExponential(2).replace("e+", "e"));
  if (size >= 1000) return grouped(Math.round(value));
  return minus(String(Number(value.toPrecision(3))));
}

/** With a unit of "%" values are shares of 1; any other unit follows the number. */
export function quantity(value, unit = "") {
  if (typeof value === "string") return value;
  if (unit === "%") return percent(value);
  return unit && known(value) ? `${number(value)} ${unit}` : number(value);
}

/** Numbers that stand together, all with the decimals that the one in most need of them has. */
export function column(values) {
  const words = values.map(number);
  const digits = Math.max(...words.map((word) => (word.split(".")[1] ?? "").length));
  if (!digits || words.some((word) => word.includes("e"))) return words;
  return values.map((value) => (known(value) ? fixed(value, digits) : MISSING));
}

/** "95.5 to 98.9", in the unit of the value it belongs to; nothing if an end is missing. */
export function interval(low, high, unit = "") {
  if (!known(low) || !known(high)) return "";
  if (unit === "%") return `${fixed(low * 100, 1)} to ${fixed(high * 100, 1)}`;
  return column([low, high]).join(" to ");
}

/** Any plain value. */
export function said(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "string" ? value : number(value);
}

/** Labels for an axis: as many decimals as the step between ticks needs, and no more. */
export function labels(ticks, unit = "") {
  const factor = unit === "%" ? 100 : 1;
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) * factor : 1;
  const digits = Math.min(8, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  return ticks.map((tick) => {
    const value = tick * factor;
    if (unit === "%") return `${fixed(value, digits)}%`;
    return digits ? fixed(value, digits) : grouped(Math.round(value));
  });
}

/** A word as an address or a file name: small letters, digits, hyphens. */
export function slug(words, otherwise) {
  const plain = String(words)
    .normalize("NFKD")
    .replace(/\p{Mark}/gu, "")
    .toLowerCase();
  return (
    plain
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-+|-+$/g, "")
      .slice(0, 60) || otherwise
  );
}

export const plural = (count, noun, nouns = `${noun}s`) =>
  `${number(count)} ${count === 1 ? noun : nouns}`;

const known = (value) => typeof value === "number" && Number.isFinite(value);
const minus = (words) => words.replace("-", "−");
const fixed = (value, digits) => minus(value.toFixed(digits).replace(/^-(0(\.0+)?)$/, "$1"));
const grouped = (value) => minus(String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f"));
