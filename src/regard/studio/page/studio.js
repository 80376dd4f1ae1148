/**
 * The studio's shell: the way between views, light or dark, and what to say when something fails.
 *
 * The address after # says which view is shown and of what: #run/digits-001?quantity=loss is the
 * view `run` of the run digits-001. Each view is a module here that exports
 *
 *     render(element, context)
 *
 * and may be async. The context is
 *
 * - api: the server's answers (api.js);
 * - params: {id, …}, the part after the slash ("" if there is none) and the choices after "?";
 * - go(hash): show another view, as a link would;
 * - remember(choices): put choices into the address without showing the view anew, so that a link
 *   to it shows the same; null takes one away;
 * - signal: aborted once another view is shown; hand it to the api, timers and listeners;
 * - tools: what the views of look pages are given, with `name` and `state`;
 * - draw(element, sections, live): sections of a look document, drawn by the views they name; the
 *   first has `live` among its tools, what can be asked about what it shows;
 * - notice(words): say that something went wrong, without leaving what is shown;
 * - entitle(words): the title of the window.
 */

import * as api from "studio/api";
import * as format from "regard/format";
import * as page from "regard/html";
import * as pen from "regard/svg";
import { unhint } from "regard/hint";
import { themeButton } from "regard/theme";
import { TOOLS } from "regard/tools";

const { html } = page;

/** The way: what it says, where it goes, and the views that belong to it. */
const WAYS = [
  ["Runs", "#runs", ["runs", "run", "image", "text"]],
  ["Train", "#start", ["start"]],
  ["Ideas", "#ideas", ["ideas"]],
  ["Lab", "#lab", ["lab"]],
];
const VIEWS = WAYS.flatMap(([, , views]) => views);

const root = document.documentElement;
const main = html("main", { id: "content", tabindex: -1 });
const notices = html("div", { class: "notices", role: "status" });
const links = WAYS.map(([words, href]) => html("a", { href }, words));
let leave = new AbortController(); // ends what the view that is shown has under way

function start() {
  // The cookie knows the token by now, and an address is easily shown to others.
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
  followTheme();
  document.body.append(
    html("a", { class: "skip", href: "#content", on: { click: skip } }, "Skip to the content"),
    html(
      "div",
      { class: "bar" },
      html("a", { class: "brand", href: "#runs" }, eye(), "regard", html("b", {}, "studio")),
      html(
        "nav",
        { "aria-label": "Studio" },
        html(
          "ol",
          {},
          links.map((link) => html("li", {}, link)),
        ),
      ),
      themeButton((theme) => kept()?.setItem("theme", theme)),
    ),
    main,
    notices,
  );
  addEventListener("hashchange", () => show(true));
  show(false);
}

/** Show the view that the address names. */
async function show(moved) {
  leave.abort();
  const mine = (leave = new AbortController());
  root.dataset.drawn = "no";
  notices.replaceChildren();
  unhint();
  const { view, params } = address();
  WAYS.forEach(([, , views], i) => {
    if (views.includes(view)) links[i].setAttribute("aria-current", "page");
    else links[i].removeAttribute("aria-current");
  });
  const element = html("div", { class: `page ${view}` });
  main.replaceChildren(element); // before it is filled: drawings ask how wide they may be
  main.setAttribute("aria-busy", "true");
  try {
    if (!VIEWS.includes(view)) throw new Error(`There is no page called “${view}” here.`);
    const { render } = await module(view);
    if (mine.signal.aborted) return;
    await render(element, contextOf(view, params, mine.signal));
  } catch (error) {
    if (mine.signal.aborted) return;
    if (!error.status && error.message !== api.AWAY) console.error(error);
    element.replaceChildren(failure(error));
  }
  if (mine.signal.aborted) return;
  main.removeAttribute("aria-busy");
  const heading = element.querySelector("h1");
  if (!document.title.includes("·")) entitle(heading?.textContent);
  if (moved) {
    scrollTo({ top: 0, behavior: "instant" });
    main.focus({ preventScroll: true });
  }
  root.dataset.drawn = "yes";
}

function contextOf(view, params, signal) {
  document.title = "regard studio";
  return {
    api,
    params,
    signal,
    notice,
    entitle,
    go: (hash) => (location.hash = hash),
    remember,
    tools: { ...TOOLS, name: view, state: stateOf(view, signal) },
    draw: (element, sections, live) => draw(element, sections, signal, live),
  };
}

/** Sections of a look document, each with its heading; one that fails says so in its place. */
async function draw(element, sections, signal, live = {}) {
  await Promise.all(
    sections.map(async ({ view, title, words, data }, i) => {
      const name = format.slug(title, `section-${i + 1}`);
      const place = html("div", { class: `view ${view}` });
      element.append(
        html(
          "section",
          { "aria-labelledby": `${name}-title` },
          html("h2", { id: `${name}-title` }, title),
          words && html("p", { class: "words" }, words),
          place,
        ),
      );
      try {
        const { render } = await import(`regard/views/${view}`);
        const fetched = (address) => api.bytes(address, signal); // what the answer did not carry
        const own = { name, state: stateOf(name, signal), live: i ? {} : live, fetched };
        render(place, data, { ...TOOLS, ...own });
      } catch (error) {
        console.error(error);
        place.replaceChildren(page.empty(`This part could not be drawn: ${error.message}`));
      }
    }),
  );
}

/** A view; if it cannot be had, the reason is most likely that the server is gone. */
async function module(view) {
  try {
    return await import(`studio/${view}`);
  } catch (error) {
    if (!/fetch|load/i.test(error.message)) throw error; // a mistake in the module itself
    throw Object.assign(new Error(api.AWAY), { away: true });
  }
}

/** Where the address points: #run/digits-001?quantity=loss */
export function address() {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const [view, ...rest] = path.split("/");
  const choices = Object.fromEntries(new URLSearchParams(query));
  return { view: view || "runs", params: { ...choices, id: plain(rest.join("/")) } };
}

function remember(choices) {
  const [path, query = ""] = location.hash.slice(1).split("?");
  const all = new URLSearchParams(query);
  for (const [name, value] of Object.entries(choices)) {
    if (value === null || value === undefined) all.delete(name);
    else all.set(name, value);
  }
  const words = all.size ? `?${all}` : "";
  history.replaceState(null, "", `#${path || "runs"}${words}`);
}

/** What a look view chose, in the address as NAME.CHOICE, so that views do not mix theirs up. */
function stateOf(name, signal) {
  const own = () =>
    Object.fromEntries(
      Object.entries(address().params)
        .filter(([key]) => key.startsWith(`${name}.`))
        .map(([key, value]) => [key.slice(name.length + 1), value]),
    );
  return {
    read: own,
    write: (choices) => {
      if (signal.aborted) return;
      const gone = Object.keys(own()).map((key) => [`${name}.${key}`, null]);
      const said = Object.entries(choices).map(([key, value]) => [`${name}.${key}`, value]);
      remember(Object.fromEntries([...gone, ...said]));
    },
    changed: () => {}, // an address that someone edits shows the whole view anew
  };
}

/** Words that stay until they are put away or another view is shown. */
function notice(words) {
  const close = html("button", { type: "button", "aria-label": "Put away" }, "×");
  const box = html("p", { class: "notice" }, html("span", {}, words), close);
  close.addEventListener("click", () => box.remove());
  notices.replaceChildren(box);
}

function failure({ message, away }) {
  // A browser may remember that a module could not be had; a new page does not.
  const click = () => (away ? location.reload() : show(false));
  const again = html("button", { type: "button", on: { click } }, "Try again");
  return html(
    "div",
    { class: "failure" },
    html("h1", {}, "This page could not be shown"),
    html("p", {}, message),
    again,
  );
}

function entitle(words) {
  document.title = words ? `${words} · regard studio` : "regard studio";
}

function skip(event) {
  event.preventDefault(); // the address is the view's
  main.focus();
}

function followTheme() {
  const theme = kept()?.getItem("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
}

/** The browser's memory for this address, if it is allowed one. */
function kept() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

function eye() {
  const { svg } = pen;
  return svg(
    "svg",
    { viewBox: "0 0 8 8", width: 18, height: 18, "aria-hidden": "true" },
    svg("circle", { class: "ring", cx: 4, cy: 4, r: 3 }),
    svg("circle", { class: "pupil", cx: 4, cy: 4, r: 1.2 }),
  );
}

function plain(words) {
  try {
    return decodeURIComponent(words);
  } catch {
    return words;
  }
}

start();
