/** Questions that come faster than answers. */

const PAUSE = 12; // milliseconds in which changes gather before the server is asked
const PATIENCE = 400; // milliseconds after which an answer no longer keeps a newer question waiting

/**
 * Ask one thing at a time, and after it the newest that was wished for meanwhile.
 *
 * An answer that takes long is let go as soon as there is something newer to ask, so neither a
 * slow server nor a quick hand can leave an old answer on the page.
 */
export function newest(ask, { done, failed, signal }) {
  let under = null; // what is being asked
  let waiting = null;
  let timer = 0;
  signal.addEventListener("abort", () => clearTimeout(timer));
  return (wish) => {
    waiting = wish;
    if (under && performance.now() - under.since > PATIENCE) under.stop.abort();
    if (!under && !timer) timer = setTimeout(send, PAUSE);
  };

  async function send() {
    const wish = waiting;
    const stop = new AbortController();
    [timer, waiting, under] = [0, null, { stop, since: performance.now() }];
    try {
      const answer = await ask(wish, AbortSignal.any([stop.signal, signal]));
      if (!signal.aborted) done(answer, wish, !waiting);
    } catch (error) {
      if (!signal.aborted && !waiting) failed(error, wish);
    }
    under = null;
    if (waiting && !signal.aborted) send();
  }
}
