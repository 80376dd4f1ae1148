/** Work on the server that may take long: how far it is, and a way to end it. */

/**
 * Do `work(heard)`, which is told to show its progress in `place`, beside a button that ends it.
 *
 * The bar comes after `patience` ms, so that what is quick does not flicker. What was ended, here
 * or by `signal`, comes back as null; what goes wrong is thrown.
 */
export async function waiting(tools, place, { signal, patience = 0 }, work) {
  const { html } = tools;
  const stop = new AbortController();
  const bar = html("progress", { "aria-hidden": "true" });
  const words = html("span", { role: "status" }, "asking …");
  const click = () => stop.abort();
  const cancel = html("button", { type: "button", class: "cancel", on: { click } }, "Cancel");
  const box = html("div", { class: "waiting" }, bar, words, cancel);
  const timer = setTimeout(show, patience);
  const both = AbortSignal.any([signal, stop.signal]);
  try {
    return await work({ progress, signal: both });
  } catch (error) {
    if (both.aborted) return null;
    throw error;
  } finally {
    clearTimeout(timer);
    box.remove();
  }

  function show() {
    const held = place.contains(document.activeElement);
    place.replaceChildren(box);
    if (held) cancel.focus(); // who asked by keyboard can end it by keyboard
  }

  function progress({ done, of, words: said }) {
    if (of) [bar.max, bar.value] = [of, done];
    else bar.removeAttribute("value"); // how far it is is not known, so the bar only moves
    words.textContent = of ? `${said}: ${done} of ${of}` : `${said} …`;
  }
}
