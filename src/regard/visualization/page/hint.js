/** A few words beside the pointer, which screen readers hear too. */

import { html } from "regard/html";

let from = [0, 0]; // how far the page was scrolled when the hint came
const box = html("div", { class: "hint", role: "status", hidden: true });

export function hint(x, y, words) {
  if (!box.isConnected) document.body.append(box);
  from = [scrollX, scrollY];
  box.textContent = words;
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const edge = document.documentElement.clientWidth - 8;
  const left = Math.max(8, Math.min(x + 14, edge - width));
  const top = y - height - 12 < 8 ? y + 20 : y - height - 12;
  box.style.setProperty("transform", `translate(${Math.round(left)}px, ${Math.round(top)}px)`);
}

/**
 * A finger leaves its hint behind; it goes when the page moves. A page is told a little later that
 * it was moved: where that was before the hint came, as when a key scrolls to a word, it stays.
 */
addEventListener("scroll", moved, { capture: true, passive: true });

function moved({ target }) {
  if (target !== document || scrollX !== from[0] || scrollY !== from[1]) unhint();
}

export function unhint() {
  box.hidden = true;
}
