// Follows the server's events with fetch, which can send a token. EventSource cannot.

const SILENCE = 30_000;

export class Unauthorized extends Error {}

export async function request(path, token) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, cache: "no-store", credentials: "same-origin" });
  if (answer.ok) return answer;
  const { error } = await answer.json().catch(() => ({ error: answer.statusText }));
  throw new (answer.status === 401 ? Unauthorized : Error)(error);
}

/** Call `handle(name, value)` for each event until the connection ends or is silent for too long. */
export async function follow(token, handle) {
  const abort = new AbortController();
  let timer = 0;
  const listen = () => {
    clearTimeout(timer);
    timer = setTimeout(() => abort.abort(), SILENCE);
  };
  const answer = await request("api/events", token);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  abort.signal.addEventListener("abort", () => reader.cancel());
  let rest = "";
  try {
    for (;;) {
      listen();
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const [name, data] = part.split("\n", 2);
        handle(name.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
