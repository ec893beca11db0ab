// The list of runs, from which some are chosen to be compared.
const RUNS_SHOWN = 100;
// The columns that can be ordered by, and what of a run is compared then.
const RUN_ORDERS = {
  created: (run) => run.created_at || '', model: (run) => run.model || '', problems: (run) => run.problems || '', pass_at_1: (run) => run.pass_at_1 ? run.pass_at_1.value : -1,
  completions: (run) => run.completions || 0, unscorable: (run) => run.unscorable || 0, truncated: (run) => run.truncated || 0, steps: (run) => run.steps || 0,
  reward: (run) => run.reward ?? -Infinity,
};

function RunsPage({source, query}) {
  const {data, error} = useData(() => source.runs(), [source], source);
  const [chosen, setChosen] = useState([]);
  if (!data) return html`<${Pending} error=${error} />`;
  const words = wordsOf(query.search), order = query.order || 'created', offset = Number(query.offset || 0);
  const measure = RUN_ORDERS[order] || RUN_ORDERS.created, sign = query.desc === '0' ? 1 : -1;
  const found = data.runs.filter((run) => {
    const text = [run.run_id, run.command, run.state, run.model, run.problems, ...(run.job_ids || [])].filter(Boolean).join(' ').toLowerCase();
    return words.every((word) => text.includes(word)) && (!query.state || run.state === query.state);
  }).sort((a, b) => sign * (measure(a) < measure(b) ? -1 : measure(a) > measure(b) ? 1 : 0));
  const change = (changes, options) => go(link([], {...query, offset: '', ...changes}), options);
  const toggle = (key) => setChosen((before) => before.includes(key) ? before.filter((each) => each !== key) : [...before, key]);
  const sortable = (name, title, className = '') => html`<th scope="col" class=${className} aria-sort=${order === name ? (sign < 0 ? 'descending' : 'ascending') : undefined}>
    <a href=${link([], {...query, order: name, desc: order === name && sign < 0 ? '0' : ''})}>${title}${order === name ? (sign < 0 ? ' ↓' : ' ↑') : ''}</a></th>`;
  const states = [...new Set(data.runs.map((run) => run.state))];
  const has = (test) => data.runs.some(test);
  const hasCost = has((run) => run.cost !== null && run.cost !== undefined), hasSteps = has((run) => run.steps > 1), hasTruncated = has((run) => run.truncated > 0);
  return html`
    <div class="page-head"><h1 tabindex="-1">Runs</h1><p class="muted" role="status" id="count">${plural(found.length, 'run')}${found.length < data.runs.length ? ` of ${data.runs.length.toLocaleString('en')}` : ''}</p></div>
    ${error && html`<p class="note" role="alert">${error.message}</p>`}
    <div class="filters" role="search" aria-label="Filter runs">
      <${SearchField} value=${query.search} label="Search runs" placeholder="name, model, problems, job" onSearch=${(search) => change({search}, {replace: true})} />
      ${states.length > 1 && html`<div class="chips" role="group" aria-label="States">${states.map((state) => html`<${Toggle} isOn=${query.state === state} onClick=${() => change({state: query.state === state ? '' : state})}>${state}<//>`)}</div>`}
      <button type="button" class="primary" disabled=${chosen.length < 2} onClick=${() => go(link(['compare'], {runs: chosen.join(',')}))}>
        ${chosen.length < 2 ? 'Select two runs to compare' : `Compare ${chosen.length} runs`}</button>
    </div>
    ${found.length ? html`<div class="panel flush"><div class="scroll-x" tabindex="0" role="region" aria-label="Runs"><table class="runs" aria-label="Runs"><thead><tr>
      <th scope="col"><span class="visually-hidden">Compare</span></th><th scope="col">run</th><th scope="col">state</th>${sortable('pass_at_1', 'pass@1', 'right')}
      ${sortable('model', 'model')}${sortable('problems', 'problems')}${sortable('completions', 'completions', 'right')}${sortable('unscorable', 'unscorable', 'right')}
      ${hasTruncated && sortable('truncated', 'truncated', 'right')}${hasSteps && sortable('steps', 'steps', 'right')}${sortable('reward', 'reward', 'right')}
      ${hasSteps && html`<th scope="col">curve</th>`}<th scope="col">command</th>${sortable('created', 'created')}${hasCost && html`<th scope="col" class="right">cost</th>`}
    </tr></thead><tbody>${found.slice(offset, offset + RUNS_SHOWN).map((run) => html`<tr key=${run.key} class=${chosen.includes(run.key) ? 'chosen' : ''}>
      <td><input type="checkbox" aria-label=${`Compare ${run.run_id}`} checked=${chosen.includes(run.key)} onChange=${() => toggle(run.key)} /></td>
      <td class="name"><a href=${link(['run', run.key])}>${run.run_id}</a>${run.error && html`<small class="muted">${run.error}</small>`}</td>
      <td><${StateBadge} state=${run.state} unscorable=${run.unscorable} /></td><td class="right"><${Share} estimate=${run.pass_at_1} /></td>
      <td class="source">${run.model || '–'}</td><td class="source">${run.problems || '–'}</td><td class="right">${formatted(run.completions)}</td><td class="right">${formatted(run.unscorable)}</td>
      ${hasTruncated && html`<td class="right">${formatted(run.truncated)}</td>`}${hasSteps && html`<td class="right">${formatted(run.steps)}</td>`}<td class="right">${rewardText(run.reward)}</td>
      ${hasSteps && html`<td><${Sparkline} values=${run.curve} /></td>`}<td class="muted">${run.command}</td><td class="muted nowrap">${moment(run.created_at).slice(0, 16)}</td>${hasCost && html`<td class="right">${costText(run.cost)}</td>`}
    </tr>`)}</tbody></table></div></div>
    <${Pages} total=${found.length} offset=${offset} limit=${RUNS_SHOWN} linkTo=${(to) => link([], {...query, offset: to || ''})} />` : html`<${Empty}>${data.runs.length ? 'No run matches the filters.' : 'There are no runs yet. A run appears here as soon as it starts.'}<//>`}`;
}

function costText(cost) {
  if (cost === null || cost === undefined) return '–';
  if (typeof cost === 'number') return `$${cost.toFixed(2)}`;
  return typeof cost === 'object' ? costText(cost.total ?? cost.dollars ?? cost.amount ?? null) : String(cost);
}
