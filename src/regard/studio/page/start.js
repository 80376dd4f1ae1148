/**
 * Start a training: a form made from a recipe's settings, and the command that says the same.
 *
 * The address keeps the recipe and what is changed in it: #start?recipe=…&train.epochs=5.
 */

const FIRST = ["", "train"]; // groups that are opened; the others are for those who look for them
const GENERAL = "general"; // what settings without a dot in their name are called together

export async function render(element, context) {
  const { api, signal, tools } = context;
  const { html, empty } = tools;
  const [recipes, listed] = await Promise.all([api.recipes(signal), api.runs(signal)]);
  const { root, runs, keep_training: keeps } = listed;
  if (!runs.length) return welcome(element, context, listed, recipes);
  element.append(
    html(
      "header",
      {},
      html("h1", {}, "Train a model"),
      html(
        "p",
        { class: "subtitle" },
        `A recipe has a value for every setting; change what you like. The run goes to ${root}.`,
      ),
    ),
  );
  if (recipes.length) form(element, context, recipes, keeps);
  else element.append(empty("There is no recipe whose data are on this machine."));
}

/** What is shown where there are no runs yet: a button for each recipe that needs no download. */
export async function welcome(element, context, { root, keep_training: keeps }, known) {
  const { api, signal, tools, go, notice } = context;
  const { html } = tools;
  const recipes = known ?? (await api.recipes(signal));
  const first = recipes.filter((recipe) => recipe.default);
  const cards = (first.length ? first : recipes).map((recipe) =>
    html(
      "li",
      { class: "card" },
      html("h2", {}, recipe.name),
      html("p", { class: "task" }, recipe.task),
      html("p", {}, recipe.words),
      html(
        "div",
        { class: "acts" },
        html(
          "button",
          {
            type: "button",
            class: "primary",
            "aria-label": `Train ${recipe.name}, ${recipe.task}`,
            on: { click: ({ currentTarget }) => begin(recipe, currentTarget) },
          },
          "Train",
        ),
        html(
          "a",
          { href: address(recipe), on: { click: (event) => settings(event, recipe) } },
          "Settings",
        ),
      ),
    ),
  );
  const below = html("div", { class: "own" });
  element.append(
    html(
      "header",
      {},
      html("h1", {}, "Train your first model"),
      html(
        "p",
        { class: "subtitle" },
        `There are no runs in ${root} yet. These need no download and train on this machine.`,
      ),
    ),
    html("ul", { class: "cards" }, cards),
    below,
  );
  if (context.params.recipe) form(below, context, recipes, keeps);

  async function begin(recipe, button) {
    button.disabled = true;
    try {
      const wish = { task: recipe.task, recipe: recipe.name, changes: {} };
      const { id } = await api.start(wish, signal);
      go(`#run/${encodeURIComponent(id)}`);
    } catch (error) {
      button.disabled = false;
      if (!signal.aborted) notice(error.message);
    }
  }

  /** The form below the cards; the address is changed without showing the view anew. */
  function settings(event, recipe) {
    if (!location.hash.startsWith("#start")) return; // a link to the view that has the form
    event.preventDefault();
    context.remember({ task: recipe.task, recipe: recipe.name });
    below.replaceChildren();
    const params = { task: recipe.task, recipe: recipe.name };
    form(below, { ...context, params }, recipes, keeps);
    below.scrollIntoView();
    below.querySelector("select").focus({ preventScroll: true });
  }
}

/** `keeps` is what the studio does with trainings of which nothing else is said. */
function form(element, context, recipes, keeps) {
  const { api, params, signal, tools, go, remember } = context;
  const { html } = tools;
  const asked = recipes.find(
    (one) => one.name === params.recipe && (!params.task || one.task === params.task),
  );
  let recipe = asked ?? recipes.find((one) => one.default) ?? recipes[0];
  let controls = [];
  const tasks = [...new Set(recipes.map((one) => one.task))];
  const which = html(
    "select",
    { id: "recipe", on: { change: choose } },
    tasks.map((task) =>
      html(
        "optgroup",
        { label: task },
        recipes.map((one, i) => one.task === task && html("option", { value: i }, one.name)),
      ),
    ),
  );
  which.value = String(recipes.indexOf(recipe));
  const about = html("p", { class: "note" });
  const search = html("input", {
    type: "search",
    placeholder: "Find a setting",
    "aria-label": "Find a setting",
    on: { input: filter },
  });
  const groups = html("div", { class: "groups" });
  const none = html("p", { class: "note", role: "status" }, "No setting is called that.");
  const command = html("code", {});
  const trouble = html("p", { class: "trouble", role: "alert", hidden: true });
  const submit = html("button", { class: "primary" }, "Train");
  const keep = html("input", { type: "checkbox", id: "keep-training", on: { change: chooseKeep } });
  keep.checked = params.keep_training ? params.keep_training === "true" : keeps;
  element.append(
    html(
      "form",
      { class: "training", novalidate: true, on: { submit: begin } },
      html(
        "div",
        { class: "top" },
        html("label", { for: "recipe" }, "Recipe"),
        which,
        search,
        about,
      ),
      groups,
      none,
      html(
        "div",
        { class: "foot" },
        trouble,
        html("div", { class: "command" }, html("span", { class: "note" }, "As a command"), command),
        html(
          "label",
          { class: "keep", for: "keep-training" },
          keep,
          "Keep training when the studio closes",
        ),
        submit,
      ),
    ),
  );
  build(params);

  /** The fields of the recipe, with the values that `said` has for them. */
  function build(said) {
    about.textContent = recipe.words;
    controls = recipe.fields.map((field) => control(field, said[field.name], tools, changed));
    const names = [...new Set([...FIRST, ...controls.map(({ group }) => group)])];
    groups.replaceChildren(
      ...names.map((group) => {
        const own = controls.filter((one) => one.group === group);
        const open = FIRST.includes(group) || own.some((one) => one.change() !== undefined);
        return html(
          "details",
          { open },
          html("summary", {}, group || GENERAL, html("span", { class: "note" })),
          html(
            "div",
            { class: "fields" },
            own.map((one) => one.element),
          ),
        );
      }),
    );
    filter();
    changed();
  }

  function choose() {
    recipe = recipes[Number(which.value)];
    for (const { field } of controls) remember({ [field.name]: null });
    build({});
  }

  function chooseKeep() {
    remember({ keep_training: keep.checked === keeps ? null : String(keep.checked) });
  }

  function changes() {
    const found = controls.map((one) => [one.field.name, one.change()]);
    return Object.fromEntries(found.filter(([, value]) => value !== undefined));
  }

  function changed() {
    const now = changes();
    const gone = controls.map(({ field }) => [field.name, null]);
    remember({ ...Object.fromEntries(gone), task: recipe.task, recipe: recipe.name, ...now });
    const flags = Object.entries(now).map(([name, value]) => flag(name, value));
    const typed = `regard train ${recipe.task} --recipe ${recipe.name}`;
    command.textContent = [typed, ...flags].join(" ");
    trouble.hidden = true;
    for (const group of groups.children) {
      const count = group.querySelectorAll(".field.changed").length;
      group.querySelector("summary .note").textContent = count ? `${count} changed` : "";
    }
  }

  /** Only the settings whose name or help has these words. */
  function filter() {
    const words = search.value.trim().toLowerCase();
    for (const { element: box, field } of controls) {
      box.hidden = !`${field.name} ${field.help ?? ""}`.toLowerCase().includes(words);
    }
    for (const group of groups.children) {
      const left = [...group.querySelectorAll(".field")].some((one) => !one.hidden);
      group.hidden = !left;
      if (words) group.open = left;
    }
    none.hidden = controls.some((one) => !one.element.hidden);
  }

  async function begin(event) {
    event.preventDefault();
    const wrong = controls.find((one) => one.wrong());
    if (wrong) return refuse(wrong.wrong(), wrong);
    submit.disabled = true;
    try {
      const wish = {
        task: recipe.task,
        recipe: recipe.name,
        changes: changes(),
        keep_training: keep.checked,
      };
      const { id } = await api.start(wish, signal);
      go(`#run/${encodeURIComponent(id)}`);
    } catch (error) {
      if (signal.aborted) return;
      const named = controls.filter(({ field }) => error.message.includes(field.name));
      refuse(error.message, named.toSorted((a, b) => b.field.name.length - a.field.name.length)[0]);
    } finally {
      submit.disabled = false;
    }
  }

  /** Say what is wrong, beside the button, and go to the setting that it is about. */
  function refuse(words, about) {
    trouble.textContent = words;
    trouble.hidden = false;
    if (!about) return;
    search.value = "";
    filter();
    about.element.closest("details").open = true;
    about.input.focus();
  }
}

/** One setting: its name, its input, what it is for, and the way back to the recipe's value. */
function control(field, said, { html }, heard) {
  const { name, kind, help, choices = [] } = field;
  const id = `field-${name}`;
  const note = help ? `${id}-help` : null;
  const input = inputOf();
  const before = told(field.default);
  const back = html(
    "button",
    {
      type: "button",
      class: "back",
      "aria-label": `Put ${name} back to ${before}`,
      on: { click: undo },
    },
    `was ${before}`,
  );
  const element = html(
    "div",
    { class: `field ${kind}` },
    html("label", { for: id }, name.slice(name.lastIndexOf(".") + 1)),
    input,
    back,
    help && html("p", { id: note, class: "note" }, marked(help, html)),
  );
  put(said === undefined ? field.default : said);
  mark();
  const group = name.includes(".") ? name.slice(0, name.lastIndexOf(".")) : "";
  return { field, group, element, input, change, wrong };

  function inputOf() {
    const common = { id, "aria-describedby": note, on: { input: listen } };
    if (kind === "bool") return html("input", { type: "checkbox", ...common });
    if (kind === "choice") {
      const options = choices.map((each) => html("option", { value: String(each) }, told(each)));
      return html("select", common, options);
    }
    if (kind === "int" || kind === "float") {
      return html("input", { type: "number", step: kind === "int" ? 1 : "any", ...common });
    }
    return html("input", { type: "text", autocomplete: "off", spellcheck: "false", ...common });
  }

  function put(value) {
    if (kind === "bool") input.checked = value === true || value === "true";
    else input.value = inputText(value);
  }

  /** The value that is there now; undefined if it is the recipe's own. */
  function change() {
    if (kind === "bool") return input.checked === field.default ? undefined : input.checked;
    if (input.value === inputText(field.default)) return undefined;
    if (kind === "choice") return choices.find((each) => String(each) === input.value);
    if (kind !== "int" && kind !== "float") return input.value;
    return input.value === "" || Number(input.value) === field.default
      ? undefined
      : Number(input.value);
  }

  function wrong() {
    if (input.validity.badInput) return `${name} is not a number.`;
    if (input.validity.stepMismatch) return `${name} is a whole number, not ${input.value}.`;
    if ((kind === "int" || kind === "float") && input.value === "" && field.default !== null) {
      return `${name} has no value; the recipe says ${told(field.default)}.`;
    }
    return "";
  }

  function listen() {
    mark();
    heard();
  }

  function mark() {
    const now = change() !== undefined;
    element.classList.toggle("changed", now);
    back.hidden = !now;
    input.setAttribute("aria-invalid", String(Boolean(wrong())));
  }

  function undo() {
    put(field.default);
    listen();
    input.focus();
  }
}

/** Words, with what stands between `these` as code. */
function marked(words, html) {
  return words.split("`").map((part, i) => (i % 2 ? html("code", {}, part) : part));
}

const inputText = (value) => (value === null ? "" : String(value));

function told(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  return inputText(value) || "none";
}

/** A setting as it is typed: yes is its name, no its name with "no-", a list its parts. */
function flag(name, value) {
  if (value === true) return `--${name}`;
  if (value === false) return `--${name.replace(/[^.]*$/, "no-$&")}`;
  const parts = /^[\w.]+(, *[\w.]+)+$/.test(value) ? value.split(/, */) : [String(value)];
  return [`--${name}`, ...parts.map(quoted)].join(" ");
}

const quoted = (words) =>
  /^[\w.,:/@%+=-]+$/.test(words) ? words : `'${words.replaceAll("'", "'\\''")}'`;
const address = ({ task, name }) => `#start?${new URLSearchParams({ task, recipe: name })}`;
