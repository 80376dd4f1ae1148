/** What is chosen on the page of ideas, and how the address spells it. */

export const TOKENS = 12; // at most
export const WIDTH = 8; // numbers of a key or a value, at most

/** Names of the matrices, and what they hold. */
export const NAMES = new Map([
  ["q", "queries"],
  ["k", "keys"],
  ["v", "values"],
]);

/**
 * @typedef {Object} State
 * @property {number[][]} q
 * @property {number[][]} k
 * @property {number[][]} v
 * @property {number|"inf"|null} beta null is d^-1/2
 * @property {string} mask an expression, or nothing
 * @property {number} row the query whose slope is shown
 * @property {?number} before how many tokens there were before the last came
 * @property {"weights"|"scores"} show
 */

/** The state that an address spells; what it spells badly is as at the start. */
export function stateFrom(params) {
  const given = Object.fromEntries([...NAMES.keys()].map((name) => [name, rowsFrom(params[name])]));
  const { q, k, v } = given;
  const fits =
    q && k && v && q.length === k.length && k.length === v.length && q[0].length === k[0].length;
  const start = (name) => [name, cut([], name, 5, 2)];
  const rows = fits ? given : Object.fromEntries([...NAMES.keys()].map(start));
  const n = rows.q.length;
  return {
    ...rows,
    beta: betaFrom(params.beta),
    mask: params.mask ?? "causal",
    row: within(params.row, 0, n - 1) ?? n - 1,
    before: within(params.before, 1, n - 1),
    show: params.show === "scores" ? "scores" : "weights",
  };
}

export function addressOf({ q, k, v, beta, mask, row, before, show }) {
  const spelt = (rows) => rows.map((each) => each.join(" ")).join("_");
  const rest = { beta: beta ?? "scale", mask, row, before, show: show === "scores" ? show : null };
  return { q: spelt(q), k: spelt(k), v: spelt(v), ...rest };
}

function rowsFrom(words) {
  const rows = words?.split("_").map((row) => row.split(" ").map(numberFrom));
  const fits =
    rows?.length <= TOKENS &&
    rows[0].length <= WIDTH &&
    rows.every((row) => row.length === rows[0].length && row.every(Number.isFinite));
  return fits ? rows : null;
}

function betaFrom(words) {
  if (words === "inf") return words;
  const value = numberFrom(words ?? "");
  return value >= 0 && value <= 1e6 ? value : null;
}

function numberFrom(words) {
  const value = words.trim() === "" ? NaN : Number(words);
  return Math.abs(value) <= 1e6 ? value : NaN;
}

function within(words, least, most) {
  const value = Number(words ?? NaN);
  return Number.isInteger(value) && value >= least && value <= most ? value : null;
}

/** The same rows, with as many more or fewer numbers as it takes; new ones are drawn. */
export function cut(rows, name, count, width) {
  return Array.from({ length: count }, (_, i) =>
    Array.from({ length: width }, (_, j) => rows[i]?.[j] ?? dice(name, i, j)),
  );
}

/** A number from −2 to 2 that hangs on its place alone, so that a page without choices is one. */
function dice(name, i, j) {
  let x = name.charCodeAt(0) * 7919 + i * 104729 + j * 1299709;
  for (const factor of [0x7feb352d, 0x45d9f3b5, 0x2c1b3c6d]) {
    x = Math.imul(x ^ (x >>> 16), factor);
  }
  return rounded((4 * ((x ^ (x >>> 16)) >>> 0)) / 2 ** 32 - 2);
}

export const rounded = (value) => Math.round(value * 10) / 10 || 0; // no −0
