// A stream of changes that survives restarts of the server.
import { api } from './dom.js';

export * from './dom.js';

// stream listens to server-sent events; on has a function for each event, and open, lost and
// failed. It comes back by itself after the server was away. The result ends it.
export function stream(path, query, on) {
  const q = new URLSearchParams(Object.entries(query).filter(([, v]) => v));
  let source = null,
    again = 0,
    ended = false,
    watchdog = 0;
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(retry, 40000);
  };
  async function retry() {
    if (ended) return;
    source?.close();
    on.lost();
    try {
      await api('session');
    } catch (err) {
      if (err.session) {
        on.failed(err);
        return;
      }
    }
    clearTimeout(again);
    again = setTimeout(connect, 400);
  }
  function connect() {
    if (ended) return;
    source = new EventSource(`/api/${path}?${q}`);
    source.onerror = retry;
    for (const name of Object.keys(on)) {
      source.addEventListener(name, (e) => {
        if (e.data) {
          alive();
          on[name](JSON.parse(e.data));
        }
      });
    }
    source.addEventListener('alive', alive);
    source.addEventListener('hello', () => {
      alive();
      on.open();
    });
  }
  connect();
  return () => {
    ended = true;
    clearTimeout(again);
    clearTimeout(watchdog);
    source?.close();
  };
}
