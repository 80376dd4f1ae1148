/** Elements from plain values. Text goes in as text, never as markup, so no name can act. */

export function html(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

/**
 * Give an element its attributes and children.
 *
 * `on` maps events to functions and `style` properties to values: the page forbids style
 * attributes, but not styles set by its own scripts. Absent values (null, undefined, false) are
 * left out, and children may be elements, words, numbers or lists of them.
 */
export function furnish(element, { on = {}, style = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (!absent(value)) element.setAttribute(name, value);
  }
  for (const [name, value] of Object.entries(style)) element.style.setProperty(name, value);
  for (const [event, act] of Object.entries(on)) element.addEventListener(event, act);
  element.append(...children.flat(Infinity).filter(shown));
  return element;
}

/** What a view says when it has nothing to draw. */
export function empty(words) {
  return html("p", { class: "empty" }, words);
}

/**
 * A few choices of which one holds, as buttons side by side.
 *
 * `choices` maps what is chosen to its words; `chosen` is called with the key.
 */
export function choice(label, choices, first, chosen) {
  const buttons = Object.entries(choices).map(([key, words]) =>
    html("button", { type: "button", "aria-pressed": String(key === first), on: { click } }, words),
  );
  function click({ currentTarget }) {
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(button === currentTarget));
    }
    chosen(Object.keys(choices)[buttons.indexOf(currentTarget)]);
  }
  return html("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** The first rows of many, and a button for the rest; `draw` gets the rows to show. */
export function unfolding(rows, most, draw) {
  if (rows.length <= most * 1.25) return (draw(rows), null); // a button for a handful is a nuisance
  draw(rows.slice(0, most));
  const words = `Show all ${rows.length}`;
  const button = html("button", { type: "button", class: "more", on: { click } }, words);
  function click() {
    draw(rows);
    button.remove();
  }
  return button;
}

/** A data URI of an image, or nothing: whatever else stands there is not ours to load. */
export function picture(uri) {
  return /^data:image\/(png|jpeg|gif|webp);base64,/.test(uri ?? "") ? uri : null;
}

const absent = (value) => value === null || value === undefined || value === false;
const shown = (child) => !absent(child) && child !== true; // so that `known || words` is a child
