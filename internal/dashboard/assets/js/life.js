// A Pod's life: what the journal holds of it as a waterfall, one Pod or two side by side, and who
// wrote what.
import { api, el, failed, namespaced, podInput, show, took } from './dom.js';

export const title = "A Pod's life";

export function draw(root, at, session) {
  const first = at.parts.length > 1 ? `${at.parts[0]}/${at.parts[1]}` : '';
  const second = at.query.get('with') || '';
  const a = podInput('Pod', first),
    b = podInput('beside', second, { placeholder: 'another, or nothing' });
  const go = (e) => {
    e.preventDefault();
    if (!a.input.value.trim()) return;
    const [ns, name] = namespaced(a.input.value, session.namespace);
    const other = b.input.value.trim();
    const beside = other ? `?with=${encodeURIComponent(other)}` : '';
    location.hash = `#/life/${encodeURIComponent(ns)}/${encodeURIComponent(name)}${beside}`;
  };
  const body = el('div');
  root.append(
    el('h1', { text: title }),
    el(
      'form',
      { class: 'row', onsubmit: go },
      a.label,
      b.label,
      el('button', { class: 'main', text: 'Show' }),
    ),
    body,
  );
  if (!first) {
    body.append(
      el('p', {
        class: 'quiet',
        text: 'Name a Pod, or choose one in Now. It may be gone: the journal keeps its life.',
      }),
    );
    return undefined;
  }
  const scale = new Scale();
  const zoom = el(
    'div',
    { class: 'row', role: 'group', 'aria-label': 'Zoom' },
    [
      ['−', 'Zoom out', () => scale.zoom(1.6)],
      ['+', 'Zoom in', () => scale.zoom(1 / 1.6)],
      ['←', 'Earlier', () => scale.pan(-0.3)],
      ['→', 'Later', () => scale.pan(0.3)],
      ['All', 'Show all', () => scale.all()],
      ['Start', 'Show the start, until it was ready', () => scale.start()],
    ].map(([text, label, f]) => el('button', { type: 'button', text, 'aria-label': label, onclick: f })),
    el('span', {
      class: 'quiet small',
      text: 'Wheel with Ctrl zooms, dragging moves, a click on a bar zooms to it.',
    }),
  );
  const lives = el('div', { class: 'lives' });
  body.append(zoom, lives);
  const pods = [first, second].filter(Boolean).map((p) => namespaced(p, session.namespace));
  Promise.all(
    pods.map(async ([ns, name]) => {
      const box = el(
        'section',
        { 'aria-label': `Pod ${ns}/${name}` },
        el('p', { class: 'quiet', text: '…' }),
      );
      lives.append(box);
      try {
        const answer = await api('life', { namespace: ns, name });
        one(box, answer, scale, { ns, name });
      } catch (err) {
        show(box, el('h2', { text: `${ns}/${name}` }), failed(err));
      }
    }),
  ).then(() => scale.start());
  return undefined;
}

// Scale is the part of the time that is in sight, in milliseconds from each Pod's start.
class Scale {
  constructor() {
    this.from = 0;
    this.to = 1;
    this.end = 1;
    this.ready = 0;
    this.draws = [];
  }
  add(end, ready, f) {
    this.end = Math.max(this.end, end);
    this.ready = Math.max(this.ready, ready);
    this.draws.push(f);
    this.set(0, this.end);
  }
  set(from, to) {
    const width = Math.min(Math.max(to - from, 0.05), this.end * 1.05);
    this.from = Math.max(-this.end * 0.02, Math.min(from, this.end * 1.05 - width));
    this.to = this.from + width;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draws.forEach((f) => f()));
  }
  zoom(by, around = 0.5) {
    const w = this.to - this.from,
      at = this.from + w * around;
    this.set(at - w * by * around, at + w * by * (1 - around));
  }
  pan(by) {
    const w = (this.to - this.from) * by;
    this.set(this.from + w, this.to + w);
  }
  all() {
    this.set(0, this.end * 1.03);
  }
  start() {
    this.set(0, (this.ready || this.end) * 1.08);
  }
  x(t) {
    return (100 * (t - this.from)) / (this.to - this.from);
  }
}

function one(box, answer, scale, pod) {
  const lives = answer.lives,
    l = lives[lives.length - 1],
    zero = Date.parse(l.start);
  const exact = (text) => milliseconds(text) - milliseconds(l.start);
  const rows = [];
  const walk = (s, depth, parent) => {
    rows.push({
      s,
      depth,
      from: exact(s.start),
      to: exact(s.end),
      stage: depth === 0 || ['waiting and judged', 'starting', 'becoming ready', 'ending'].includes(s.name),
      parent,
    });
    for (const c of s.children || []) walk(c, depth + 1, s);
  };
  for (const s of l.spans || []) walk(s, 0, null);
  const ready = (l.entries || []).find(
    (e) => e.kind === 'ConditionChanged' && e.fact.type === 'Ready' && e.fact.status === 'True',
  );
  const end = Math.max(...rows.map((r) => r.to), 1);
  const axis = el('div', { class: 'lane' });
  const list = el(
    'ol',
    { class: 'fall', tabindex: 0, 'aria-label': `Calls and stages of ${pod.name}, with their times` },
    el(
      'li',
      { class: 'axis', 'aria-hidden': 'true' },
      el('span', { class: 'label', text: 'time from the start' }),
      axis,
    ),
  );
  for (const r of rows) {
    const d = r.to - r.from,
      kind = r.s.error
        ? 'error'
        : r.stage
          ? 'stage'
          : /^API /.test(r.s.name)
            ? 'api'
            : r.s.by === 'scheduler'
              ? 'scheduler'
              : '';
    r.bar = el('span', {
      class: `bar ${kind}${r.s.open ? ' open' : ''}`,
      onclick: () => scale.set(r.from - d * 0.05, r.to + d * 0.05),
    });
    r.took = el('span', { class: 'took', text: took(d) });
    const label = el(
      'span',
      { class: 'label', title: [r.s.name, r.s.note, r.s.error].filter(Boolean).join('\n') },
      r.s.name,
      el('span', {
        class: 'unseen',
        text: [
          `: ${took(d)}, from ${took(r.from)}`,
          r.s.by ? `, by ${r.s.by}` : '',
          r.s.error ? `, failed: ${r.s.error}` : '',
        ].join(''),
      }),
    );
    label.style.paddingLeft = `${0.5 + r.depth * 0.8}rem`;
    list.append(el('li', {}, label, el('div', { class: 'lane', 'aria-hidden': 'true' }, r.bar, r.took)));
  }
  drag(list, scale);
  scale.add(end, ready ? exact(ready.at) : 0, () => {
    for (const r of rows) {
      const x = scale.x(r.from),
        w = scale.x(r.to) - x;
      r.bar.style.left = `${x}%`;
      r.bar.style.width = `${w}%`;
      const after = Math.max(x + w, 0);
      const inside = after > 82 && x < 18; // there is no room beside the bar
      r.took.classList.toggle('inside', inside);
      if (inside) {
        r.took.style.left = 'auto';
        r.took.style.right = `${Math.max(0, 100 - after)}%`;
      } else if (after > 82) {
        r.took.style.left = 'auto';
        r.took.style.right = `${Math.max(0, Math.min(100, 100 - Math.max(x, 0)))}%`;
      } else {
        r.took.style.right = 'auto';
        r.took.style.left = `${after}%`;
      }
    }
    show(
      axis,
      ticks(scale).map((t) =>
        el('span', { class: 'tick', style: { left: `${scale.x(t)}%` }, text: took(t) }),
      ),
    );
  });
  const revisions = el('div');
  const more = el('details', {}, el('summary', { text: 'Revisions: who wrote what' }), revisions);
  more.addEventListener('toggle', async () => {
    if (!more.open || revisions.childElementCount) return;
    try {
      show(revisions, history(await api('revisions', { namespace: pod.ns, subject: `pod/${pod.name}` })));
    } catch (err) {
      show(revisions, failed(err));
    }
  });
  show(
    box,
    el(
      'h2',
      {},
      `${pod.ns}/${pod.name} `,
      el('a', {
        class: 'small',
        href: `#/why/${encodeURIComponent(pod.ns)}/pod/${encodeURIComponent(pod.name)}`,
        text: 'why',
      }),
    ),
    el('p', {
      class: 'quiet small',
      text: [
        l.node ? `on ${l.node}, ` : '',
        `from ${new Date(zero).toLocaleString()}`,
        l.partial ? '; the journal no longer has its creation' : '',
        lives.length > 1 ? `; ${lives.length} Pods had this name, this is the last` : '',
      ].join(''),
    }),
    shares(l.shares || []),
    list,
    more,
    el(
      'details',
      {},
      el('summary', { text: `All ${l.entries.length} facts of the journal` }),
      el(
        'div',
        { class: 'facts scroll', tabindex: 0, role: 'region', 'aria-label': 'Facts' },
        el(
          'table',
          {},
          el(
            'tbody',
            {},
            l.entries.map((e) =>
              el(
                'tr',
                {},
                el('td', { class: 'n', text: took(exact(e.at)) }),
                el('td', { text: e.by }),
                el('td', { text: e.line }),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

// milliseconds of an API time, with what is below a millisecond.
function milliseconds(text) {
  const fraction = /\.(\d+)/.exec(text);
  return Date.parse(text.replace(/\.\d+/, '')) + (fraction ? Number(`0.${fraction[1]}`) * 1000 : 0);
}

function ticks(scale) {
  const w = scale.to - scale.from,
    rough = w / 5,
    unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= rough),
    out = [];
  for (let t = Math.ceil(Math.max(0, scale.from) / step) * step; t < scale.to; t += step)
    out.push(+t.toPrecision(12));
  return out;
}

// shares draws where the time went between milestones.
function shares(list) {
  return el(
    'div',
    {},
    list.map((s) => {
      const all = s.tookNanoseconds || 1,
        whole = Math.max(...list.map((x) => x.tookNanoseconds), 1),
        init = s.initNanoseconds || 0,
        own = all - s.callsNanoseconds - init;
      const part = (name, n) =>
        el('i', {
          class: name,
          style: { width: `${(100 * n) / whole}%` },
          title: `${name} ${took(n / 1e6)}`,
        });
      return el(
        'div',
        {},
        el(
          'div',
          { class: 'small' },
          `${s.name}: ${took(all / 1e6)}`,
          el('span', {
            class: 'quiet',
            text: [
              `  calls ${took(s.callsNanoseconds / 1e6)}`,
              init ? `, init containers ${took(init / 1e6)}` : '',
              `, own ${took(own / 1e6)}`,
            ].join(''),
          }),
        ),
        el(
          'div',
          { class: 'share', 'aria-hidden': 'true' },
          part('calls', s.callsNanoseconds),
          part('init', init),
          part('own', own),
        ),
      );
    }),
  );
}

function history(h) {
  return el(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Revisions' },
    el(
      'table',
      {},
      el(
        'thead',
        {},
        el(
          'tr',
          {},
          ['Revision', 'When', 'What', 'Who', 'Changes'].map((x) => el('th', { scope: 'col', text: x })),
        ),
      ),
      el(
        'tbody',
        {},
        (h.revisions || []).map((r) =>
          el(
            'tr',
            {},
            el('td', { class: 'n', text: r.revision }),
            el('td', { text: r.at ? new Date(r.at).toLocaleTimeString() : '' }),
            el('td', { text: [r.verb, r.subresource].filter(Boolean).join(' ') }),
            el('td', { text: [r.user, ...(r.managers || [])].filter(Boolean).join(', ') }),
            el(
              'td',
              { class: 'mono' },
              (r.changes || []).slice(0, 20).map((c) => el('div', { text: change(c) })),
              (r.changed || []).join(', '),
              (r.changes || []).length > 20 ? `and ${r.changes.length - 20} more` : '',
            ),
          ),
        ),
      ),
    ),
  );
}

function change(c) {
  const text = (v) => {
    const s = JSON.stringify(v);
    return s.length > 90 ? `${s.slice(0, 90)}…` : s;
  };
  if (c.was === undefined) return `+ ${c.path}: ${text(c.now ?? null)}`;
  return c.now === undefined ? `− ${c.path}: ${text(c.was)}` : `${c.path}: ${text(c.was)} → ${text(c.now)}`;
}

// drag moves and zooms by pointer and keys.
function drag(list, scale) {
  let from = null;
  const width = () => list.querySelector('.lane').clientWidth || 1;
  list.addEventListener('pointerdown', (e) => {
    if (e.target.closest('.lane')) from = { x: e.clientX, a: scale.from, b: scale.to };
  });
  list.addEventListener('pointermove', (e) => {
    if (!from || !(e.buttons & 1)) {
      from = null;
      return;
    }
    const by = ((from.x - e.clientX) / width()) * (from.b - from.a);
    scale.set(from.a + by, from.b + by);
  });
  list.addEventListener(
    'wheel',
    (e) => {
      if (!e.ctrlKey && !e.shiftKey) return;
      e.preventDefault();
      const lane = list.querySelector('.lane').getBoundingClientRect();
      if (e.ctrlKey)
        scale.zoom(e.deltaY > 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, (e.clientX - lane.left) / lane.width)));
      else scale.pan(Math.sign(e.deltaY || e.deltaX) * 0.15);
    },
    { passive: false },
  );
  list.addEventListener('keydown', (e) => {
    const f = {
      '+': () => scale.zoom(1 / 1.6),
      '-': () => scale.zoom(1.6),
      ArrowLeft: () => scale.pan(-0.2),
      ArrowRight: () => scale.pan(0.2),
      0: () => scale.all(),
    }[e.key];
    if (f) {
      e.preventDefault();
      f();
    }
  });
}
