// Why: the answer of gantry why, with the scheduler's board and the remedies to copy.
import { ago, api, command, el, failed, podInput, show } from './dom.js';

export const title = 'Why';

export function draw(root, at, session) {
  const [ns, kind, ...rest] = at.parts;
  const subject = kind ? `${kind}/${rest.join('/')}` : '';
  const namespace = !ns || ns === '-' ? session.namespace : ns;
  const what = podInput('Object', subject, { placeholder: 'pod/web, deployment/web, node/n1', size: 30 });
  const where = podInput('in namespace', namespace, { placeholder: 'default', size: 16 });
  const body = el('div');
  root.append(
    el('h1', { text: title }),
    el(
      'form',
      {
        class: 'row',
        onsubmit: (e) => {
          e.preventDefault();
          const text = what.input.value.trim();
          if (!text) return;
          const namespace = where.input.value.trim() || 'default';
          const subject = text.includes('/') ? text.split('/') : ['pod', text];
          location.hash = `#/why/${[namespace, ...subject].map(encodeURIComponent).join('/')}`;
        },
      },
      what.label,
      where.label,
      el('button', { class: 'main', text: 'Ask' }),
    ),
    body,
  );
  if (!subject) {
    body.append(el('p', { class: 'quiet', text: 'Name an object, or choose a Pod in Now.' }));
    return undefined;
  }
  let ended = false;
  const ask = async () => {
    show(body, el('p', { class: 'quiet', text: '…' }));
    try {
      const a = await api('why', { namespace, subject });
      if (!ended) show(body, answer(a, ask));
    } catch (err) {
      if (!ended) show(body, failed(err));
    }
  };
  ask();
  return () => {
    ended = true;
  };
}

function answer(a, again) {
  const now = Date.parse(a.now),
    pod = /^pod\/(\S+)/.exec(a.subject),
    facts = (a.facts || []).filter((f) => !(a.cause || '').includes(f)); // the cause says those already
  return [
    el(
      'section',
      { class: 'panel' },
      el(
        'h2',
        {},
        `${a.subject} is ${a.state}`,
        a.since ? el('span', { class: 'quiet', text: `, since ${ago(Date.parse(a.since), now)} ago` }) : null,
      ),
      el('p', { text: a.cause }),
      facts.length
        ? el(
            'ul',
            {},
            facts.map((f) => el('li', { text: f })),
          )
        : null,
      a.next ? el('p', { text: `Next: ${a.next}` }) : null,
      el(
        'p',
        { class: 'row' },
        el('button', { type: 'button', text: 'Ask again', onclick: again }),
        pod
          ? el('a', {
              href: `#/life/${encodeURIComponent(a.namespace)}/${encodeURIComponent(pod[1])}`,
              text: 'Its life',
            })
          : null,
      ),
    ),
    a.board ? board(a.board) : null,
    fixes(a.fixes || []),
    findings(a.findings || [], a.cause),
    (a.unread || []).length
      ? el(
          'section',
          { class: 'panel denied' },
          el('h2', { text: 'This could not be read; the answer does without it' }),
          el(
            'ul',
            {},
            a.unread.map((t) => el('li', { text: t })),
          ),
        )
      : null,
  ];
}

function fixes(list) {
  if (!list.length) return null;
  return el(
    'section',
    {},
    el('h2', { text: 'What you can do' }),
    list.map((f) =>
      el(
        'div',
        { class: 'panel' },
        el(
          'p',
          {},
          f.say,
          f.proven ? el('span', { class: 'good', text: ' · proven with the scheduler’s own plugins' }) : null,
        ),
        f.config ? command(f.config) : null,
        f.amend
          ? [
              el('p', { class: 'small', text: `in the manifest of ${f.amend.object}:` }),
              command(f.amend.patch),
            ]
          : null,
        (f.run || []).map(command),
      ),
    ),
  );
}

function findings(list, cause) {
  const more = list.filter((f) => f.message && f.message !== cause);
  if (!more.length) return null;
  return el(
    'section',
    {},
    el('h2', { text: 'Findings, in the order of what to mend first' }),
    el(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Findings' },
      el(
        'table',
        {},
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            ['Severity', 'Object', 'Field', 'What'].map((h) => el('th', { scope: 'col', text: h })),
          ),
        ),
        el(
          'tbody',
          {},
          more.map((f) =>
            el(
              'tr',
              {},
              el('td', {
                class: f.severity === 'broken' ? 'bad' : f.severity === 'threat' ? 'maybe' : '',
                text: f.severity,
              }),
              el('td', { class: 'name', text: `${(f.object.kind || '').toLowerCase()}/${f.object.name || ''}` }),
              el('td', { class: 'mono', text: f.field || '' }),
              el('td', { text: f.message }),
            ),
          ),
        ),
      ),
    ),
  );
}

// broken is a plugin's name that may be broken between its words.
function broken(name) {
  return name.split(/(?<=[a-z])(?=[A-Z])/).flatMap((word, i) => (i ? [el('wbr'), word] : [word]));
}

// board draws the last attempt to place the Pod: nodes by plugins, with points or the refusal.
export function board(b) {
  const scores = [...(b.scores || [])].sort((x, y) => y.total - x.total),
    refusals = b.refusals || [];
  const plugins = [],
    weights = {};
  for (const s of scores)
    for (const p of s.parts || []) {
      if (!plugins.includes(p.plugin)) plugins.push(p.plugin);
      weights[p.plugin] = p.weight;
    }
  const filters = [...new Set(refusals.map((r) => r.plugin))];
  if (!scores.length && !refusals.length) return null;
  const most = {};
  for (const s of scores)
    for (const p of s.parts || []) most[p.plugin] = Math.max(most[p.plugin] || 1, p.weighted);
  const cell = (s, name) => {
    const p = (s.parts || []).find((x) => x.plugin === name);
    if (!p) return el('td', { text: '–' });
    const share = Math.round((45 * p.weighted) / most[name]);
    return el('td', {
      text: p.weighted,
      title: `raw ${p.raw}, normalised ${p.norm}, × weight ${p.weight}`,
      style: { 'background-color': `color-mix(in srgb, var(--ready) ${share}%, var(--panel))` },
    });
  };
  const rows = [
    ...scores.map((s) =>
      el(
        'tr',
        { class: s.node === b.winner ? 'marked' : null, 'data-node': s.node },
        el('th', { scope: 'row', text: s.node + (s.node === b.winner ? ' ✓' : '') }),
        filters.map(() => el('td', { class: 'good', text: '✓' })),
        plugins.map((n) => cell(s, n)),
        scores.length ? el('td', { text: s.total }) : null,
      ),
    ),
    ...refusals.slice(0, 200).map((r) =>
      el(
        'tr',
        { 'data-node': r.node },
        el('th', { scope: 'row', text: r.node }),
        filters.map((n) => (n === r.plugin ? el('td', { class: 'no', text: '×' }) : el('td', { text: '' }))),
        el('td', {
          class: 'detail',
          colspan: Math.max(1, plugins.length + (scores.length ? 1 : 0)),
          text: r.detail || (r.messages || []).join('; '),
        }),
      ),
    ),
    ...(b.counted || []).map((c) =>
      el(
        'tr',
        {},
        el('th', { scope: 'row', text: `${c.nodes} more nodes` }),
        filters.map((n) => el('td', { class: 'no', text: n === c.plugin ? '×' : '' })),
        el('td', { class: 'detail', colspan: Math.max(1, plugins.length + 1), text: c.messages.join('; ') }),
      ),
    ),
  ];
  return el(
    'section',
    {},
    el('h2', { text: 'The scheduler’s board' }),
    el('p', {
      class: 'small quiet',
      text: [
        `Attempt ${b.attempt} of ${b.profile}: ${b.winner ? `${b.winner} won` : 'no node fits'}`,
        b.runnerUp ? `, ${b.runnerUp} was second` : '',
        `; ${b.visited} of ${b.nodes} nodes were looked at.`,
        b.winner && !scores.length ? ' It was the only one left, so none was scored.' : '',
      ].join(''),
    }),
    el(
      'div',
      { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Board' },
      el(
        'table',
        { class: 'board' },
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            el('th', { scope: 'col', text: 'Node' }),
            filters.map((n) => el('th', { scope: 'col' }, broken(n), ' refuses')),
            plugins.map((n) => el('th', { scope: 'col' }, broken(n), ` ×${weights[n]}`)),
            scores.length
              ? el('th', { scope: 'col', text: 'Total' })
              : el('th', { scope: 'col', text: 'Why' }),
          ),
        ),
        el('tbody', {}, rows),
      ),
    ),
  );
}
