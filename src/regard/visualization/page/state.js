/** The address after # says which section is looked at, and what in it: #mistakes?item=2&layer=3 */

/** The section's name and its choices, as the address has them now. */
export function read() {
  const [section, query = ""] = location.hash.slice(1).split("?");
  return { section, choices: Object.fromEntries(new URLSearchParams(query)) };
}

/** The choices of one section: those in the address, and a way to put others there. */
export function stateOf(section) {
  return {
    read: () => (read().section === section ? read().choices : {}),
    write: (choices) => {
      history.replaceState(null, "", `#${section}?${new URLSearchParams(choices)}`);
    },
    /** Called when someone goes back, follows a link or edits the address. */
    changed: (act) =>
      addEventListener("hashchange", () => {
        const now = read();
        // A link to the section alone leaves the choices as they are.
        if (now.section === section && Object.keys(now.choices).length) act(now.choices);
      }),
  };
}
