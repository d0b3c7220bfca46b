// What if: the calculators of the server. Each describes its form; what it answers is drawn here,
// whatever it is about.
import { api, command, el, failed, show } from './dom.js';

export const title = 'What if';

export function draw(root, at, session) {
  const c = session.calculators.find((x) => x.name === at.parts[0]) || session.calculators[0];
  root.append(
    el('h1', { text: title }),
    el(
      'nav',
      { class: 'row', 'aria-label': 'Calculators' },
      session.calculators.map((x) =>
        el('a', { href: `#/whatif/${x.name}`, 'aria-current': x === c ? 'page' : null, text: x.title }),
      ),
    ),
  );
  if (!c) return undefined;
  const values = Object.fromEntries(c.fields.map((f) => [f.name, at.query.get(f.name) || f.default]));
  const result = el('div', { 'aria-live': 'polite', 'aria-busy': 'false' });
  let timer = 0,
    running = null,
    ended = false;
  const ask = async () => {
    running?.abort();
    result.setAttribute('aria-busy', 'true');
    running = new AbortController();
    try {
      const answer = await api(`whatif/${c.name}`, {}, values, running.signal);
      if (!ended) show(result, forecast(answer));
    } catch (err) {
      if (err.name === 'AbortError') return;
      if (!ended)
        show(
          result,
          err.status === 400
            ? el('section', { class: 'panel denied' }, el('p', { text: err.message }))
            : failed(err),
        );
    }
    result.setAttribute('aria-busy', 'false');
  };
  const changed = (name, value) => {
    values[name] = value;
    clearTimeout(timer);
    timer = setTimeout(ask, 60);
  };
  const form = el(
    'form',
    { class: 'panel form', onsubmit: (e) => e.preventDefault() },
    c.fields.map((f) => field(f, values[f.name], changed)),
  );
  root.append(el('p', { class: 'quiet', text: c.about }), form, result);
  for (const f of c.fields.filter((x) => x.suggest)) suggest(f, form, values, ask, () => ended);
  if (!c.fields.some((f) => f.suggest && !f.optional && !values[f.name])) ask();
  return () => {
    ended = true;
    clearTimeout(timer);
    running?.abort();
  };
}

// suggest lists what a field may be; where it must not be empty, the first is taken.
async function suggest(f, form, values, ask, ended) {
  let list = [];
  try {
    list = await api('suggest', { of: f.suggest });
  } catch {
    /* the answer says what may not be read */
  }
  if (ended()) return;
  const input = form.elements[f.name];
  form.append(
    el(
      'datalist',
      { id: `list-${f.name}` },
      list.map((x) => el('option', { value: x })),
    ),
  );
  input.setAttribute('list', `list-${f.name}`);
  if (f.optional || values[f.name]) return;
  values[f.name] = input.value = list[0] || '';
  ask();
}

function field(f, value, changed) {
  const unit = f.unit ? ` ${f.unit}` : '';
  if (f.kind === 'choice') {
    return el(
      'label',
      {},
      `${f.label}${f.unit ? `, ${f.unit}` : ''}`,
      el(
        'select',
        { name: f.name, onchange: (e) => changed(f.name, e.target.value) },
        f.options.map((o) => el('option', { value: o, selected: o === value, text: o })),
      ),
    );
  }
  if (f.kind !== 'range')
    return el(
      'label',
      {},
      f.label,
      el('input', {
        type: 'text',
        name: f.name,
        value,
        spellcheck: 'false',
        oninput: (e) => changed(f.name, e.target.value),
      }),
    );
  const out = el('output', { text: value + unit });
  return el(
    'label',
    {},
    el('span', {}, `${f.label}: `, out),
    el('input', {
      type: 'range',
      name: f.name,
      min: f.min,
      max: f.max,
      step: f.step || 1,
      value,
      oninput: (e) => {
        out.textContent = e.target.value + unit;
        changed(f.name, e.target.value);
      },
    }),
  );
}

function forecast(a) {
  const end = Math.max(1, ...(a.timeline || []).flatMap((l) => l.spans.map((s) => s.to)));
  return [
    words(a.lines || []),
    (a.troubles || []).map((t) =>
      el('section', { class: 'panel denied' }, el('p', { class: 'lines', text: t })),
    ),
    (a.timeline || []).length
      ? el(
          'section',
          { class: 'panel', 'aria-label': 'Time line' },
          a.timeline.map((l) =>
            el(
              'div',
              {},
              el('div', { class: 'lane-label', text: l.label }),
              l.spans.length
                ? el(
                    'div',
                    {
                      class: 'track',
                      role: 'img',
                      'aria-label': l.spans
                        .map((s) => `${round(s.from)} to ${round(s.to)} s: ${s.text}`)
                        .join('; '),
                    },
                    l.spans.map((s) =>
                      el('i', {
                        class: `b-${s.state}`,
                        title: `${round(s.from)} to ${round(s.to)} s: ${s.text}`,
                        text: s.text,
                        style: {
                          left: `${(100 * s.from) / end}%`,
                          width: `${(100 * (s.to - s.from)) / end}%`,
                        },
                      }),
                    ),
                  )
                : null,
            ),
          ),
          el(
            'div',
            { class: 'row quiet small' },
            el('span', { text: '0 s' }),
            el('span', { text: `${round(end)} s`, style: { 'margin-left': 'auto' } }),
          ),
        )
      : null,
    a.copy ? el('section', {}, el('h2', { text: 'To copy' }), command(a.copy)) : null,
    (a.tables || []).map((t) =>
      el(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': t.caption },
        el(
          'table',
          {},
          el('caption', { text: t.caption }),
          el(
            'thead',
            {},
            el(
              'tr',
              {},
              t.head.map((h) => el('th', { scope: 'col', text: h })),
            ),
          ),
          el(
            'tbody',
            {},
            t.rows.map((r, i) =>
              el(
                'tr',
                { class: i === t.marked ? 'marked' : null },
                r.map((c, k) =>
                  k
                    ? el('td', { text: c })
                    : el('th', { scope: 'row', text: c + (i === t.marked ? ' ←' : '') }),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  ].flat();
}

// words says the answer, before the pictures of it.
function words(lines) {
  if (!lines.length) return null;
  return el(
    'section',
    { class: 'panel' },
    el('p', { class: 'answer', text: lines[0] }),
    lines.length > 1
      ? el(
          'ul',
          {},
          lines.slice(1).map((l) => el('li', { text: l })),
        )
      : null,
  );
}

function round(n) {
  return +n.toFixed(1);
}
