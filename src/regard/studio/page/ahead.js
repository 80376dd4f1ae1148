/**
 * The text that the address brings, asked about before the rest of the page is there.
 *
 * This stands in the page itself. A model takes longer to answer than the page to come; whoever
 * asks the same later (api.js) takes up the answer that is under way. One that nobody takes up is
 * ended when another view is shown.
 */
{
  // As the rest of the page reads it.
  const plain = (words) => {
    try {
      return decodeURIComponent(words);
    } catch {
      return words;
    }
  };
  const [, run, query] = /^#text\/([^?]+)\?(.*)$/s.exec(location.hash) ?? [];
  const asked = new URLSearchParams(query);
  const text = asked.get("text");
  if (text?.trim() && !asked.has("pair")) {
    // No name can make another address of this, whatever a link has brought.
    const address = `/api/runs/${encodeURIComponent(plain(run))}/look`;
    const body = JSON.stringify({ text });
    const headers = { Accept: "text/event-stream", "Content-Type": "application/json" };
    const leave = new AbortController();
    const request = { method: "POST", cache: "no-store", headers, body, signal: leave.signal };
    const answer = fetch(address, request);
    answer.catch(() => {}); // whoever takes it up says so
    addEventListener("hashchange", () => leave.abort(), { once: true });
    globalThis.ahead = { address, body, answer, leave };
  }
}
