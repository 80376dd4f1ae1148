/** The page: a heading, what it is about, and one section a view, with the way between them. */

import * as format from "regard/format";
import * as page from "regard/html";
import { read, stateOf } from "regard/state";
import { themeButton } from "regard/theme";
import { TOOLS } from "regard/tools";

const { html } = page;

/** Draw the whole document into `root`, and say when it is done. */
export async function show({ title, subtitle, about = [], sections = [] }, root) {
  const places = withNames(sections);
  const links = places.map(({ name, title }) => html("a", { href: `#${name}` }, title));
  const parts = places.map(frame);
  page.furnish(root, {}, [
    links.length > 1 && html("a", { class: "skip", href: links[0].hash }, "Skip to the sections"),
    html(
      "header",
      {},
      html("div", { class: "heading" }, html("h1", {}, title), themeButton()),
      subtitle && html("p", { class: "subtitle" }, subtitle),
      about.length > 0 && html("dl", { class: "about" }, about.map(fact)),
    ),
    links.length > 1 && navigation(links),
    html("main", {}, parts),
  ]);
  follow(links, parts);
  await Promise.all(places.map((place, i) => fill(parts[i].querySelector(".view"), place)));
  goToAddress();
  addEventListener("hashchange", goToAddress);
  document.documentElement.dataset.drawn = "yes";
}

function navigation(links) {
  const entries = links.map((link) => html("li", {}, link));
  return html("nav", { "aria-label": "Sections" }, html("ol", {}, entries));
}

/** Each section with a name for its address, made from its title. */
function withNames(sections) {
  const taken = new Set(["document"]);
  return sections.map((section, i) => {
    const stem = format.slug(section.title, `section-${i + 1}`);
    let name = stem;
    for (let n = 2; taken.has(name); n += 1) name = `${stem}-${n}`;
    taken.add(name);
    return { ...section, name };
  });
}

function frame({ name, title, words, view }) {
  return html(
    "section",
    { id: name, "aria-labelledby": `${name}-title` },
    html("h2", { id: `${name}-title` }, title),
    words && html("p", { class: "words" }, words),
    html("div", { class: `view ${view}` }),
  );
}

/** One section that fails says so in its place; the others are drawn all the same. */
async function fill(element, { view, data, name }) {
  try {
    const { render } = await import(`regard/views/${view}`);
    render(element, data, { ...TOOLS, name, state: stateOf(name) });
  } catch (error) {
    console.error(error);
    element.replaceChildren(page.empty(`This part could not be drawn: ${error.message}`));
  }
}

function fact([name, value]) {
  return html("div", {}, html("dt", {}, name), html("dd", {}, format.said(value)));
}

/** Mark the link of the section that is being read. */
function follow(links, parts) {
  const visible = new Set();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) visible.add(target);
        else visible.delete(target);
      }
      const first = parts.findIndex((part) => visible.has(part));
      if (first < 0) return;
      links.forEach((link, i) => {
        if (i === first) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
      const list = links[first].closest("ol"); // sideways only: the page itself stays put
      list?.scrollTo({ left: links[first].offsetLeft - list.offsetLeft - 16 });
    },
    { rootMargin: "-15% 0px -60% 0px" },
  );
  for (const part of parts) watch.observe(part);
}

/** The browser itself finds #section, but not #section?item=2. */
function goToAddress() {
  const { section } = read();
  if (section) document.getElementById(section)?.scrollIntoView();
}
