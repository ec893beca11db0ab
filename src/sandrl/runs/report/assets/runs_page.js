// The list of runs, from which some are chosen to be compared.
const RUN_ORDERS = {
  created: (run) => run.created_at || '', completions: (run) => run.completions || 0, steps: (run) => run.steps || 0,
  pass_rate: (run) => run.pass_rate ?? -1, reward: (run) => run.reward ?? -Infinity,
};

function RunsPage({source, query}) {
  const {data, error} = useData(() => source.runs(), [source], source);
  const [chosen, setChosen] = useState([]);
  if (!data) return html`<${Pending} error=${error} />`;
  const words = wordsOf(query.search), order = query.order || 'created';
  const measure = RUN_ORDERS[order] || RUN_ORDERS.created, sign = query.desc === '0' ? 1 : -1;
  const found = data.runs.filter((run) => {
    const text = [run.run_id, run.command, run.state, ...(run.job_ids || [])].join(' ').toLowerCase();
    return words.every((word) => text.includes(word)) && (!query.state || run.state === query.state);
  }).sort((a, b) => sign * (measure(a) < measure(b) ? -1 : measure(a) > measure(b) ? 1 : 0));
  const change = (changes, options) => go(link([], {...query, ...changes}), options);
  const toggle = (key) => setChosen((before) => before.includes(key) ? before.filter((each) => each !== key) : [...before, key]);
  const sortable = (name, title, className = '') => html`<th scope="col" class=${className} aria-sort=${order === name ? (sign < 0 ? 'descending' : 'ascending') : undefined}>
    <a href=${link([], {...query, order: name, desc: order === name && sign < 0 ? '0' : ''})}>${title}${order === name ? (sign < 0 ? ' ↓' : ' ↑') : ''}</a></th>`;
  const states = [...new Set(data.runs.map((run) => run.state))];
  const hasCost = data.runs.some((run) => run.cost !== null && run.cost !== undefined);
  return html`
    <div class="page-head"><h1 tabindex="-1">Runs</h1><p class="muted" role="status" id="count">${plural(found.length, 'run')}${found.length < data.runs.length ? ` of ${data.runs.length.toLocaleString('en')}` : ''}</p></div>
    ${error && html`<p class="note" role="alert">${error.message}</p>`}
    <div class="filters" role="search" aria-label="Filter runs">
      <${SearchField} value=${query.search} label="Search runs" placeholder="name, command, job" onSearch=${(search) => change({search}, {replace: true})} />
      ${states.length > 1 && html`<div class="chips" role="group" aria-label="States">${states.map((state) => html`<${Toggle} isOn=${query.state === state} onClick=${() => change({state: query.state === state ? '' : state})}>${state}<//>`)}</div>`}
      <button type="button" class="primary" disabled=${chosen.length < 2} onClick=${() => go(link(['compare'], {runs: chosen.join(',')}))}>
        ${chosen.length < 2 ? 'Select two runs to compare' : `Compare ${chosen.length} runs`}</button>
    </div>
    ${found.length ? html`<div class="panel flush"><div class="scroll-x" tabindex="0" role="region" aria-label="Runs"><table class="runs"><thead><tr>
      <th scope="col"><span class="visually-hidden">Compare</span></th><th scope="col">run</th><th scope="col">state</th><th scope="col" class="wide">command</th>
      ${sortable('created', 'created', 'wide')}${sortable('completions', 'completions', 'right middle')}${sortable('steps', 'steps', 'right wide')}
      ${sortable('pass_rate', 'pass rate', 'right')}${sortable('reward', 'reward', 'right')}<th scope="col" class="middle">curve</th>${hasCost && html`<th scope="col" class="right wide">cost</th>`}
    </tr></thead><tbody>${found.map((run) => html`<tr key=${run.key} class=${chosen.includes(run.key) ? 'chosen' : ''}>
      <td><input type="checkbox" aria-label=${`Compare ${run.run_id}`} checked=${chosen.includes(run.key)} onChange=${() => toggle(run.key)} /></td>
      <td class="name"><a href=${link(['run', run.key])}>${run.run_id}</a>${run.error && html`<small class="muted" title=${run.error}>${run.error}</small>`}</td>
      <td><${StateBadge} state=${run.state} /></td><td class="wide muted">${run.command}</td><td class="wide muted nowrap">${moment(run.created_at).slice(0, 16)}</td>
      <td class="right middle">${formatted(run.completions)}</td><td class="right wide">${formatted(run.steps)}</td>
      <td class="right">${formatted(run.pass_rate, 'share')}</td><td class="right">${rewardText(run.reward)}</td>
      <td class="middle"><${Sparkline} values=${run.curve} /></td>${hasCost && html`<td class="right wide">${costText(run.cost)}</td>`}
    </tr>`)}</tbody></table></div></div>` : html`<${Empty}>${data.runs.length ? 'No run matches the filters.' : 'There are no runs yet. A run appears here as soon as it starts.'}<//>`}`;
}

function costText(cost) {
  if (cost === null || cost === undefined) return '–';
  if (typeof cost === 'number') return `$${cost.toFixed(2)}`;
  return typeof cost === 'object' ? costText(cost.total ?? cost.dollars ?? cost.amount ?? null) : String(cost);
}
