// The application: which page an address shows, and what stands around it.
const KEYS = [
  ['↑ ↓', 'select a trajectory in the list'], ['Page Up, Page Down, Home, End', 'move through the list'], ['Enter', 'open the selected trajectory'],
  ['← →', 'previous or next trajectory'], ['Esc', 'leave a field, close this window, or go back'], ['/', 'search'],
  ['1 2 3 4', 'overview, groups, trajectories, cards'], ['?', 'show these shortcuts'],
];

function Keys({onClose}) {
  const dialog = useRef(null);
  useLayoutEffect(() => { dialog.current.showModal(); }, []);
  return html`<dialog ref=${dialog} aria-labelledby="keys-title" onClose=${onClose}><h2 id="keys-title">Keyboard shortcuts</h2>
    <dl class="keys">${KEYS.map(([key, words]) => html`<div><dt>${key}</dt><dd>${words}</dd></div>`)}</dl>
    <form method="dialog"><button>Close</button></form></dialog>`;
}

function ThemeButton() {
  const dark = useTheme();
  return html`<button id="theme" type="button" class="icon" aria-label=${dark ? 'Switch to light' : 'Switch to dark'} onClick=${() => chooseTheme(dark ? 'light' : 'dark')}>◐</button>`;
}

function LiveMark({source}) {
  const [state, setState] = useState(null);
  useEffect(() => source.onState ? source.onState(setState) : undefined, [source]);
  if (!state) return null;
  return html`<span class=${'live ' + state} role="status">${state === 'live' ? 'live' : 'not connected'}</span>`;
}

function Page({source, route, single}) {
  const [kind, key, part, rowKey] = route.path, {query} = route;
  if (kind === 'compare' && !single) return html`<${ComparePage} key=${query.runs} source=${source} query=${query} />`;
  const run = kind === 'run' ? key : single;
  if (!run) return html`<${RunsPage} source=${source} query=${query} />`;
  const shared = {source, run, query, key: `${run} ${part || ''}`};
  if (part === 'rows') return html`<${RowsPage} ...${shared} />`;
  if (part === 'groups') return html`<${GroupsPage} ...${shared} />`;
  if (part === 'cards') return rowKey ? html`<${CardPage} ...${shared} digest=${rowKey} />` : html`<${CardsPage} ...${shared} />`;
  if (part === 't' && rowKey) return html`<${TrajectoryPage} ...${shared} rowKey=${rowKey} />`;
  return html`<${RunPage} ...${shared} />`;
}

function App({source, single}) {
  const route = useRoute(), [hasKeys, setKeys] = useState(false);
  const run = route.path[0] === 'run' ? route.path[1] : single, path = route.path.join('/');
  useEffect(() => { document.title = [route.path[2] === 't' ? route.path[3] : route.path[2] || route.path[0] === 'compare' && 'compare', run, 'sandrl'].filter(Boolean).map(shown).join(' – '); }, [path]);
  // A new page begins at its top, and where a screen reader reads it from.
  useEffect(() => {
    if (!visits) return;
    window.scrollTo(0, 0);
    const main = document.getElementById('main');
    if (!main.contains(document.activeElement) || document.activeElement === document.body) main.focus({preventScroll: true});
  }, [path]);
  useKeys({
    '?': () => setKeys(true),
    '/': () => { const field = document.querySelector('[data-search]'); if (!field) return false; field.focus(); field.select(); return undefined; },
    1: () => run ? go(link(['run', run])) : false, 2: () => run ? go(link(['run', run, 'groups'])) : false, 3: () => run ? go(link(['run', run, 'rows'])) : false,
    4: () => run ? go(link(['run', run, 'cards'])) : false,
    Escape: () => route.path[2] !== 't' && route.path.length > 0 && visits > 0 ? history.back() : false,
  }, [run, path]);
  useEffect(() => {
    const leave = (event) => { if (event.key === 'Escape' && event.target.matches('[data-search]')) event.target.blur(); };
    window.addEventListener('keydown', leave);
    return () => window.removeEventListener('keydown', leave);
  }, []);
  const skip = (event) => { event.preventDefault(); document.getElementById('main').focus(); };
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top"><nav class="crumbs" aria-label="Breadcrumb"><a class="brand" href="#/">sandrl</a>
      ${run && !single && html`<span aria-hidden="true">/</span><a href=${link(['run', run])}>${run.replace(/\.[0-9a-f]{8}$/, '')}</a>`}
      ${route.path[0] === 'compare' && html`<span aria-hidden="true">/</span><span>compare</span>`}</nav>
      <div class="tools"><${LiveMark} source=${source} /><button type="button" class="icon" aria-label="Show the keyboard shortcuts" aria-haspopup="dialog" onClick=${() => setKeys(true)}>?</button><${ThemeButton} /></div></header>
    <main id="main" tabindex="-1"><${Page} source=${source} route=${route} single=${single} /></main>
    ${hasKeys && html`<${Keys} onClose=${() => setKeys(false)} />`}`;
}

async function start() {
  const root = document.getElementById('app');
  try {
    const source = makeSource();
    const single = await source.single();
    root.replaceChildren();
    render(html`<${App} source=${source} single=${single} />`, root);
  } catch (error) {
    root.textContent = shown(`This report cannot be read: ${error}`);
    throw error;
  }
}

start();
