// The list of trajectories: only the rows in view are in the page, so a million are as quick as ten.
const PAGE_ROWS = 100;
const OVERSCAN = 6;
const RETRY_MS = 3000;
// Browsers cut elements that are higher than this; longer lists are scrolled in proportion.
const TALLEST_PX = 8_000_000;
// Where the reader was in each list, for the way back.
const places = new Map();
const ROW_ORDERS = [['index', 'number'], ['step', 'step'], ['reward', 'reward'], ['duration', 'seconds']];
const FILTERS = ['status', 'step', 'task', 'held_out', 'search', 'order', 'desc', 'disagrees', 'cut_off'];

function filtersOf(query) {
  return Object.fromEntries(FILTERS.filter((name) => query[name]).map((name) => [name, query[name]]));
}

function RowsPage({source, run, query}) {
  const {data: report, error} = useData(() => source.document(run), [source, run], source, [run]);
  if (!report) return html`<${Pending} error=${error} />`;
  return html`<div class="rows-page"><${RunHead} run=${run} report=${report} current="rows" /><${IndexProgress} index=${report.index} />
    <${RowsList} source=${source} run=${run} query=${query} report=${report} /></div>`;
}

// The pages of a list that are here, by number; those that changed are asked for again while they stay on the screen.
function usePages(source, run, filters) {
  const name = `${run} ${JSON.stringify(filters)}`;
  const state = useRef(null), [, redraw] = useState(0);
  if (!state.current || state.current.name !== name) {
    const before = state.current;
    state.current = {name, pages: new Map(), asked: new Set(), total: before ? before.total : null, facets: before ? before.facets : null, isFirst: true, error: null, age: 0};
  }
  const list = state.current;
  const ask = useCallback((page) => {
    if (list.asked.has(page)) return;
    list.asked.add(page);
    const age = list.age;
    source.rows(run, {...filters, offset: page * PAGE_ROWS, limit: PAGE_ROWS}).then((found) => {
      if (age !== list.age && list.pages.has(page)) return;
      if (list.isFirst) list.pages.clear();
      Object.assign(list, {total: found.total, facets: found.facets, isFirst: false, error: null, searched: found.searched});
      list.pages.set(page, found.rows);
    }, (error) => { list.error = error; setTimeout(() => { list.asked.delete(page); if (state.current === list) redraw((turn) => turn + 1); }, RETRY_MS); }).then(() => { if (state.current === list) redraw((turn) => turn + 1); });
  }, [list]);
  useEffect(() => source.onChange((runs) => {
    if (runs && !runs.includes(run)) return;
    list.age += 1;
    list.asked.clear();
    redraw((turn) => turn + 1);
  }), [list]);
  return {list, ask, at: (index) => { const page = list.pages.get(Math.floor(index / PAGE_ROWS)); return page && page[index % PAGE_ROWS]; }};
}

function RowsList({source, run, query, report}) {
  const filters = filtersOf(query), {list, ask, at} = usePages(source, run, filters);
  const isNarrow = useWidth('(max-width: 760px)'), rowHeight = isNarrow ? 54 : 34;
  const box = useRef(null), place = places.get(list.name) || {selected: 0, top: 0};
  const [selected, setSelected] = useState(place.selected), [view, setView] = useState({top: place.top, height: 600});
  const count = list.total || 0, full = count * rowHeight, height = Math.min(full, TALLEST_PX);
  const scale = full > height ? (full - view.height) / Math.max(height - view.height, 1) : 1;
  const first = Math.max(Math.floor(view.top * scale / rowHeight) - OVERSCAN, 0);
  const last = Math.min(first + Math.ceil(view.height / rowHeight) + 2 * OVERSCAN, count);
  // What is above the first row in view, in pixels of the scrolled element.
  const shift = view.top - view.top * scale;

  useEffect(() => {
    const measure = () => setView({top: box.current.scrollTop, height: box.current.clientHeight});
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const shownName = useRef(list.name);
  useLayoutEffect(() => {
    if (shownName.current === list.name) return;
    shownName.current = list.name;
    const known = places.get(list.name) || {selected: 0, top: 0};
    setSelected(known.selected);
    box.current.scrollTop = known.top;
  }, [list.name]);
  const restored = useRef(false);
  useLayoutEffect(() => {
    if (restored.current || !count) return;
    restored.current = true;
    box.current.scrollTop = place.top;
  }, [count]);
  useEffect(() => {
    if (list.total === null || list.isFirst) ask(Math.floor(first / PAGE_ROWS));
    for (let page = Math.floor(first / PAGE_ROWS); page * PAGE_ROWS < last; page++) ask(page);
  });
  useEffect(() => { places.set(list.name, {selected, top: view.top}); }, [list.name, selected, view.top]);
  useEffect(() => {
    if (list.total !== null) document.documentElement.dataset.rows = String(list.total);
  });

  const select = (to) => {
    const index = Math.max(0, Math.min(to, count - 1));
    setSelected(index);
    const top = index * rowHeight, from = box.current.scrollTop * scale;
    if (top < from) box.current.scrollTop = top / scale;
    else if (top + rowHeight > from + view.height) box.current.scrollTop = (top + rowHeight - view.height) / scale;
  };
  const target = (row) => link(['run', run, 't', row.key], filters);
  const step = Math.max(Math.floor(view.height / rowHeight) - 1, 1);
  const moves = {ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: step, PageUp: -step, Home: -Infinity, End: Infinity};
  const handlers = Object.fromEntries(Object.entries(moves).map(([key, by]) => [key, () => select(by === Infinity ? count - 1 : by === -Infinity ? 0 : selected + by)]));
  handlers.Enter = (event) => {
    if (event.target.closest('a, button, summary') && !event.target.closest('.row-link')) return false;
    const row = at(selected);
    if (row) go(target(row));
    return undefined;
  };
  useKeys(handlers, [selected, count, scale, rowHeight, view.height, list]);

  const change = (changes, options) => go(link(['run', run, 'rows'], {...filters, ...changes}), options);
  const order = filters.order || 'index';
  const rows = [];
  for (let index = first; index < last; index++) {
    const row = at(index);
    const style = {transform: `translateY(${index * rowHeight + shift}px)`, height: `${rowHeight}px`};
    rows.push(html`<div role="listitem" key=${row ? row.key : `empty ${index}`} class="item" style=${style} aria-setsize=${count} aria-posinset=${index + 1}>
      ${row ? html`<${RowLink} row=${row} index=${index} isSelected=${index === selected} target=${target(row)} onOpen=${() => places.set(list.name, {selected: index, top: view.top})} />` : html`<span class="loading-row" />`}</div>`);
  }
  return html`<${RowFilters} query=${query} facets=${list.facets} report=${report} change=${change}>
      ${isNarrow && html`<select aria-label="Order" value=${`${order} ${filters.desc || ''}`} onChange=${(event) => { const [name, desc] = event.currentTarget.value.split(' '); change({order: name === 'index' ? '' : name, desc}); }}>
        ${ROW_ORDERS.flatMap(([name, title]) => ['', '1'].map((desc) => html`<option value=${`${name} ${desc}`}>by ${title}, ${desc ? 'descending' : 'ascending'}</option>`))}</select>`}
      <p class="muted" role="status" id="count">${list.total === null ? 'Loading …' : `${count.toLocaleString('en')} trajector${count === 1 ? 'y' : 'ies'}`}${list.searched && list.searched.is_complete === false ? ', still searching' : ''}</p><//>
    ${list.error && html`<p class="note" role="alert">${list.error.message}</p>`}
    <div class="panel flush list-panel">
      ${!isNarrow && html`<${RowHeads} query=${query} filters=${filters} run=${run} />`}
      <div id="list" ref=${box} class="list" role=${list.total === 0 ? 'region' : 'list'} aria-label="Trajectories" tabindex=${count ? -1 : 0} onScroll=${(event) => setView({top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight})}>
        <div id="spacer" role="presentation" style=${{height: `${height}px`}}>${rows}</div>
        ${list.total === 0 && html`<${Empty}>${Object.keys(filters).length ? 'No trajectory matches the filters.' : 'There are no trajectories yet.'}<//>`}
      </div>
    </div>`;
}

function RowLink({row, isSelected, target, onOpen}) {
  const element = useRef(null);
  useEffect(() => {
    // The keyboard's focus follows the selection, unless a field or another part of the page has it.
    const {activeElement} = document;
    if (isSelected && element.current && (activeElement === document.body || activeElement.matches('h1, main') || activeElement.closest('#list'))) element.current.focus({preventScroll: true});
  }, [isSelected]);
  const marks = [row.held_out && 'held out', row.greedy && 'greedy', row.cached && 'cached', row.disagrees && 'passes in one process', row.cut_off && 'truncated'].filter(Boolean);
  return html`<a ref=${element} class="row-link" href=${target} tabindex=${isSelected ? 0 : -1} aria-current=${isSelected ? 'true' : undefined} onClick=${onOpen}>
    <span class="index">${row.index}</span><span class="step">${stepText(row.step)}</span>
    <span class="status"><${Swatch} kind=${kindOf(row)} letter=${letterOf(row)} /><span class="word">${row.status}</span></span>
    <span class="task"><b>${row.task_id}</b><span class="sub">${[row.id, ...marks, row.detail].filter(Boolean).join(' · ')}</span></span>
    <span class="checks">${row.total ? `${row.passed}/${row.total}` : '–'}</span><span class="reward">${rewardText(row.reward)}</span>
    <span class="seconds">${formatted(row.duration_seconds, 'seconds')}</span></a>`;
}

function RowHeads({filters, run}) {
  const head = (name, title, order) => {
    if (!order) return html`<span class=${name}>${title}</span>`;
    const isOn = (filters.order || 'index') === order, isDown = filters.desc === '1';
    const next = {...filters, order: order === 'index' ? '' : order, desc: isOn && !isDown ? '1' : ''};
    return html`<a class=${name} href=${link(['run', run, 'rows'], next)} aria-label=${`Order by ${title}${isOn ? (isDown ? ', now descending' : ', now ascending') : ''}`}>${title}${isOn ? (isDown ? ' ↓' : ' ↑') : ''}</a>`;
  };
  return html`<div class="list-head" role="group" aria-label="Order">${head('index', '#', 'index')}${head('step', 'step', 'step')}${head('status', 'status')}${head('task', 'problem')}
    ${head('checks', 'checks')}${head('reward', 'reward', 'reward')}${head('seconds', 'seconds', 'duration')}</div>`;
}

function RowFilters({query, facets, report, change, children}) {
  const chosen = new Set((query.status || '').split(',').filter(Boolean));
  const counts = (facets && facets.status) || {};
  const statuses = [...new Set([...Object.keys(counts), ...chosen])].sort((a, b) => (counts[b] || 0) - (counts[a] || 0));
  const toggle = (status) => {
    const next = new Set(chosen);
    if (!next.delete(status)) next.add(status);
    change({status: [...next].join(',')});
  };
  const hasHeldOut = query.held_out || (facets && facets.held_out !== undefined ? facets.held_out > 0 : (report.evaluations || []).length > 0);
  const steps = report.metrics.completions ? report.metrics.completions.steps : [];
  return html`<div class="filters" role="search" aria-label="Filter trajectories">
    <${SearchField} value=${query.search} label="Search trajectories" placeholder="problem, code, output, verdict" onSearch=${(search) => change({search}, {replace: true})} />
    ${query.task && html`<div class="chips"><${Toggle} isOn=${true} onClick=${() => change({task: ''})}>problem ${query.task} ×<//></div>`}
    ${steps.length > 1 && html`<select aria-label="Step" id="step" value=${query.step || ''} onChange=${(event) => change({step: event.currentTarget.value})}>
      <option value="">all steps</option>${steps.map((step) => html`<option value=${String(step)}>step ${stepText(step)}</option>`)}</select>`}
    <div class="chips" role="group" aria-label="Statuses">${statuses.map((status) => html`<${Toggle} key=${status} isOn=${chosen.has(status)} onClick=${() => toggle(status)}>
      <${Swatch} kind=${kindOf({status})} letter=${letterOf({status})} />${status} <small>${(counts[status] || 0).toLocaleString('en')}</small><//>`)}
      ${hasHeldOut && html`<${Toggle} isOn=${query.held_out === '1'} onClick=${() => change({held_out: query.held_out === '1' ? '' : '1'})}>held out<//>`}
      ${facets && (facets.disagrees > 0 || query.disagrees) && html`<${Toggle} isOn=${query.disagrees === '1'} onClick=${() => change({disagrees: query.disagrees ? '' : '1'})}>failed, but passes in one process <small>${facets.disagrees}</small><//>`}
      ${facets && (facets.cut_off > 0 || query.cut_off) && html`<${Toggle} isOn=${query.cut_off === '1'} onClick=${() => change({cut_off: query.cut_off ? '' : '1'})}>truncated <small>${facets.cut_off}</small><//>`}
    </div>${children}</div>`;
}
