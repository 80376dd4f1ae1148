/**
 * The server's answers, one function a route.
 *
 * Every function takes an AbortSignal last, or in its options: a view that is left asks no more.
 * What goes wrong is thrown as an Error whose message is a sentence to show as it is.
 *
 * @typedef {Object} Run
 * @property {string} id
 * @property {?string} task
 * @property {?string} data
 * @property {?string} recipe
 * @property {"training"|"stopped"|"done"|"broken"} state
 * @property {number} epoch how many are done
 * @property {?number} epochs how many there are to be
 * @property {?{name: string, value: number}} figure the best one on validation
 * @property {number[]} spark that figure after each epoch
 * @property {?number} parameters
 * @property {string} modified ISO time
 * @property {"image"|"text"|"pair"|null} input what it can be asked
 * @property {boolean} writes whether it goes on with a text
 * @property {"studio"|"kept"|"terminal"|null} owner who has started its training: a studio, with
 *   which it ends; one that it outlives; nobody that a studio could stop it for
 * @property {?string} error why it cannot be read, or why its training failed
 *
 * @typedef {Run & {config: Object, metrics: Object[], log: string, report: boolean}} WholeRun
 *
 * @typedef {Object} Field one setting of a recipe
 * @property {string} name dotted, such as train.epochs
 * @property {"int"|"float"|"bool"|"text"|"choice"} kind
 * @property {*} default
 * @property {string} help
 * @property {Array} [choices]
 *
 * @typedef {Object} Recipe
 * @property {string} task
 * @property {string} name
 * @property {string} words
 * @property {boolean} default
 * @property {Field[]} fields
 *
 * @typedef {Object} Token
 * @property {string} text
 * @property {number} probability
 * @property {Array<[string, number]>} top the likeliest, the first one first
 */

const EVENTS = "text/event-stream";
export const AWAY = "The studio does not answer. Is it still running in its terminal?";

/** @returns {Promise<{root: string, keep_training: boolean, runs: Run[]}>} */
export const runs = (signal) => ask("/api/runs", { signal });

/** @returns {Promise<WholeRun>} */
export const run = (id, signal) => ask(at(id), { signal });

/** @returns {Promise<Recipe[]>} */
export const recipes = (signal) => ask("/api/recipes", { signal });

/**
 * Start a training.
 * @param {Object} wish
 * @param {string} wish.task
 * @param {string} wish.recipe
 * @param {Object<string, *>} wish.changes
 * @param {boolean} [wish.keep_training] whether it goes on when the studio closes
 * @returns {Promise<{id: string}>}
 */
export const start = (wish, signal) => ask("/api/runs", { json: wish, signal });

/** Let the training end after its step; what it learned is kept. */
export const stop = (id, signal) => ask(at(id, "stop"), { json: {}, signal });

/** @returns {Promise<{id: string}>} */
export const resume = (id, signal) => ask(at(id, "resume"), { json: {}, signal });

export const reportAddress = (id) => at(id, "report");

/**
 * What happens in a run, from its first epoch on, until it ends or the signal says so.
 * @param {string} id
 * @param {{metrics?: function(Object), log?: function(string), state?: function(string)}} hear
 */
export const watch = (id, hear, signal) => listen(at(id, "events"), { signal }, hear);

/**
 * Where the model looked.
 * @param {string} id
 * @param {Blob|{text: string, pair?: string}|{split: string, index: number}} input an image (its
 *   type says which kind), a text, or which item of the run's own data
 * @param {Heard} [heard] and the signal
 * @returns {Promise<{document: Object, answers: *, more: string[]}>}
 */
export const look = (id, input, heard) => follow(at(id, "look"), input, heard);

/**
 * How far the answer falls without each patch of an image.
 * @returns {Promise<{names: string[], whole: number[], grid: number[], falls: number[][]}>}
 */
export const falls = (id, input, heard) => follow(at(id, "falls"), input, heard);

/**
 * What one patch of an image read, as maps.
 * @returns {Promise<{heads: Object, rollout: Object}>}
 */
export const reads = (id, input, patch, heard) =>
  follow(`${at(id, "reads")}?${new URLSearchParams({ patch })}`, input, heard);

/**
 * Let the model go on with a text, heard token by token; aborting the signal stops it.
 * @param {string} id
 * @param {{text: string, temperature: number, top_p: number, length: number}} wish
 * @param {{token?: function(Token), end?: function({why: string})}} hear
 */
export const write = (id, wish, hear, signal) =>
  listen(at(id, "write"), { json: wish, signal }, hear);

/** @returns {Promise<{weights: number[][], read: number[][], scores: *, jacobian: *}>} */
export const attend = (wish, signal) => ask("/api/attend", { json: wish, signal });

/** @returns {Promise<{text: string, matrix: *, density: number}>} */
export const mask = (wish, signal) => ask("/api/mask", { json: wish, signal });

/** All claims, without running them. */
export const lab = (signal) => ask("/api/lab", { signal });

/** Check one claim with these numbers. */
export const claim = (id, numbers, signal) =>
  ask(`/api/lab/${encodeURIComponent(id)}`, { json: { numbers }, signal });

/**
 * Part of an answer that is fetched when it is wanted, such as the map of one head.
 * @returns {Promise<Uint8Array>}
 */
export async function bytes(address, signal) {
  const answer = await send(address, { signal });
  return new Uint8Array(await answer.arrayBuffer());
}

/**
 * Ask for JSON. With `json` or `blob` it is a POST.
 * @returns {Promise<*>}
 */
export async function ask(address, options = {}) {
  const answer = await send(address, options);
  return answer.json();
}

/**
 * Ask about something what may take long, and hear on the way how it goes.
 * @typedef {Object} Heard
 * @property {function({done: number, of: ?number, words: string})} [progress]
 * @property {function({text: string})} [piece] more of an answer in words
 * @property {AbortSignal} [signal] ends the work on the server too
 */
export async function follow(address, input, { signal, ...hear } = {}) {
  const body = input instanceof Blob ? { blob: input } : { json: input };
  const answer = await send(address, { ...body, signal, events: true });
  if (!answer.headers.get("Content-Type")?.startsWith(EVENTS)) return answer.json();
  try {
    for await (const { event, data } of events(answer.body)) {
      if (event === "result") return JSON.parse(data);
      if (event === "error") throw Object.assign(new Error(valueOf(data).error), { status: 422 });
      hear[event]?.(valueOf(data));
    }
  } catch (error) {
    throw error instanceof TypeError && !signal?.aborted ? new Error(AWAY) : error;
  }
  throw new Error(AWAY); // it broke off
}

/**
 * Hear server-sent events until the stream ends or the signal says so.
 *
 * `hear` has a function for each name of event; data that are JSON arrive as values. A stream that
 * breaks off throws; one that was aborted just ends.
 */
export async function listen(address, options, hear) {
  try {
    const answer = await send(address, options);
    for await (const { event, data } of events(answer.body)) hear[event]?.(valueOf(data));
  } catch (error) {
    if (options.signal?.aborted) return;
    throw error instanceof TypeError ? new Error(AWAY) : error;
  }
}

/** The answer to a request that went well. */
async function send(address, { json, blob, signal, events: told = false }) {
  const request = { signal, cache: "no-store", headers: told ? { Accept: EVENTS } : {} };
  if (json !== undefined) {
    request.method = "POST";
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(json);
  } else if (blob) {
    request.method = "POST";
    request.headers["Content-Type"] = blob.type;
    request.body = blob;
  }
  const sent = taken(address, request) ?? fetch(address, request);
  const answer = await sent.catch((error) => {
    throw signal?.aborted ? error : new Error(AWAY);
  });
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(error ?? `The studio answered with ${answer.status}.`), {
    status: answer.status,
  });
}

/**
 * The answer to the same request, if the page has sent that ahead (ahead.js); once, for the next
 * one who asks wants to know it anew.
 */
function taken(address, { body, signal }) {
  const { ahead } = globalThis;
  if (!ahead || ahead.address !== address || ahead.body !== body) return null;
  delete globalThis.ahead;
  if (signal?.aborted) ahead.leave.abort();
  signal?.addEventListener("abort", () => ahead.leave.abort());
  return ahead.answer;
}

/** Events of a stream: {event, data}. Comments, which keep the line open, are left out. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      if (!/[\r\n]/.test(value)) continue; // in the midst of a long line
      const blocks = rest.split(/\r\n\r\n|\n\n|\r\r/);
      rest = blocks.pop();
      for (const block of blocks) {
        const found = parsed(block);
        if (found.data !== null) yield found;
      }
    }
  } finally {
    await reader.cancel().catch(() => {}); // which closes the connection, and stops the server
  }
}

function parsed(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r\n|\n|\r/)) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (name === "event") event = value;
    if (name === "data") data.push(value);
  }
  return { event, data: data.length ? data.join("\n") : null };
}

function valueOf(data) {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
}

const at = (id, what) => `/api/runs/${encodeURIComponent(id)}${what ? `/${what}` : ""}`;
