/** Light or dark: as the system has it until someone chooses, and then as chosen. */

import { html } from "regard/html";

const root = document.documentElement;

/** The button that changes it; `chosen` hears "light" or "dark". */
export function themeButton(chosen = () => {}) {
  const asked = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ?? (asked.matches ? "dark" : "light")) === "dark";
  const button = html("button", { type: "button", class: "theme", on: { click } });
  asked.addEventListener("change", say);
  say();
  return button;

  function click() {
    root.dataset.theme = dark() ? "light" : "dark";
    chosen(root.dataset.theme);
    say();
  }

  function say() {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show in ${dark() ? "light" : "dark"} colours`);
  }
}
