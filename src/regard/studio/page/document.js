/**
 * Ask a run where it looked, and draw what comes: its answer in words, and the sections of the look
 * document by the views that they name.
 *
 * Only the newest question counts: a new one waits until its asker pauses, and ends the request
 * before it. One that takes long says how far it is, and can be ended.
 */

import { nameOf, unitOf } from "regard/epochs";
import { waiting } from "studio/waiting";

const SHOWN = 5; // answers that are listed
const PATIENCE = 400; // ms in which an answer is quick

/**
 * A way to ask, and the elements that show what comes of it.
 *
 * `ask(input)` asks, after `wait` ms in which nothing else is asked, or after another pause that is
 * given; `ask(null, words)` takes the answer away and says the words instead. `answer`, `status`
 * and `sections` are for the view to place; with `bars` the answer lists the likeliest ones, which
 * most sections do themselves.
 */
export function looking({ api, draw, params, signal, tools }, { wait = 0, bars = false } = {}) {
  const { html } = tools;
  const answer = html("div", { class: "answer" });
  const said = html("p", { class: "note", role: "status" });
  const going = html("div", { class: "going-on" });
  const sections = html("div", { class: "looked" });
  let under = new AbortController(); // the question under way
  let timer = 0;
  signal.addEventListener("abort", stop);
  return { answer, status: [said, going], sections, ask, stop };

  function ask(input, words = "", pause = wait) {
    stop();
    if (input === null) return clear(words);
    timer = setTimeout(send, pause, input);
    wants(true);
  }

  /** Forget the question that waits or is under way. */
  function stop() {
    clearTimeout(timer);
    under.abort();
    wants(false);
  }

  async function send(input) {
    const mine = (under = new AbortController());
    const now = { signal: mine.signal, patience: PATIENCE };
    try {
      const found = await waiting(tools, going, now, (heard) =>
        api.look(params.id, input, { ...heard, piece: grow() }),
      );
      if (mine.signal.aborted) return;
      if (!found) return ended();
      const { document, answers, more = [] } = found;
      // Then drawing happens at once, without an empty page in between.
      await Promise.allSettled(document.sections.map(({ view }) => import(`regard/views/${view}`)));
      if (mine.signal.aborted) return;
      tools.unhint();
      said.textContent = "";
      said.classList.remove("trouble");
      answer.replaceChildren(...answerOf(answers, tools, bars));
      sections.replaceChildren();
      await draw(sections, document.sections, liveOf(input, more, mine.signal));
      if (!mine.signal.aborted) wants(false);
    } catch (error) {
      if (mine.signal.aborted) return;
      clear(error.message);
      said.classList.add("trouble");
      wants(false);
    }
  }

  function ended() {
    clear("Cancelled.");
    wants(false);
  }

  /** What may yet be asked about the same input, as far as this run can say it. */
  function liveOf(input, more, still) {
    const ways = {
      falls: async (place) => {
        try {
          return await waiting(tools, place, { signal: still }, (heard) =>
            api.falls(params.id, input, heard),
          );
        } catch (error) {
          place.replaceChildren(html("p", { class: "trouble", role: "alert" }, error.message));
          return null;
        }
      },
      reads: (patch) => api.reads(params.id, input, patch, { signal: still }),
    };
    return Object.fromEntries(more.map((name) => [name, ways[name]]));
  }

  /** An answer in words, shown as it is written. */
  function grow() {
    const words = html("p", { class: "says long growing", dir: "auto" });
    return ({ text }) => {
      if (!words.isConnected) answer.replaceChildren(words);
      answer.classList.remove("stale");
      words.append(text);
    };
  }

  function clear(words) {
    tools.unhint();
    said.classList.remove("trouble");
    said.textContent = words;
    answer.replaceChildren();
    sections.replaceChildren();
  }

  /** What is shown is still the answer to another question. */
  function wants(more) {
    for (const part of [answer, sections]) {
      part.classList.toggle("stale", more);
      part.setAttribute("aria-busy", String(more));
    }
  }
}

/** What a run answers, in words: the values of `predict`, one for each text that was asked. */
export function answerOf(answers, tools, bars = false) {
  const all = [answers].flat().filter(Boolean);
  if (all.length < 2) return all.flatMap((values) => saidOf(values, tools, bars));
  return all.map((values) => {
    const name = tools.html("p", { class: "note", dir: "auto" }, values.input);
    return tools.html("div", { class: "one" }, name, saidOf(values, tools));
  });
}

function saidOf(values, { html, format }, bars = false) {
  const said = values.answer ?? values.translation;
  const shares = Object.entries(values.probabilities ?? {}).sort(([, a], [, b]) => b - a);
  const share = values.probabilities?.[said];
  return [
    typeof said === "string" &&
      html(
        "p",
        { class: said.length > 24 ? "says long" : "says", dir: "auto" },
        said || html("i", {}, "nothing"),
        share !== undefined && html("span", { class: "share" }, format.percent(share)),
      ),
    typeof values.truth === "string" &&
      html("p", { class: "note given" }, "The data say ‘", html("bdi", {}, values.truth), "’."),
    (values.words ?? []).map((best, i) => barsOf(`Missing word ${i + 1}`, Object.entries(best))),
    shares.length > 0 && (bars || said === undefined) && barsOf(null, shares),
  ]
    .flat()
    .filter(Boolean);

  function barsOf(title, named) {
    const rows = named.slice(0, SHOWN).map(([name, part]) => barOf(name, part, { html, format }));
    return html("div", { class: "answers" }, title && html("h4", {}, title), html("ol", {}, rows));
  }
}

/** A name, its share of 1 as a bar, and as a number. */
export function barOf(name, share, { html, format }, attributes = {}) {
  return html(
    "li",
    attributes,
    html("span", { class: "name", title: name }, html("bdi", {}, name)),
    html("span", { class: "track" }, html("i", { style: { width: `${100 * share}%` } })),
    html("span", { class: "share" }, format.percent(share)),
  );
}

/** The heading of a view on one run: whose it is, and the way back. */
export function headingOf({ id, data, figure }, words, { html, format }) {
  const told = ({ name, value }) =>
    `${nameOf(name)} ${format.quantity(value, unitOf(name))}`;
  const known = [data && `trained on ${data}`, figure && told(figure)];
  const own = `#run/${encodeURIComponent(id)}`;
  const link = (href, name) => [html("a", { href }, name), " / "];
  return html(
    "header",
    {},
    html("p", { class: "trail" }, link("#runs", "Runs"), link(own, id)),
    html("h1", {}, words),
    html("p", { class: "subtitle" }, known.filter(Boolean).join("; ")),
  );
}
