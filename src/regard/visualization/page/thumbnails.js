/** Images to choose from, as buttons in a row; the arrow keys go from one to the next. */

import { html, picture } from "regard/html";

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
const COARSE = 64; // pixels along a side: an image of so few is shown with its pixels

/**
 * The row, and `choose(index)` to mark one. An image is {image, width, height, name, title}: its
 * name is said to those who do not see it. Only those that are seen are loaded.
 */
export function thumbnails(images, chosen) {
  const buttons = images.map(({ image, width, height, name, title }, i) => {
    const source = { src: picture(image), alt: "", loading: "lazy", decoding: "async" };
    return html(
      "button",
      {
        type: "button",
        role: "radio",
        class: "thumb",
        title,
        "aria-label": name ?? `image ${i + 1}`,
        on: { click: () => chosen(i) },
      },
      html("img", { ...source, class: Math.max(width, height) <= COARSE && "coarse" }),
    );
  });
  const keydown = (event) => {
    const to = buttons.indexOf(document.activeElement) + (STEPS[event.key] ?? NaN);
    if (!buttons[to]) return;
    event.preventDefault();
    buttons[to].focus();
    chosen(to);
  };
  const group = { class: "thumbs", role: "radiogroup", "aria-label": "Images", on: { keydown } };
  const element = html("div", group, buttons);
  return { element, choose };

  function choose(index) {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-checked", String(i === index));
      button.tabIndex = i === index ? 0 : -1;
    });
    const { offsetLeft, offsetTop } = buttons[index]; // the page itself stays put
    element.scrollTo(offsetLeft - element.offsetLeft - 64, offsetTop - element.offsetTop - 64);
  }
}
