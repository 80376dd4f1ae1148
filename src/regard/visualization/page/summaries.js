/**
 * What the heads of a text do, in numbers: in the document, or elsewhere until they are asked for.
 *
 * `of(head)` are the numbers of one, or null; `expected` says whether there are or will be any, and
 * `trouble` why they did not come. `get()` is a promise that they have come or have not; what did
 * not come can be asked for again. `fetched(address)` gets bytes that are elsewhere.
 */
export function headSummaries(told, fetched) {
  const summaries = { of, get, expected: Boolean(told), trouble: "", all: null };
  let coming = null;
  if (Array.isArray(told)) summaries.all = told;
  return summaries;

  function of(head) {
    return summaries.all?.[head] ?? null;
  }

  function get() {
    if (summaries.all || !told) return Promise.resolve();
    coming ??= take().finally(() => (coming = null));
    return coming;
  }

  async function take() {
    try {
      summaries.all = JSON.parse(new TextDecoder().decode(await fetched(told.address)));
      summaries.trouble = "";
    } catch ({ message }) {
      summaries.trouble = message;
    }
  }
}
