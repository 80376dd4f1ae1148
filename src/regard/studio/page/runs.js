/**
 * All runs, the newest first: what each was trained for and on, how well it does, how it is going.
 *
 * Runs that are ticked have their curves drawn side by side. The address keeps which these are.
 */

import { nameOf, unitOf } from "regard/epochs";
import { ago, pause, spark, state } from "studio/run";
import { welcome } from "studio/start";

const PAUSE = 2000; // ms between two looks at runs that are training
const IDLE = 10_000; // and at a list in which none is: one may be started in a terminal

export async function render(element, context) {
  const { api, params, signal, remember, tools } = context;
  const { html, empty, format } = tools;
  const listed = await api.runs(signal);
  const { root, runs } = listed;
  if (!runs.length) return welcome(element, context, listed);

  const chosen = new Set((params.chosen ?? "").split(",").filter(Boolean));
  const rows = new Map();
  const count = html("p", { class: "subtitle" });
  const list = html("ul", { class: "list", "aria-label": "Runs" });
  const beside = html("div", { class: "beside" });
  const only = html("div", { class: "controls" });
  let task = params.task ?? "";
  let asked = 0; // how often curves were asked for
  element.append(
    html(
      "header",
      {},
      html(
        "div",
        { class: "heading" },
        html("h1", {}, "Runs"),
        html("a", { class: "button primary", href: "#start" }, "Train a model"),
      ),
      count,
    ),
    only,
    html("div", { class: "split" }, list, beside),
  );
  update(runs);
  await drawChosen();
  follow();

  /** Look again from time to time; a list that cannot be had now stays as it is. */
  async function follow() {
    let [before, said] = [runs, false];
    while (!signal.aborted) {
      const busy = before.some((run) => run.state === "training");
      await pause(busy ? PAUSE : IDLE, signal);
      if (signal.aborted) return;
      if (document.hidden) continue;
      try {
        const now = await api.runs(signal);
        const moved = now.runs.some(
          (run) =>
            chosen.has(run.id) && run.epoch !== before.find((old) => old.id === run.id)?.epoch,
        );
        before = now.runs;
        said = false;
        update(before);
        if (moved) await drawChosen();
      } catch (error) {
        if (!signal.aborted && !said) context.notice(error.message);
        said = true;
      }
    }
  }

  function update(found) {
    const newest = found.toSorted((a, b) => (a.modified < b.modified ? 1 : -1));
    const tasks = [...new Set(found.map((run) => run.task).filter(Boolean))].toSorted();
    if (!tasks.includes(task)) task = "";
    const shown = newest.filter((run) => !task || run.task === task);
    count.textContent = `${format.plural(found.length, "run")} in ${root}`;
    for (const run of found) {
      if (!rows.has(run.id)) rows.set(run.id, row(run));
      rows.get(run.id).show(run);
    }
    const wanted = shown.map((run) => rows.get(run.id).element);
    // Only where it differs: an element that is moved loses the focus.
    if (wanted.length !== list.children.length || wanted.some((e, i) => e !== list.children[i])) {
      list.replaceChildren(...wanted);
    }
    if (tasks.length > 1 && only.dataset.tasks !== tasks.join()) {
      only.dataset.tasks = tasks.join();
      const words = { "": "All", ...Object.fromEntries(tasks.map((name) => [name, name])) };
      only.replaceChildren(
        tools.choice("Show runs of", words, task, (name) => {
          task = name;
          remember({ task: name || null });
          update(found);
        }),
      );
    }
  }

  function row(first) {
    const { id } = first;
    const tick = html("input", {
      type: "checkbox",
      "aria-label": `Draw the curves of ${id}`,
      on: { change },
    });
    tick.checked = chosen.has(id);
    const parts = html("div", { class: "what" });
    const box = html("li", { class: "entry" }, html("label", { class: "tick" }, tick), parts);
    let last = "";
    return { element: box, show };

    function show(run) {
      const now = JSON.stringify(run);
      if (now === last) return;
      last = now;
      const held = parts.contains(document.activeElement);
      parts.replaceChildren(
        html(
          "div",
          { class: "who" },
          html("a", { class: "name", href: `#run/${encodeURIComponent(id)}` }, id),
          html("p", { class: "note" }, about(run)),
          run.error && html("p", { class: "note wrong" }, run.error),
        ),
        spark(run, tools),
        html(
          "div",
          { class: "best" },
          run.figure && [
            html("b", {}, figure(run.figure)),
            html("span", { class: "note" }, nameOf(run.figure.name)),
          ],
        ),
        html(
          "div",
          { class: "going" },
          state(run, tools),
          html("span", { class: "note" }, how(run)),
        ),
      );
      if (held) parts.querySelector("a").focus();
    }

    function change() {
      if (tick.checked) chosen.add(id);
      else chosen.delete(id);
      remember({ chosen: chosen.size ? [...chosen].join() : null });
      drawChosen();
    }
  }

  function figure({ name, value }) {
    return format.quantity(value, unitOf(name));
  }

  function about(run) {
    const size = Number.isFinite(run.parameters) && `${format.number(run.parameters)} parameters`;
    return [run.task, run.data, size].filter(Boolean).join(" · ");
  }

  function how(run) {
    const epochs = run.epochs ? `${run.epoch} of ${format.plural(run.epochs, "epoch")}` : "";
    return [epochs, ago(run.modified)].filter(Boolean).join(" · ");
  }

  /** The curves of the runs that are ticked; of those asked for last, if asked twice. */
  async function drawChosen() {
    const mine = (asked += 1);
    const ids = [...chosen].filter((id) => rows.has(id));
    element.classList.toggle("comparing", ids.length > 0);
    if (!ids.length) return beside.replaceChildren();
    const found = await Promise.all(ids.map((id) => api.run(id, signal).catch(() => null)));
    if (signal.aborted || mine !== asked) return;
    const whole = found.filter(Boolean);
    const place = html("div", { class: "view curves" });
    const words = whole.length === 1 ? whole[0].id : format.plural(whole.length, "run");
    beside.replaceChildren(
      html(
        "section",
        { "aria-label": "Curves" },
        html(
          "div",
          { class: "heading" },
          html("h2", {}, `Curves of ${words}`),
          html("button", { type: "button", on: { click: none } }, "Clear"),
        ),
        place,
      ),
    );
    if (!whole.length) return place.append(empty("These runs are not there any more."));
    const { render: curves } = await import("regard/views/curves");
    const lines = whole.map((run) => ({ name: run.id, lines: run.metrics }));
    curves(place, { runs: lines }, tools);
  }

  function none() {
    chosen.clear();
    for (const { element: box } of rows.values()) box.querySelector("input").checked = false;
    remember({ chosen: null });
    drawChosen();
    list.querySelector("input")?.focus();
  }
}
