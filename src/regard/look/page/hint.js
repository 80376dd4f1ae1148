/** A few words beside the pointer, which screen readers hear too. */

import { html } from "regard/html";

const box = html("div", { class: "hint", role: "status", hidden: true });

export function hint(x, y, words) {
  if (!box.isConnected) document.body.append(box);
  box.textContent = words;
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const edge = document.documentElement.clientWidth - 8;
  const left = Math.max(8, Math.min(x + 14, edge - width));
  const top = y - height - 12 < 8 ? y + 20 : y - height - 12;
  box.style.setProperty("transform", `translate(${Math.round(left)}px, ${Math.round(top)}px)`);
}

/** A finger leaves its hint behind; it goes when the page moves. */
addEventListener("scroll", unhint, { capture: true, passive: true });

export function unhint() {
  box.hidden = true;
}
