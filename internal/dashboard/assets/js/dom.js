// Small parts that all views use. Text goes into the page as text only; nothing is parsed as HTML.

// el makes an element: attributes by name; on… is a listener; class, text and style (an object) as
// they say.
export function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [k, v] of Object.entries(value)) e.style.setProperty(k, v);
    else if (name === 'text') e.textContent = value;
    else e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

export function show(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((c) => c));
}

// Failure is an answer that is an error.
export class Failure extends Error {
  constructor(status, body) {
    super(body.error || `the server answers ${status}`);
    Object.assign(this, { status, fix: body.fix, forbidden: body.forbidden, session: body.session });
  }
}

// api asks the server: query values by name, a body makes it a POST.
export async function api(path, query = {}, body = undefined, signal = undefined, method = 'GET') {
  const q = new URLSearchParams(Object.entries(query).filter(([, v]) => v));
  const how =
    body === undefined
      ? { method, signal }
      : {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify(body),
          signal,
        };
  const ask = () => fetch(`/api/${path}${q.size ? `?${q}` : ''}`, how);
  // browsers drop what is under way when a network interface of the machine comes or goes; what
  // only reads or computes is asked again
  const repeatable = how.method === 'GET' || path.startsWith('whatif/');
  const again = async (err, left) => {
    if (!left || !repeatable || err.name === 'AbortError') throw err;
    await new Promise((later) => {
      setTimeout(later, 300);
    });
    return ask().catch((e) => again(e, left - 1));
  };
  const res = await ask().catch((err) => again(err, 3));
  if (res.status === 204) return null;
  let data;
  try {
    data = await res.json();
  } catch {
    data = {};
  }
  if (!res.ok) throw new Failure(res.status, data);
  return data;
}

// failed draws an error; what the API server forbids is drawn as such.
export function failed(err) {
  if (err.session) {
    return el(
      'section',
      { class: 'panel denied' },
      el('h2', { text: 'No session' }),
      el('p', { text: err.message }),
      command('gantry dashboard'),
    );
  }
  if (err.forbidden) {
    return el(
      'section',
      { class: 'panel denied', 'data-forbidden': true },
      el('h2', { text: 'Forbidden' }),
      el('p', { text: 'Your credentials may not read this. The API server says:' }),
      el('pre', { text: err.message }),
    );
  }
  return el(
    'section',
    { class: 'panel broken' },
    el('h2', { text: 'This could not be answered' }),
    el('p', { text: err.message }),
    err.fix ? el('p', { text: `→ ${err.fix}` }) : null,
  );
}

// command shows a text with a button that copies it.
export function command(text) {
  const button = el('button', {
    type: 'button',
    text: 'Copy',
    'aria-label': `Copy ${text.slice(0, 60)}`,
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = 'Copied';
      } catch {
        button.textContent = 'Press Ctrl-C';
        getSelection().selectAllChildren(pre);
      }
      setTimeout(() => {
        button.textContent = 'Copy';
      }, 1500);
    },
  });
  const pre = el('pre', { text, tabindex: 0 });
  return el('div', { class: 'copy' }, pre, button);
}

export function say(text) {
  document.getElementById('say').textContent = text;
}

export function bytes(n) {
  for (const [unit, size] of [
    ['Ti', 2 ** 40],
    ['Gi', 2 ** 30],
    ['Mi', 2 ** 20],
    ['Ki', 2 ** 10],
  ]) {
    if (n >= size) return `${+(n / size).toFixed(n < 10 * size ? 1 : 0)}${unit}`;
  }
  return `${n}`;
}

export function cores(milli) {
  return milli < 1000 ? `${milli}m` : `${+(milli / 1000).toFixed(1)}`;
}

// took prints milliseconds.
export function took(ms) {
  if (ms < 1) return `${+(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${+ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  if (ms < 120000) return `${+(ms / 1000).toFixed(2)} s`;
  return `${+(ms / 60000).toFixed(1)} min`;
}

export function ago(since, now) {
  const s = Math.max(0, Math.round((now - since) / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
}

// color is the value of a variable of the style sheet.
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// podInput is a field for a Pod's name, NAMESPACE/NAME.
export function podInput(label, value, attributes = {}) {
  const input = el('input', {
    type: 'text',
    value: value || '',
    spellcheck: 'false',
    autocapitalize: 'none',
    placeholder: 'namespace/name',
    size: 32,
    ...attributes,
  });
  return { label: el('label', { class: 'row' }, label, input), input };
}

// namespaced takes NAMESPACE/NAME apart.
export function namespaced(text, otherwise) {
  const i = text.indexOf('/');
  return i < 0 ? [otherwise, text.trim()] : [text.slice(0, i).trim(), text.slice(i + 1).trim()];
}
