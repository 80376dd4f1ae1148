/**
 * One run: its curves and its log as they grow, what it was asked, and what can be done with it.
 *
 * Also what the list says of a run in the same words: its state, its figure, its small curve.
 */

import { render as list } from "regard/views/facts";
import { epochCharts, epochOf, figuresIn, legendKey } from "regard/epochs";
import { seriesOf, unitOf, wordsOf } from "regard/epochs";

const AGAIN = 2000; // ms until a line that broke off is tried again
const KEPT = 40_000; // letters of the log that the page holds
const OWNERS = {
  studio: "Saves and stops when the studio closes",
  kept: "Goes on when the studio closes",
  terminal: "Not started by a studio: stop it where it was started, with Ctrl-C",
};

export async function render(element, context) {
  const { api, params, signal, tools, notice } = context;
  const { html, format } = tools;
  const { id } = params;
  let run = await api.run(id, signal);
  context.entitle(id);

  const lines = new Map(run.metrics.map((line, i) => [epochOf(line, i), line]));
  const head = html("div", { class: "status" });
  const acts = html("div", { class: "acts" });
  const numbers = html("dl", { class: "about" });
  const charts = html("div", { class: "view curves" });
  const log = html("pre", { class: "log", tabindex: 0, role: "log", "aria-label": "Log" });
  const settings = html("div", { class: "view facts" });
  element.append(
    html(
      "header",
      {},
      html("p", { class: "trail" }, html("a", { href: "#runs" }, "← Runs")),
      html("div", { class: "heading" }, html("h1", {}, id), acts),
      html("p", { class: "subtitle" }, subtitle(run)),
      head,
      numbers,
    ),
    part("Curves", "Lines are drawn as epochs end. Point at one, or use the arrow keys.", charts),
    part("Log", "", log),
    part(
      "Settings",
      "",
      html("details", {}, html("summary", {}, "All that the run was asked to do"), settings),
    ),
  );
  const live = curves(charts, id, tools);
  say(run.log, true);
  facts();
  settle();
  follow();

  /** Hear the run until it is done, over again if the line breaks off; a stopped one may go on. */
  async function follow() {
    let broken = false;
    while (!signal.aborted && !ended()) {
      let fresh = true; // a new line tells the log from where it likes; what was shown gives way
      try {
        await api.watch(
          id,
          {
            metrics: (line) => {
              lines.set(line.epoch ?? lines.size + 1, line);
              run.epoch = Math.max(...lines.keys());
              settle();
            },
            log: (text) => {
              say(text, fresh);
              fresh = false;
            },
            state: (now) => {
              if (now !== run.state) run.owner = null;
              run.state = now;
              settle();
              if (now === "training" && !run.owner) own();
            },
          },
          signal,
        );
        if (signal.aborted) return;
        await renew();
        broken = false;
        if (ended()) return;
      } catch (error) {
        if (signal.aborted) return;
        if (!broken) notice(`${error.message} The page tries again.`);
        broken = true;
      }
      await pause(AGAIN, signal);
    }
  }

  function ended() {
    return run.state === "done" || run.state === "broken";
  }

  /** All that the server knows of the run now. */
  async function renew() {
    run = await api.run(id, signal);
    lines.clear();
    run.metrics.forEach((line, i) => lines.set(line.epoch ?? i + 1, line));
    say(run.log, true);
    facts();
    settle();
  }

  /** Everything that changes with an epoch or with the state. */
  function settle() {
    const rows = [...lines.entries()].toSorted(([a], [b]) => a - b).map(([, line]) => line);
    head.replaceChildren(state(run, tools), progress(), belonging(), trouble());
    numbers.replaceChildren(...figures(rows));
    live.show(rows);
    charts.closest("section").hidden = ended() && !rows.length;
    const held = acts.contains(document.activeElement) && document.activeElement.textContent;
    acts.replaceChildren(...actions());
    if (held) [...acts.children].find((one) => one.textContent === held)?.focus();
  }

  function progress() {
    if (!run.epochs) return "";
    const words = `${run.epoch} of ${format.plural(run.epochs, "epoch")}`;
    const bar = html("progress", { max: run.epochs, value: run.epoch, "aria-label": words });
    return html("span", { class: "progress" }, bar, html("span", {}, words));
  }

  /** Whose training it is that has just begun. */
  async function own() {
    const { owner } = await api.run(id, signal).catch(() => ({}));
    if (signal.aborted || run.state !== "training") return;
    run.owner = owner;
    settle();
  }

  /** What becomes of a training when the studio is closed. */
  function belonging() {
    const words = run.state === "training" && OWNERS[run.owner];
    return words ? html("span", { class: "note" }, words) : "";
  }

  function trouble() {
    return run.error ? html("p", { class: "trouble" }, run.error) : "";
  }

  function figures(rows) {
    const last = rows.at(-1) ?? {};
    const best = run.figure;
    const name = Object.keys(last).find((key) => key.startsWith("val/"));
    const quantity = name?.slice("val/".length);
    const kept = rows.findLast((line) => line.is_best === true)?.[name] ?? best?.value;
    const found = [
      name && [`best ${wordsOf(quantity)}`, format.quantity(kept, unitOf(quantity))],
      name && [`last ${wordsOf(quantity)}`, format.quantity(last[name], unitOf(quantity))],
      last["train/loss"] !== undefined && [
        "loss of the last epoch",
        format.number(last["train/loss"]),
      ],
      Number.isFinite(run.parameters) && ["parameters", format.number(run.parameters)],
      last.train_seconds && ["time in training", duration(last.train_seconds)],
    ];
    return found
      .filter(Boolean)
      .map(([term, value]) => html("div", {}, html("dt", {}, term), html("dd", {}, value)));
  }

  function actions() {
    const address = encodeURIComponent(id);
    const ready = run.epoch > 0;
    return [
      run.state === "training" &&
        run.owner !== "terminal" &&
        button("Stop", "", () => act(api.stop, "Stopping …")),
      run.state === "stopped" && button("Resume", "primary", () => act(api.resume, "Resuming …")),
      ready &&
        run.input === "image" &&
        html("a", { class: "button primary", href: `#image/${address}` }, "Show it an image"),
      ready &&
        (run.input === "text" || run.input === "pair") &&
        html("a", { class: "button primary", href: `#text/${address}` }, "Give it a text"),
      run.report &&
        html(
          "a",
          { class: "button", href: api.reportAddress(id), target: "_blank", rel: "noopener" },
          "Report",
        ),
    ].filter(Boolean);
  }

  async function act(ask, meanwhile) {
    for (const one of acts.querySelectorAll("button")) {
      one.disabled = true;
      one.textContent = meanwhile;
    }
    try {
      await ask(id, signal); // what comes of it is heard
    } catch (error) {
      if (signal.aborted) return;
      notice(error.message);
      settle();
    }
  }

  /** More of the log, or all of it; someone who reads at its end stays there. */
  function say(text, anew) {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 24;
    const whole = ((anew ? "" : log.textContent) + text).slice(-KEPT);
    log.textContent = whole;
    log.closest("section").hidden = !whole;
    if (atEnd || anew) log.scrollTop = log.scrollHeight;
  }

  function facts() {
    const rows = flat(run.config ?? {});
    settings.replaceChildren();
    settings.closest("section").hidden = !rows.length;
    if (rows.length) list(settings, { rows }, tools);
  }

  function part(title, words, ...content) {
    const name = `${format.slug(title, "part")}-title`;
    return html(
      "section",
      { "aria-labelledby": name },
      html("h2", { id: name }, title),
      words && html("p", { class: "words" }, words),
      content,
    );
  }

  function button(text, kind, click) {
    return html("button", { type: "button", class: kind, on: { click } }, text);
  }
}

/**
 * Charts that grow: `show(lines)` draws the lines of all epochs so far, a chart for each quantity.
 * A chart that is there already is kept, with its crosshair.
 */
export function curves(element, title, { html, empty, colour }) {
  const nothing = empty("The first epoch has not ended yet.");
  const legend = html("div", { class: "legend" });
  element.append(nothing);
  const charts = epochCharts(element, legend, { title });
  return { show };

  function show(lines) {
    const known = figuresIn(lines);
    const quantities = [...new Set(known.map(([, quantity]) => quantity))];
    nothing.hidden = quantities.length > 0;
    for (const quantity of quantities) {
      // One name for all, so that a reader sees a row for each kind.
      const look = (split) => ({ name: wordsOf(quantity), ink: inkOf(split) });
      charts.show(quantity, seriesOf(lines, quantity, look), best(lines, quantity));
    }
    const splits = [...new Set(known.map(([split]) => split))];
    const kept = quantities.some((quantity) => best(lines, quantity).length);
    legend.replaceChildren(
      ...splits.map((split) => legendKey(`${inkOf(split)} ${split}`, split)),
      kept ? legendKey(`${inkOf("validation")} dot`, "weights kept") : "",
    );
  }

  function inkOf(split) {
    return colour.ink(split === "train" ? 1 : 0);
  }

  /** A dot on the epoch whose weights are kept. */
  function best(lines, quantity) {
    const at = lines.findLastIndex((line) => line.is_best === true);
    const value = lines[at]?.[`val/${quantity}`];
    if (lines.length < 2 || !Number.isFinite(value)) return [];
    return [{ ink: inkOf("validation"), x: epochOf(lines[at], at), y: value, shape: "dot" }];
  }
}

/** The state of a run as a word with a sign before it. */
export function state(run, { html }) {
  const sign = html("i", { "aria-hidden": "true" });
  return html("span", { class: `state ${run.state}` }, sign, run.state);
}

/** How the deciding figure went, in the size of a word. */
export function spark({ spark: values = [] }, { svg, scale, segments, path, html }) {
  const known = values.filter(Number.isFinite);
  if (known.length < 2) return html("div", { class: "spark" });
  const [width, height] = [96, 28];
  const toX = scale([0, values.length - 1], [2, width - 4]);
  const toY = scale([Math.min(...known), Math.max(...known)], [height - 4, 4]);
  const points = values.map((value, i) => [toX(i), Number.isFinite(value) ? toY(value) : null]);
  const [x, y] = points.findLast(([, at]) => at !== null);
  return html(
    "div",
    { class: "spark ink-0", "aria-hidden": "true" },
    svg(
      "svg",
      { width, height, viewBox: `0 0 ${width} ${height}` },
      segments(points).map((one) => svg("path", { class: "series", d: path(one) })),
      svg("circle", { class: "lone", cx: x, cy: y, r: 2.5 }),
    ),
  );
}

/** How long ago, in one word and a number. */
export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  const days = Math.floor(seconds / 86_400);
  return days === 1 ? "yesterday" : `${days} days ago`;
}

export function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** Wait, but not for a view that was left. */
export function pause(time, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, time);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function subtitle({ task, data, recipe }) {
  const what = [task, data && `on ${data}`].filter(Boolean).join(" ");
  return recipe ? `${what}, recipe ${recipe}` : what;
}

/** [name, value, group] for each setting; what stands at the top is a group of its own. */
function flat(config) {
  const rows = [];
  const walk = (values, group) => {
    for (const [name, value] of Object.entries(values)) {
      if (value && typeof value === "object" && !Array.isArray(value)) {
        walk(value, group ? `${group}.${name}` : name);
      } else {
        rows.push([name, Array.isArray(value) ? value.join(", ") || "none" : shown(value), group]);
      }
    }
  };
  walk(config, "");
  return rows.toSorted(([, , a], [, , b]) => (a === b ? 0 : a < b ? -1 : 1));
}

const shown = (value) => (value === null || value === "" ? "none" : value);
