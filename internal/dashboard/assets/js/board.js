// Board draws nodes as bars and Pods as blocks on one canvas of the size of the window, whatever
// the number of Pods: only rows in sight are drawn, and only when something changed.
import { bytes, color, cores, el } from './dom.js';

const states = [
  'failing',
  'failed',
  'unknown',
  'unscheduled',
  'notready',
  'starting',
  'ending',
  'ready',
  'succeeded',
];
export const stateNames = {
  failing: 'failing',
  failed: 'failed',
  unknown: 'node silent',
  unscheduled: 'no node yet',
  notready: 'not ready',
  starting: 'starting',
  ending: 'ending',
  ready: 'ready',
  succeeded: 'succeeded',
};
export { states };
const hollow = new Set(['unscheduled', 'starting', 'notready']); // shape says it too: waits are outlines
const size = 14,
  gap = 3,
  pad = 10,
  changeShown = 900;

export class Board {
  // onselect gets the Pod that a person chose.
  constructor(root, onselect) {
    this.nodes = new Map();
    this.pods = new Map();
    this.usage = { nodes: {}, pods: {} };
    this.filter = () => true;
    this.rows = [];
    this.selected = null;
    this.onselect = onselect;
    this.still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.canvas = el('canvas', {
      tabindex: 0,
      role: 'application',
      'aria-label': 'Nodes and their Pods',
      'aria-roledescription': 'map of Pods: arrow keys move, Enter opens',
    });
    this.tip = el('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
    this.wrap = el('div', { class: 'map' }, this.canvas);
    root.append(this.wrap, this.tip);
    this.stop = new AbortController();
    const on = (target, name, f) => target.addEventListener(name, f, { signal: this.stop.signal });
    on(window, 'scroll', () => this.dirty());
    on(window, 'resize', () => this.dirty(true));
    on(window, 'theme', () => {
      this.colors = null;
      this.dirty();
    });
    on(matchMedia('(prefers-color-scheme: dark)'), 'change', () => {
      this.colors = null;
      this.dirty();
    });
    on(this.canvas, 'pointermove', (e) => this.hover(e));
    on(this.canvas, 'pointerleave', () => {
      this.tip.hidden = true;
    });
    on(this.canvas, 'click', (e) => {
      const p = this.at(e);
      if (p) this.select(p, true);
    });
    on(this.canvas, 'keydown', (e) => this.key(e));
  }

  close() {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
    this.closed = true;
  }

  // change takes over a batch of nodes or Pods; null is one that is gone.
  change(kind, batch) {
    const all = this[kind],
      now = performance.now();
    if (batch.full) all.clear();
    for (const [key, item] of Object.entries(batch.set)) {
      if (!item) {
        all.delete(key);
        continue;
      }
      const old = all.get(key);
      if (kind === 'pods' && !batch.full && (!old || old.s !== item.s)) item.at = now;
      else if (old) item.at = old.at;
      all.set(key, item);
    }
    if (this.selected && kind === 'pods') this.selected = all.get(this.selected.u) || null;
    this.dirty(true);
  }

  dirty(layout = false) {
    this.stale ||= layout;
    if (!this.frame && !this.closed)
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paint();
      });
  }

  // layout puts the Pods into the rows of their nodes, those without one into the first row.
  layout() {
    this.stale = false;
    this.width = this.wrap.clientWidth;
    const narrow = this.width < 640;
    this.left = narrow ? 0 : Math.min(370, this.width * 0.38);
    const rows = new Map();
    const row = (name) => {
      if (!rows.has(name)) rows.set(name, { name, node: this.nodes.get(name), pods: [], c: 0, m: 0 });
      return rows.get(name);
    };
    for (const n of [...this.nodes.values()].sort((a, b) => (a.n < b.n ? -1 : 1))) row(n.n);
    for (const p of this.pods.values()) {
      const r = row(p.node || '');
      if (p.s !== 'succeeded' && p.s !== 'failed') {
        r.c += p.c;
        r.m += p.m;
      }
      if (this.filter(p)) r.pods.push(p);
    }
    const free = rows.get('');
    rows.delete('');
    this.rows = (free && free.pods.length ? [free] : []).concat([...rows.values()]);
    const across = Math.max(1, Math.floor((this.width - this.left - pad) / (size + gap)));
    let y = 0;
    for (const r of this.rows) {
      r.pods.sort((a, b) => (a.ns === b.ns ? (a.n < b.n ? -1 : 1) : a.ns < b.ns ? -1 : 1));
      const head = r.name ? 62 : 26,
        blocks = Math.ceil(r.pods.length / across) * (size + gap);
      r.top = narrow ? head + 6 : pad;
      r.y = y;
      r.across = across;
      r.h = narrow ? head + blocks + 2 * pad : Math.max(head, blocks) + 2 * pad;
      y += r.h;
    }
    this.height = Math.max(y, 40);
    this.wrap.style.height = `${this.height}px`;
    this.canvas.setAttribute('aria-label', `${this.nodes.size} nodes, ${this.pods.size} Pods`);
  }

  paint() {
    if (this.stale || this.wrap.clientWidth !== this.width) this.layout();
    const box = this.wrap.getBoundingClientRect(),
      ratio = devicePixelRatio || 1;
    const h = Math.min(innerHeight, this.height);
    if (
      this.canvas.width !== Math.round(this.width * ratio) ||
      this.canvas.height !== Math.round(h * ratio)
    ) {
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(h * ratio);
      this.canvas.style.height = `${h}px`;
    }
    this.offset = Math.min(Math.max(0, -box.top), this.height - h);
    this.colors ||= Object.fromEntries(
      [
        ...states,
        'text',
        'quiet',
        'line',
        'track',
        'requested',
        'used',
        'bad',
        'accent',
        'ground',
        'maybe',
      ].map((n) => [n, color(n)]),
    );
    const g = this.canvas.getContext('2d'),
      c = this.colors,
      now = performance.now();
    g.setTransform(ratio, 0, 0, ratio, 0, -this.offset * ratio);
    g.clearRect(0, this.offset, this.width, h);
    this.moving = false;
    for (const r of this.rows) {
      if (r.y + r.h < this.offset || r.y > this.offset + h) continue;
      g.strokeStyle = c.line;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(0, r.y + 0.5);
      g.lineTo(this.width, r.y + 0.5);
      g.stroke();
      this.head(g, r);
      this.blocks(g, r, now);
    }
    this.frames = (this.frames || 0) + 1;
    if (this.pods.size) this.shown ??= performance.now(); // when Pods were first painted
    if (this.moving) this.dirty();
  }

  // head draws a node's name and its bars of cores and memory.
  head(g, r) {
    const c = this.colors,
      w = (this.left || this.width) - 16,
      n = r.node;
    g.font = '600 13px system-ui, sans-serif';
    g.fillStyle = c.text;
    g.textBaseline = 'top';
    if (!r.name) {
      g.fillText(`No node yet: ${r.pods.length}`, 4, r.y + pad, w);
      return;
    }
    const mark = !n ? ' (unknown)' : !n.ok ? ' · not ready' : n.cordoned ? ' · cordoned' : '';
    g.fillStyle = mark ? c.bad : c.text;
    g.fillText(r.name + mark, 4, r.y + pad, w);
    if (!n) return;
    const used = this.usage.nodes[r.name];
    [
      ['cores', r.c, used && used.c, n.c, cores],
      ['memory', r.m, used && used.m, n.m, bytes],
    ].forEach(([label, asked, use, all, print], i) => {
      const y = r.y + pad + 19 + i * 22,
        width = w * 0.42;
      g.fillStyle = c.track;
      g.fillRect(4, y, width, 14);
      g.fillStyle = c.requested;
      g.fillRect(4, y, width * Math.min(1, all ? asked / all : 0), 14);
      if (asked > all) {
        g.fillStyle = c.bad;
        g.fillRect(4 + width - 4, y, 4, 14);
      }
      if (use !== undefined) {
        g.fillStyle = c.used;
        g.fillRect(4, y + 4, width * Math.min(1, all ? use / all : 0), 6);
      }
      g.font = '12px system-ui, sans-serif';
      g.fillStyle = c.quiet;
      g.fillText(
        `${label} ${print(asked)}${use === undefined ? '' : ` · ${print(use)} used`} of ${print(all)}`,
        10 + width,
        y + 1,
        w - width,
      );
    });
  }

  place(r, i) {
    return [
      this.left + (i % r.across) * (size + gap) + 4,
      r.y + r.top + Math.floor(i / r.across) * (size + gap),
    ];
  }

  blocks(g, r, now) {
    const c = this.colors;
    r.pods.forEach((p, i) => {
      const [x, y] = this.place(r, i);
      if (y + size < this.offset || y > this.offset + innerHeight) return;
      g.fillStyle = g.strokeStyle = c[p.s];
      if (hollow.has(p.s)) {
        g.lineWidth = 3;
        g.strokeRect(x + 1.5, y + 1.5, size - 3, size - 3);
        if (p.s === 'notready') g.fillRect(x, y + size / 2, size, size / 2);
      } else g.fillRect(x, y, size, size);
      if (p.s === 'failing' || p.s === 'failed' || p.s === 'unknown') {
        g.strokeStyle = c.ground;
        g.lineWidth = 2;
        g.beginPath();
        g.moveTo(x + 4, y + 4);
        g.lineTo(x + 10, y + 10);
        if (p.s !== 'unknown') {
          g.moveTo(x + 10, y + 4);
          g.lineTo(x + 4, y + 10);
        }
        g.stroke();
      }
      const age = p.at ? now - p.at : changeShown;
      if (age < changeShown && !this.still) {
        this.moving = true;
        g.globalAlpha = 1 - age / changeShown;
        g.strokeStyle = c.text;
        g.lineWidth = 2;
        g.strokeRect(x - 2, y - 2, size + 4, size + 4);
        g.globalAlpha = 1;
      }
      if (p === this.selected) {
        g.strokeStyle = c.accent;
        g.lineWidth = 2.5;
        g.strokeRect(x - 2, y - 2, size + 4, size + 4);
      }
    });
  }

  at(e) {
    const box = this.canvas.getBoundingClientRect(),
      x = e.clientX - box.left,
      y = e.clientY - box.top + this.offset;
    const r = this.rows.find((row) => y >= row.y && y < row.y + row.h);
    if (!r) return null;
    const line = Math.floor((y - r.y - r.top) / (size + gap)),
      column = Math.floor((x - this.left - 4) / (size + gap));
    if (line < 0 || column < 0 || column >= r.across) return null;
    return r.pods[line * r.across + column] || null;
  }

  describe(p) {
    const u = this.usage.pods[`${p.ns}/${p.n}`];
    return [
      `${p.ns}/${p.n}: ${stateNames[p.s]}`,
      p.w ? `, waits for ${p.w}` : '',
      p.node ? `, on ${p.node}` : '',
      `; asks ${cores(p.c)} cores, ${bytes(p.m)}`,
      u ? `; uses ${cores(u.c)}, ${bytes(u.m)}` : '',
      p.r ? `; ${p.r} restarts` : '',
    ].join('');
  }

  hover(e) {
    const p = this.at(e);
    this.tip.hidden = !p;
    this.canvas.style.cursor = p ? 'pointer' : '';
    if (!p) return;
    this.tip.textContent = this.describe(p);
    this.tip.style.left = `${Math.min(e.clientX + 14, innerWidth - 260)}px`;
    this.tip.style.top = `${e.clientY + 16}px`;
  }

  select(p, open) {
    this.selected = p;
    this.dirty();
    this.onselect(p, open);
  }

  key(e) {
    const step = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: 'down',
      ArrowUp: 'up',
      Home: 'first',
      End: 'last',
    }[e.key];
    if (e.key === 'Enter' && this.selected) this.onselect(this.selected, true);
    if (step === undefined) return;
    e.preventDefault();
    const all = this.rows.flatMap((r) => r.pods.map((p, i) => ({ p, r, i })));
    if (!all.length) return;
    let k = all.findIndex((x) => x.p === this.selected);
    if (step === 'first' || k < 0) k = 0;
    else if (step === 'last') k = all.length - 1;
    else if (typeof step === 'number') k = Math.min(all.length - 1, Math.max(0, k + step));
    else {
      const down = step === 'down' ? 1 : -1,
        from = all[k],
        rows = this.rows.filter((r) => r.pods.length);
      const inside = from.i + down * from.r.across;
      if (inside >= 0 && inside < from.r.pods.length) k += down * from.r.across;
      else {
        const next = rows[rows.indexOf(from.r) + down];
        if (next)
          k = all.findIndex((x) => x.r === next) + Math.min(next.pods.length - 1, from.i % from.r.across);
      }
    }
    const { p, r, i } = all[k];
    this.select(p, false);
    const y = this.wrap.getBoundingClientRect().top + this.place(r, i)[1];
    if (y < 40) scrollBy(0, y - 80);
    else if (y > innerHeight - 60) scrollBy(0, y - innerHeight + 120);
  }
}
