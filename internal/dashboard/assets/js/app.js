// The frame of the page: session, theme, and which view is drawn for the address.
import { api, el, failed, say, show } from './dom.js';

const views = {
  now: () => import('./now.js'),
  life: () => import('./life.js'),
  why: () => import('./why.js'),
  whatif: () => import('./whatif.js'),
  packet: () => import('./packet.js'),
};
const main = document.getElementById('main');
let session = null;
let leave = null; // ends the view that is drawn
let drawn = 0;

// enter exchanges the one-time token of the address for a session, and takes it out of the address.
async function enter() {
  const token = /^#token=([A-Za-z0-9]+)$/.exec(location.hash);
  if (token) {
    history.replaceState(null, '', '/#/now');
    try {
      await api('session', {}, { token: token[1] });
    } catch (err) {
      session = await api('session').catch(() => null);
      if (!session) throw err;
    }
  }
  session = await api('session');
  document.getElementById('who').textContent = `${session.user} at ${session.cluster}`;
  end.hidden = false;
}

// The session ends here and wherever its cookie was copied to.
const end = document.getElementById('end');
end.addEventListener('click', async () => {
  try {
    await api('session', {}, undefined, undefined, 'DELETE');
    session = null;
    end.hidden = true;
    document.getElementById('who').textContent = '';
  } catch (err) {
    say(err.message);
    return;
  }
  draw();
});

// route reads the address: #/VIEW/PART/…?NAME=VALUE.
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  return {
    view: parts[0] in views ? parts[0] : 'now',
    parts: parts.slice(1),
    query: new URLSearchParams(query || ''),
  };
}

async function draw() {
  const mine = ++drawn;
  const at = route();
  if (leave) {
    leave();
    leave = null;
  }
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === `#/${at.view}`) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  try {
    if (!session) await enter();
    const view = await views[at.view]();
    if (mine !== drawn) return;
    const root = el('div');
    show(main, root);
    leave = view.draw(root, at, session) || null;
    document.title = `${view.title} · Gantry`;
    say(view.title);
  } catch (err) {
    show(main, el('h1', { text: 'Gantry' }), failed(err));
  }
}

function theme() {
  const button = document.getElementById('theme');
  const dark = () => {
    const own = document.documentElement.dataset.theme;
    return own ? own === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  };
  const label = () => {
    button.textContent = dark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', `Use the ${dark() ? 'light' : 'dark'} theme`);
  };
  const kept = localStorage.getItem('theme');
  if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = dark() ? 'light' : 'dark';
    localStorage.setItem('theme', document.documentElement.dataset.theme);
    label();
    dispatchEvent(new Event('theme'));
  });
  label();
}

// Keys 1 to 5 go to the views, / to the first field.
addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  const name = Object.keys(views)[Number(e.key) - 1];
  if (name) location.hash = `#/${name}`;
  const field = e.key === '/' && main.querySelector('input');
  if (field) {
    e.preventDefault();
    field.focus();
  }
});
document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault();
  main.focus();
});
addEventListener('hashchange', () => {
  if (/^#token=/.test(location.hash)) session = null;
  draw();
});
theme();
draw();
