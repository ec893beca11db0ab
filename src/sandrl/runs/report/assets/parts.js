// Small components that several pages are made of.
function Swatch({kind, letter}) { return html`<span class=${'swatch ' + kind} aria-hidden="true">${letter}</span>`; }
function StatusBadge({row}) { return html`<span class=${'badge ' + kindOf(row)}>${row.status}</span>`; }
// What finished without some of its rewards is no success.
function StateBadge({state, unscorable}) {
  return html`<span class=${`state ${state}${unscorable > 0 ? ' partial' : ''}`}>${state}${unscorable > 0 ? `, ${unscorable.toLocaleString('en')} unscorable` : ''}</span>`;
}
// A share with its 95% interval, where that was measured.
function Share({estimate}) {
  if (!estimate) return '–';
  return html`${formatted(estimate.value, 'share')}${intervalText(estimate) && html`<small class="muted interval">${intervalText(estimate)}</small>`}`;
}

function Table({head, rows, label}) {
  return html`<table aria-label=${label}><thead><tr>${head.map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table>`;
}

// A table that only exists while it is open: a run may have ten thousand steps.
function FoldedTable({head, rows, label}) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="folded" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>As a table</summary>
    ${isOpen && html`<div class="scroll" tabindex="0" role="region" aria-label=${`${label}, as a table`}><${Table} head=${head} rows=${rows} label=${label} /></div>`}
  </details>`;
}

function Stat({value, label, note}) {
  return html`<div class="card"><b>${value}</b><span>${label}</span>${note && html`<small>${note}</small>`}</div>`;
}

function Section({title, id, children, aside, className = ''}) {
  return html`<div class=${'panel ' + className} role="group" aria-labelledby=${id}>
    <div class="section-head"><h2 id=${id}>${title}</h2>${aside}</div>${children}</div>`;
}

function Text({text, label}) { return html`<pre tabindex="0" role="region" aria-label=${label}>${text}</pre>`; }

function Code({code, label}) {
  return html`<pre tabindex="0" role="region" aria-label=${label}>${coloured(code).map(([kind, text]) => kind ? html`<span class=${kind}>${text}</span>` : text)}</pre>`;
}

// Code with numbered lines, one of which may be marked.
function NumberedCode({code, marked, label}) {
  return html`<pre class="numbered" tabindex="0" role="region" aria-label=${label}>${colouredLines(code).map((pieces, index) => {
    const isMarked = index + 1 === marked;
    return html`<span class=${isMarked ? 'row marked' : 'row'}><span class="number" aria-hidden="true">${isMarked ? '▶ ' : ''}${index + 1}</span><span class="source">${
      pieces.map(([kind, text]) => html`<span class=${kind}>${text}</span>`)}${'\n'}</span></span>`;
  })}</pre>`;
}

// A table of links with one stop for Tab: arrow keys move between them, because there may be thousands.
function Grid({label, className, children}) {
  const table = useRef(null);
  const linksOf = (part) => [...part.querySelectorAll('a')];
  const enter = (link) => { for (const each of linksOf(table.current)) each.tabIndex = each === link ? 0 : -1; };
  useLayoutEffect(() => {
    const links = linksOf(table.current), box = table.current.parentElement;
    enter(links.find((each) => each === document.activeElement) || links.find((each) => each.getAttribute('tabindex') === '0') || links[0]);
    // Without a link, the keyboard scrolls it as a whole.
    if (links.length) box.removeAttribute('tabindex'); else box.tabIndex = 0;
  });
  const move = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const lines = [...table.current.rows].map(linksOf).filter((links) => links.length);
    const at = lines.findIndex((links) => links.includes(event.target)), line = lines[at] || [], place = line.indexOf(event.target);
    const near = (to) => { const links = lines[to]; return links && links[Math.min(place, links.length - 1)]; };
    const targets = {ArrowLeft: line[place - 1], ArrowRight: line[place + 1], ArrowUp: near(at - 1), ArrowDown: near(at + 1), Home: line[0], End: line[line.length - 1]};
    if (place < 0 || !(event.key in targets)) return;
    event.preventDefault();
    if (targets[event.key]) targets[event.key].focus();
  };
  return html`<div class="panel flush"><div class="scroll-x grid-scroll" role="region" aria-label=${label}><table ref=${table} role="grid" aria-label=${label} class=${className}
    onKeyDown=${move} onfocusin=${(event) => enter(event.target)}>${children}</table></div></div>`;
}

// A curve small enough for a row of a table.
function Sparkline({values}) {
  const known = (values || []).map((value, index) => [index, value]).filter(([, value]) => typeof value === 'number');
  if (known.length < 2) return html`<span class="muted">–</span>`;
  const numbers = known.map(([, value]) => value);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const place = ([index, value]) => `${(2 + 92 * index / (values.length - 1)).toFixed(1)},${(22 - 18 * (high > low ? (value - low) / (high - low) : 0.5)).toFixed(1)}`;
  const points = known.map(place);
  const [x, y] = points[points.length - 1].split(',');
  return html`<svg class="spark" viewBox="0 0 96 24" role="img" aria-label=${`from ${formatted(numbers[0])} to ${formatted(numbers[numbers.length - 1])}`}>
    <polyline points=${points.join(' ')} /><circle cx=${x} cy=${y} r="2" /></svg>`;
}

function Empty({children}) { return html`<p class="empty">${children}</p>`; }

// What a page shows before it has its data, and where it cannot get it.
function Pending({error}) {
  if (error) return html`<div class="page-head"><h1 tabindex="-1">This page cannot be shown</h1></div><p class="note" role="alert">${error.message || String(error)}</p>`;
  return html`<p class="empty" role="status">Loading …</p>`;
}

// A field that changes the address a moment after the last key.
const SEARCH_PAUSE_MS = 150;
function SearchField({value, onSearch, label, placeholder}) {
  // The address may change while the timer runs.
  const timer = useRef(0), field = useRef(null), latest = useRef(null);
  latest.current = onSearch;
  useEffect(() => {
    if (document.activeElement !== field.current) field.current.value = value || '';
  }, [value]);
  const change = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => latest.current(field.current.value), SEARCH_PAUSE_MS);
  };
  return html`<input ref=${field} class="search" type="search" data-search autocomplete="off" spellcheck=${false} aria-label=${label}
    placeholder=${placeholder} defaultValue=${value || ''} onInput=${change} />`;
}

// A button that is on or off.
function Toggle({isOn, onClick, children, className = ''}) {
  return html`<button type="button" class=${`chip ${className}`} aria-pressed=${String(Boolean(isOn))} onClick=${onClick}>${children}</button>`;
}

function Pages({total, offset, limit, linkTo}) {
  if (total <= limit) return null;
  const last = Math.min(offset + limit, total);
  return html`<nav class="pages" aria-label="Pages">
    ${offset > 0 ? html`<a href=${linkTo(Math.max(offset - limit, 0))}>← Previous</a>` : html`<span />`}
    <span class="muted">${(offset + 1).toLocaleString('en')}–${last.toLocaleString('en')} of ${total.toLocaleString('en')}</span>
    ${last < total ? html`<a href=${linkTo(last)}>Next →</a>` : html`<span />`}
  </nav>`;
}

// Data that is asked for again when its run changes; what is shown stays until the new answer is here.
function useData(ask, dependencies, source, concerns) {
  const [state, setState] = useState({data: null, error: null});
  useEffect(() => {
    let isOver = false, isAsking = false, isStale = false;
    const refresh = () => {
      if (isAsking) { isStale = true; return; }
      isAsking = true;
      isStale = false;
      ask().then((data) => ({data, error: null}), (error) => ({error})).then((found) => {
        isAsking = false;
        if (isOver) return;
        setState((before) => found.error ? {data: before.data, error: found.error} : found);
        if (isStale) refresh();
      });
    };
    refresh();
    const leave = source.onChange((runs) => { if (!concerns || !runs || concerns.some((run) => runs.includes(run))) refresh(); });
    return () => { isOver = true; leave(); };
  }, dependencies);
  useEffect(() => {
    if (state.data || state.error) document.documentElement.dataset.ready = 'yes';
  }, [state]);
  return state;
}

function useWidth(query) {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query), follow = () => setMatches(list.matches);
    list.addEventListener('change', follow);
    return () => list.removeEventListener('change', follow);
  }, [query]);
  return matches;
}

// Keys of a page; fields keep theirs.
function useKeys(handlers, dependencies) {
  // Before the page is painted: a key that follows at once is meant for what is shown.
  useLayoutEffect(() => {
    const act = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.target.closest('dialog')) return;
      const handler = handlers[event.key];
      if (handler && handler(event) !== false) event.preventDefault();
    };
    window.addEventListener('keydown', act);
    return () => window.removeEventListener('keydown', act);
  }, dependencies);
}
