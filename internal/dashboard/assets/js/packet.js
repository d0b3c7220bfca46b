// Packet: what would become of a packet, step by step. None is sent.
import { api, command, el, failed, podInput, show } from './dom.js';

export const title = 'Packet';

export function draw(root, at, session) {
  const q = at.query;
  const from = podInput('From', q.get('from') || '', {
    placeholder: 'pod/NAMESPACE/NAME, node/NAME or an address',
    size: 30,
  });
  const to = podInput('To', q.get('to') || '', {
    placeholder: 'service/NAMESPACE/NAME:80, name:80, address:80',
    list: 'tos',
    size: 34,
  });
  const protocol = el(
    'select',
    { 'aria-label': 'Protocol' },
    ['tcp', 'udp', 'sctp'].map((p) => el('option', { value: p, selected: p === q.get('protocol'), text: p })),
  );
  const tos = el('datalist', { id: 'tos' }),
    body = el('div');
  root.append(
    el('h1', { text: title }),
    el('p', {
      class: 'quiet',
      text: 'The functions that the rules in the kernel are made from say what would become of it. Nothing is sent.',
    }),
    el(
      'form',
      {
        class: 'row',
        onsubmit: (e) => {
          e.preventDefault();
          const query = new URLSearchParams({
            from: from.input.value.trim(),
            to: to.input.value.trim(),
            protocol: protocol.value,
          });
          location.hash = `#/packet?${query}`;
        },
      },
      from.label,
      to.label,
      protocol,
      el('button', { class: 'main', text: 'Trace' }),
    ),
    tos,
    body,
  );
  api('services')
    .then((list) =>
      show(
        tos,
        list.flatMap((s) =>
          (s.ports || []).map((p) => el('option', { value: `service/${s.ns}/${s.n}:${p}` })),
        ),
      ),
    )
    .catch(() => {});
  if (!q.get('from') || !q.get('to')) return undefined;
  let ended = false;
  api('packet', {
    from: q.get('from'),
    to: q.get('to'),
    protocol: q.get('protocol'),
    namespace: session.namespace,
  }).then(
    (a) => {
      if (!ended) show(body, path(a));
    },
    (err) => {
      if (!ended) show(body, failed(err));
    },
  );
  return () => {
    ended = true;
  };
}

// path draws the steps that all packets take, then those of each endpoint side by side.
function path(a) {
  const common = a.steps.filter((s) => !s.endpoint),
    ends = [...new Set(a.steps.filter((s) => s.endpoint).map((s) => s.endpoint))];
  const good = a.verdict === 'delivered';
  return [
    el(
      'section',
      { class: `panel ${good ? '' : 'broken'}` },
      el('p', {
        class: `verdict ${good ? 'good' : a.verdict === 'unknown' || a.verdict === 'sometimes' ? 'maybe' : 'bad'}`,
        'data-verdict': a.verdict,
        text: a.verdict,
      }),
      el('p', { text: a.cause }),
      el('p', {
        class: 'quiet small',
        text: `${a.protocol} from ${a.from} to ${a.to}${a.service ? `, Service ${a.service}` : ''}`,
      }),
    ),
    el('ol', { class: 'path' }, common.map(step)),
    ends.length
      ? el(
          'section',
          {},
          el('h2', { text: ends.length === 1 ? 'At its endpoint' : `At each of ${ends.length} endpoints` }),
          el(
            'div',
            { class: 'ends' },
            ends.map((e) =>
              el(
                'div',
                { class: 'panel' },
                el('h3', { class: 'mono', text: e }),
                el('ol', { class: 'path' }, a.steps.filter((s) => s.endpoint === e).map(step)),
              ),
            ),
          ),
        )
      : null,
    (a.fixes || []).length
      ? el(
          'section',
          {},
          el('h2', { text: 'What you can do' }),
          a.fixes.map((f) =>
            el('div', { class: 'panel' }, el('p', { text: f.say }), f.run ? command(f.run) : null),
          ),
        )
      : null,
    a.why
      ? el(
          'section',
          { class: 'panel' },
          el('h2', { text: `${a.why.subject} is ${a.why.state}` }),
          el('p', { text: a.why.cause }),
        )
      : null,
  ];
}

function step(s) {
  return el(
    'li',
    { class: s.state },
    el('strong', { text: s.step }),
    el('span', { class: 'unseen', text: `, ${s.state}` }),
    el('div', { text: s.says }),
  );
}
