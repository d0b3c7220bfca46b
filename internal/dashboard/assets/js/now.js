// Now: the cluster as it is, live.
import { ago, api, el, failed, say, show, stream } from './live.js';
import { Board, stateNames, states } from './board.js';

export const title = 'Now';
const waiting = new Set(['failing', 'failed', 'unknown', 'unscheduled', 'notready', 'starting', 'ending']);
const solid = new Set(['failing', 'failed', 'unknown', 'ready', 'succeeded', 'ending']);

export function draw(root, at) {
  const chosen = new Set(),
    namespace = at.query.get('namespace') || '';
  let text = '',
    late = 0,
    pending = 0,
    overviewOpen = false;
  const link = (view, p) =>
    `#/${view}/${encodeURIComponent(p.ns)}/${view === 'why' ? 'pod/' : ''}${encodeURIComponent(p.n)}`;
  const status = el('span', { class: 'quiet small', id: 'link', text: 'connecting …' });
  const legend = el('div', { class: 'row', role: 'group', 'aria-label': 'Show only Pods that are' });
  const waits = el('ul', { class: 'plain waits' });
  const waitsPanel = el(
    'section',
    { class: 'panel', hidden: true, 'aria-labelledby': 'waits' },
    el('h2', { id: 'waits', text: 'What waits, and for what' }),
    waits,
  );
  const bars = el(
    'p',
    { class: 'row small quiet' },
    'Cores and memory of each node:',
    ['requested', 'used', 'allocatable'].map((name) =>
      el('span', { class: 'chip' }, el('span', { class: `dot full s-${name}`, 'aria-hidden': 'true' }), name),
    ),
  );
  const denied = el('div');
  const detail = el('div', { 'aria-live': 'polite' });
  const mapRoot = el('div');
  const tableBody = el('div', { class: 'scroll' });
  const table = el('details', {}, el('summary', { text: 'The nodes as a table' }), tableBody);
  table.addEventListener('toggle', () => refresh());
  const causes = el('div');
  const overview = el(
    'details',
    { class: 'panel' },
    el('summary', { text: 'What is wrong, worst first (gantry why)' }),
    causes,
  );
  overview.addEventListener('toggle', () => {
    overviewOpen = overview.open;
    if (overviewOpen) ask();
  });

  const board = new Board(mapRoot, (p, open) => {
    say(board.describe(p));
    if (!open) {
      show(detail);
      return;
    }
    show(
      detail,
      el(
        'section',
        { class: 'panel', 'aria-label': 'Pod' },
        el('p', { text: board.describe(p) }),
        el(
          'p',
          { class: 'row' },
          el('a', { href: link('why', p), text: 'Why is it so' }),
          el('a', { href: link('life', p), text: 'Its life' }),
          el('a', {
            href: `#/packet?from=${encodeURIComponent(`pod/${p.ns}/${p.n}`)}`,
            text: 'A packet from it',
          }),
          p.o ? el('span', { class: 'quiet', text: `of ${p.o}` }) : null,
        ),
      ),
    );
    detail.scrollIntoView({ block: 'nearest' });
  });
  board.filter = (p) => (!chosen.size || chosen.has(p.s)) && (!text || `${p.ns}/${p.n}`.includes(text));

  const filter = el('input', {
    type: 'search',
    placeholder: 'part of a name',
    'aria-label': 'Show only Pods with this in their name',
    oninput: (e) => {
      text = e.target.value.trim();
      board.dirty(true);
      refresh();
    },
  });
  const space = el('input', {
    type: 'text',
    value: namespace,
    placeholder: 'all namespaces',
    'aria-label': 'Namespace',
    spellcheck: 'false',
    onchange: (e) => {
      location.hash = e.target.value.trim()
        ? `#/now?namespace=${encodeURIComponent(e.target.value.trim())}`
        : '#/now';
    },
  });

  // refresh draws what is text, at most ten times a second.
  function refresh() {
    pending ||= setTimeout(() => {
      pending = 0;
      text_();
    }, 100);
  }
  function text_() {
    const counts = {},
      groups = new Map();
    for (const p of board.pods.values()) {
      counts[p.s] = (counts[p.s] || 0) + 1;
      if (!waiting.has(p.s) || !board.filter(p)) continue;
      const key = `${p.s}\n${p.w || ''}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(p);
    }
    show(
      legend,
      states
        .filter((s) => counts[s] || chosen.has(s))
        .map((s) =>
          el(
            'button',
            {
              type: 'button',
              class: 'chip',
              'data-state': s,
              'aria-pressed': String(chosen.has(s)),
              onclick: () => {
                if (!chosen.delete(s)) chosen.add(s);
                board.dirty(true);
                refresh();
              },
            },
            el('span', { class: `dot s-${s}${solid.has(s) ? ' full' : ''}`, 'aria-hidden': 'true' }),
            `${counts[s] || 0} ${stateNames[s]}`,
          ),
        ),
    );
    const list = [...groups.values()].sort(
      (a, b) => states.indexOf(a[0].s) - states.indexOf(b[0].s) || b.length - a.length,
    );
    waitsPanel.hidden = !list.length;
    show(
      waits,
      list.slice(0, 30).map((pods) =>
        el(
          'li',
          { 'data-state': pods[0].s },
          el(
            'span',
            { class: 'chip' },
            el('span', {
              class: `dot s-${pods[0].s}${solid.has(pods[0].s) ? ' full' : ''}`,
              'aria-hidden': 'true',
            }),
            stateNames[pods[0].s],
          ),
          el(
            'span',
            {},
            pods[0].w || 'nothing is known',
            el('br'),
            pods
              .sort((a, b) => (`${a.ns}/${a.n}` < `${b.ns}/${b.n}` ? -1 : 1))
              .slice(0, 6)
              .flatMap((p, i) => [
                i ? ', ' : '',
                el('a', { href: link('why', p), text: `${p.ns}/${p.n}` }),
                el('span', { class: 'quiet', text: ` for ${ago(Date.parse(p.t), Date.now())}` }),
              ]),
            pods.length > 6 ? ` and ${pods.length - 6} more` : '',
          ),
        ),
      ),
      list.length > 30 ? el('li', { text: `and ${list.length - 30} further reasons` }) : null,
    );
    if (table.open) show(tableBody, nodeTable(board));
    if (overviewOpen && Date.now() - late > 5000) ask();
  }
  let asking = false;
  async function ask() {
    if (asking) return;
    asking = true;
    late = Date.now();
    try {
      const o = await api('overview', { namespace });
      show(
        causes,
        o.causes.length
          ? el(
              'ul',
              { class: 'plain waits' },
              o.causes.map((c) =>
                el(
                  'li',
                  {},
                  el('span', { class: c.severity === 'broken' ? 'bad' : 'maybe', text: c.severity }),
                  el(
                    'span',
                    {},
                    c.message,
                    (c.explains || []).length ? ` (explains ${c.explains.length} more)` : '',
                    c.ask ? el('pre', { text: c.ask, tabindex: 0 }) : null,
                  ),
                ),
              ),
            )
          : el('p', { text: 'Nothing is wrong.' }),
      );
    } catch (err) {
      show(causes, failed(err));
    } finally {
      asking = false;
    }
  }

  const denials = new Map();
  const tell = () =>
    show(
      denied,
      [...denials].map(([what, f]) =>
        el(
          'section',
          { class: 'panel denied', 'data-forbidden': f.forbidden || null, 'data-what': what },
          el('h2', { text: f.forbidden ? `Forbidden: ${what}` : `No ${what}` }),
          el('p', { class: 'small mono', text: f.error }),
          what === 'pods' && !namespace
            ? el('p', { text: 'Name a namespace that you may read above.' })
            : null,
        ),
      ),
    );
  const take = (kind) => (d) => {
    denials.delete(kind);
    tell();
    board.change(kind, d);
    refresh();
  };
  const end = stream(
    'now',
    { namespace },
    {
      open: () => {
        status.textContent = 'live';
        status.dataset.live = 'yes';
      },
      lost: () => {
        status.textContent = 'the server does not answer; trying again';
        delete status.dataset.live;
      },
      nodes: take('nodes'),
      pods: take('pods'),
      usage: (d) => {
        denials.delete('usage');
        tell();
        board.usage = d;
        board.dirty();
        if (table.open) refresh();
      },
      denied: (d) => {
        denials.set(d.what, d);
        tell();
      },
      failed: (err) => show(root, failed(err)),
    },
  );
  root.append(
    el('div', { class: 'row' }, el('h1', { text: 'Now' }), status, space, filter),
    legend,
    denied,
    waitsPanel,
    detail,
    bars,
    mapRoot,
    table,
    overview,
  );
  Object.assign(root, { board, take }); // for who looks from outside
  return () => {
    end();
    board.close();
    clearTimeout(pending);
  };
}

function nodeTable(board) {
  const percent = (a, b) => (b ? `${Math.round((100 * a) / b)} %` : '–');
  return el(
    'table',
    {},
    el('caption', { text: 'Requested and used, in percent of what is allocatable' }),
    el(
      'thead',
      {},
      el(
        'tr',
        {},
        [
          'Node',
          'State',
          'Pods',
          'Cores requested',
          'Cores used',
          'Memory requested',
          'Memory used',
          'Zone',
          'Version',
        ].map((h) => el('th', { scope: 'col', text: h })),
      ),
    ),
    el(
      'tbody',
      {},
      board.rows
        .filter((r) => r.node)
        .slice(0, 500)
        .map((r) => {
          const u = board.usage.nodes[r.name] || {},
            n = r.node;
          return el(
            'tr',
            {},
            el(
              'th',
              { scope: 'row' },
              el('a', { href: `#/why/-/node/${encodeURIComponent(r.name)}`, text: r.name }),
            ),
            el('td', { text: (n.ok ? 'ready' : 'not ready') + (n.cordoned ? ', cordoned' : '') }),
            el('td', { class: 'n', text: `${r.pods.length}/${n.p}` }),
            el('td', { class: 'n', text: percent(r.c, n.c) }),
            el('td', { class: 'n', text: percent(u.c, n.c) }),
            el('td', { class: 'n', text: percent(r.m, n.m) }),
            el('td', { class: 'n', text: percent(u.m, n.m) }),
            el('td', { text: n.zone || '' }),
            el('td', { text: n.v }),
          );
        }),
    ),
  );
}
