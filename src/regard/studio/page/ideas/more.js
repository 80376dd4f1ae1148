/** What one token more changes, and what it leaves. */

import { TOKENS } from "studio/ideas/chosen";

/** What is "new", "kept" or "changed" in a map that has just grown; nothing in one that has not. */
export function markOf({ more, wish }, i) {
  if (!more) return "";
  if (i >= wish.before) return "new";
  return more.kept[i] ? "kept" : "changed";
}

export function moreControl({ html, format }, { add, back }) {
  const more = html("button", { type: "button", class: "add", on: { click: add } }, "Add a token");
  const hidden = { type: "button", hidden: true, on: { click: back } };
  const less = html("button", hidden, "Take it back");
  const words = html("div", { class: "story", role: "status" });
  const buttons = html("div", { class: "controls" }, more, less);
  const element = html("div", { class: "more-token" }, buttons, words);
  return { element, show };

  function show(answer, { before, q }) {
    const n = q.length;
    more.disabled = n >= TOKENS;
    less.hidden = before === null;
    const lines = before === null ? beforehand(answer, n) : afterwards(answer, before, n);
    words.replaceChildren(...lines.filter(Boolean).map((line) => html("p", {}, line)));
  }

  function beforehand({ causal }, n) {
    return [
      causal
        ? "Under this mask nothing reads what comes later: of a token more, " +
          `row ${n + 1} alone would be new.`
        : "Under this mask queries may read later keys: a token more may change old rows.",
    ];
  }

  function afterwards({ more: grown, allowed, causal }, before, n) {
    const count = (rows) => rows.flat().reduce((sum, may) => sum + may, 0);
    const fresh = count(allowed.slice(before));
    const moved = grown.kept.flatMap((kept, i) => (kept ? [] : [i + 1]));
    const kept = count(allowed.slice(0, before).filter((_, i) => grown.kept[i]));
    const entries = (number) => format.plural(number, "entry", "entries");
    const own =
      `From the kept keys and values alone, row ${n} comes out the same as from the whole map` +
      (grown.from_kept > 0 ? `, to ${format.number(grown.from_kept)}.` : ".");
    if (!moved.length) {
      return [
        `${entries(fresh)} of row ${n} are new; all ${kept} of the rows above are kept: ` +
          `no old query reads the new key, so none of their weights changes.`,
        !causal && "That is so here, though this mask does let some queries read later keys.",
        own,
      ];
    }
    const rows = moved.length === 1 ? `row ${moved[0]} changes` : `rows ${listed(moved)} change`;
    const most = format.number(Math.max(...grown.changes));
    return [
      `Row ${n} is new, and the old ${rows} as well, by up to ${most}: this mask is not causal, ` +
        "so old queries read the new key. What was kept of them is wrong now, and they are " +
        "computed anew.",
      kept > 0 && `${entries(kept)} of the other rows are kept.`,
      own,
    ];
  }
}

export const listed = (numbers) => `${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`;
