// Two or more runs: what they amount to, what sets them apart, their curves over one another, and the same problems side by side.
const COMPARED_SHOWN = 100;

function ComparePage({source, query}) {
  const keys = (query.runs || '').split(',').filter(Boolean), offset = Number(query.offset || 0);
  const asked = {only: ['all', 'gained', 'lost'].includes(query.only) ? query.only : 'differ', of: query.of || '', search: query.search || '', offset, limit: COMPARED_SHOWN};
  const {data, error} = useData(() => keys.length < 2 ? Promise.reject(new Error('A comparison needs at least two runs: select them in the list of runs.')) : source.compare(keys, asked),
    [source, query.runs, asked.only, asked.of, asked.search, offset], source, keys);
  if (!data) return html`<${Pending} error=${error} />`;
  const change = (changes, options) => go(link(['compare'], {...query, offset: '', ...changes}), options);
  const {runs, problems, differ} = data, of = runs.findIndex(({key}) => key === asked.of);
  const isTurned = of >= 0 && (asked.only === 'gained' || asked.only === 'lost');
  return html`<div class="page-head"><h1 tabindex="-1">${plural(runs.length, 'run')} compared</h1></div>
    ${error && html`<p class="note" role="alert">${error.message}</p>`}
    <${ComparedRuns} data=${data} query=${query} change=${change} />
    <${ComparedCharts} runs=${runs} curves=${data.curves} compared=${data.compared} query=${query} />
    <div class="filters" role="search" aria-label="Filter problems"><${SearchField} value=${query.search} label="Search problems" placeholder="problem" onSearch=${(search) => change({search}, {replace: true})} />
      <div class="chips">${isTurned && html`<${Toggle} isOn=${true} onClick=${() => change({only: '', of: ''})}>${asked.only} by ${letterAt(of)} ×<//>`}
        <${Toggle} isOn=${asked.only === 'differ'} onClick=${() => change({only: asked.only === 'differ' ? 'all' : '', of: ''})}>different verdicts <small>${differ.toLocaleString('en')}</small><//></div>
      <p class="muted" role="status" id="count">${plural(data.total, 'problem')}</p></div>
    ${problems.length ? html`<${Grid} label="Problems" className="compared"><thead><tr><th scope="col">problem</th>
      ${runs.map((run, index) => html`<th scope="col"><b class="ordinal">${letterAt(index)}</b> ${run.run_id}</th>`)}</tr></thead>
      <tbody>${problems.map((problem) => html`<tr key=${problem.task_id}><th scope="row" class="name">${problem.task_id}${problem.same_problem === false && html`<small class="tag">the problem changed</small>`}</th>
        ${problem.cells.map((cell, index) => html`<td>${cell ? html`<${ComparedCell} cell=${cell} run=${runs[index]} name=${problem.task_id} />` : html`<span class="muted">not in this run</span>`}</td>`)}</tr>`)}</tbody><//>
      <${Pages} total=${data.total} offset=${offset} limit=${COMPARED_SHOWN} linkTo=${(to) => link(['compare'], {...query, offset: to || ''})} />`
    : html`<${Empty}>${asked.only === 'differ' && !asked.search ? 'No verdict differs.' : 'No problem matches the filters.'}<//>`}`;
}

function letterAt(index) { return index < 26 ? String.fromCharCode(65 + index) : letterAt(Math.floor(index / 26) - 1) + letterAt(index % 26); }
function pointsText(value) { return `${value > 0 ? '+' : ''}${(100 * value).toFixed(1)}`.replace('-', '−'); }
function optionText(value) { return value === undefined || value === null ? '–' : typeof value === 'string' ? value : JSON.stringify(value); }

// The options of some runs by name, and whether they are the same in all of them. What another command cannot set has not been changed by its default.
function optionColumns(options) {
  const names = [...new Set(options.flatMap((each) => Object.keys(each)))];
  return names.map((name) => {
    const values = options.map((each) => optionText((each[name] || [])[0]));
    const isSet = options.some((each) => each[name] && !each[name][1]) || options.every((each) => each[name]);
    return {name, isEqual: !isSet || new Set(values).size < 2};
  });
}

// A table over many runs: results, differences to the first run, and the options that are not the same in all.
function ComparedRuns({data: {runs, compared, pairings, options, baseline}, query, change}) {
  const keys = runs.map(({key}) => key), columns = optionColumns(options);
  const hidden = new Set((query.hide || '').split(',').filter(Boolean)), offered = columns.filter(({isEqual}) => !isEqual || query.equal === '1');
  const shownColumns = offered.filter(({name}) => !hidden.has(name));
  const toggle = (name) => { const next = new Set(hidden); if (!next.delete(name)) next.add(name); change({hide: [...next].join(','), offset: query.offset}, {replace: true}); };
  const hasTruncated = runs.some(({truncated}) => truncated > 0), hasPairs = pairings.some(Boolean);
  const first = runs.findIndex(({key}) => key === baseline);
  return html`<div class="panel flush"><div class="scroll-x" tabindex="0" role="region" aria-label="Compared runs"><table class="runs" aria-label="Compared runs"><thead><tr>
      <th scope="col">run</th><th scope="col">state</th><th scope="col" class="right">pass@1</th>
      ${hasPairs && html`<th scope="col" class="right">difference to ${letterAt(first)}, points</th><th scope="col" class="right">p</th><th scope="col">problems that turned</th>`}
      <th scope="col" class="right">problems</th><th scope="col" class="right">completions</th><th scope="col" class="right">unscorable</th>${hasTruncated && html`<th scope="col" class="right">truncated</th>`}
      <th scope="col" class="right">reward</th>${shownColumns.map(({name}) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${runs.map((run, index) => {
      const own = compared[index], pair = pairings[index], others = keys.filter((key) => key !== run.key);
      return html`<tr key=${run.key}><th scope="row" class="name"><span class="mark" style=${{background: colour(TINTS[index % TINTS.length])}} /><b class="ordinal">${letterAt(index)}</b> <a href=${link(['run', run.key])}>${run.run_id}</a>
          <small>${run.key === baseline ? html`<span class="tag">baseline</span>` : html`<a href=${link(['compare'], {...query, runs: [run.key, ...others].join(','), only: '', of: '', offset: ''})} aria-label=${`Take ${run.run_id} as baseline`}>as baseline</a>`}
          ${others.length > 1 && html` · <a href=${link(['compare'], {...query, runs: others.join(','), only: '', of: '', offset: ''})} aria-label=${`Remove ${run.run_id}`}>remove</a>`}</small></th>
        <td><${StateBadge} state=${run.state} unscorable=${run.unscorable} /></td><td class="right"><${Share} estimate=${own && own.pass_at[1] ? {...own.pass_at[1], value: own.pass_at[1].estimate} : run.pass_at_1} /></td>
        ${hasPairs && html`<${PairedCells} pair=${pair} run=${run} index=${index} query=${query} isBaseline=${run.key === baseline} />`}
        <td class="right">${formatted(own && own.problems)}</td><td class="right">${formatted(own ? own.completions : run.completions)}</td><td class="right">${formatted(own ? own.unscorable : run.unscorable)}</td>
        ${hasTruncated && html`<td class="right">${formatted(run.truncated)}</td>`}<td class="right">${rewardText(own ? own.reward : run.reward)}</td>
        ${shownColumns.map(({name}) => html`<td class="option">${optionText((options[index][name] || [])[0])}</td>`)}</tr>`;
    })}</tbody></table></div></div>
    ${!hasPairs && runs.length > 1 && html`<p class="muted small">${baseline ? 'This page has no paired differences of these runs. `sandrl view` and `sandrl runs compare` compute them for any runs.' : 'None of these runs has completions yet.'}</p>`}
    ${hasPairs && html`<p class="muted small">Differences are paired by problem, with 95% intervals. p is adjusted for the number of runs that are compared with ${letterAt(first)}.</p>`}
    <details class="panel"><summary>Columns of the configuration: ${shownColumns.length} of ${columns.length} shown</summary>
      <div class="chips" role="group" aria-label="Columns of the configuration"><${Toggle} isOn=${query.equal === '1'} onClick=${() => change({equal: query.equal === '1' ? '' : '1', offset: query.offset}, {replace: true})}>options that are equal <small>${columns.filter(({isEqual}) => isEqual).length}</small><//>
      ${offered.map(({name}) => html`<${Toggle} key=${name} isOn=${!hidden.has(name)} onClick=${() => toggle(name)}>${name}<//>`)}</div></details>`;
}

// The cells of a run that compare it with the baseline.
function PairedCells({pair, run, index, query, isBaseline}) {
  if (!pair || !pair.difference) return html`<td class="right muted">${isBaseline ? 'baseline' : pair ? 'no common problem' : '–'}</td><td class="right">–</td><td>–</td>`;
  const {value, low, high, gained, lost} = pair.difference, p = pair.adjusted_p_value;
  const turned = (only, count) => count ? html`<a href=${link(['compare'], {...query, only, of: run.key, offset: ''})} aria-label=${`${count} ${only} by ${letterAt(index)}`}>${count} ${only}</a>` : html`<span class="muted">0 ${only}</span>`;
  return html`<td class="right"><b>${pointsText(value)}</b>${low !== null && html`<small class="muted interval">${pointsText(low)} to ${pointsText(high)}</small>`}</td>
    <td class="right">${p === null || p === undefined ? '–' : p < 0.001 ? '< 0.001' : p.toFixed(3)}</td>
    <td class="nowrap">${turned('gained', gained)}, ${turned('lost', lost)}<small class="muted interval">of ${pair.common.toLocaleString('en')}${pair.changed.length > 0 ? `; ${pair.changed.length} have other checks` : ''}</small></td>`;
}

function ComparedCell({cell, run, name}) {
  const row = {status: cell.n > 0 && cell.passed === cell.n ? 'passed' : cell.status, reward: cell.reward};
  const words = cell.n > 1 ? `${cell.passed}/${cell.n} passed` : cell.status;
  return html`<a class="compared-cell" href=${link(['run', run.key, 't', cell.key])} aria-label=${`${name} in ${run.run_id}: ${words}, reward ${rewardText(cell.reward)}`}>
    <${Swatch} kind=${kindOf(row)} letter=${letterOf(row)} /><span>${words}</span><span class="muted">${rewardText(cell.reward)}</span></a>`;
}

function comparedCurves(runs, curves, name) {
  return linesOver(runs.flatMap((run, index) => {
    const curve = curves[name][index];
    return curve ? [{label: `${letterAt(index)} ${shown(run.run_id)}`, steps: curve.steps, values: curve.values, unit: curve.unit, tint: colour(TINTS[index % TINTS.length])}] : [];
  }), {});
}

// Estimates of pass@k of the completions that are compared.
function comparedEstimates(compared) {
  const ks = [...new Set(compared.flatMap((each) => each ? Object.keys(each.pass_at) : []))].sort((a, b) => a - b);
  return ks.flatMap((k) => compared.flatMap((each, index) => each && each.pass_at[k] ? [{label: `${letterAt(index)} pass@${k}`, tint: index, ...each.pass_at[k]}] : []));
}

function ComparedCharts({runs, curves, compared, query}) {
  const names = Object.keys(curves || {}).filter((name) => curves[name].some((curve) => curve && curve.steps.length > 1));
  const chosen = names.includes(query.metric) ? query.metric : names.includes('reward/mean') ? 'reward/mean' : names[0];
  const lines = useMemo(() => chosen ? () => comparedCurves(runs, curves, chosen) : null, [runs, curves, chosen]);
  const points = useMemo(() => {
    const found = comparedEstimates(compared);
    return found.length ? () => estimates(found.map((point) => ({...point, tint: colour(TINTS[point.tint % TINTS.length])}))) : null;
  }, [compared]);
  if (!lines && !points) return null;
  const choose = html`<select aria-label="Metric" value=${chosen} onChange=${(event) => go(link(['compare'], {...query, metric: event.currentTarget.value}), {replace: true})}>
    ${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>`;
  return html`<section id="charts" class=${lines && points ? 'double' : lines ? 'single' : 'points'} aria-label="Charts">
    ${lines && html`<${ChartFigure} title="Curves" id="chart-compare" describe=${lines} control=${choose} />`}
    ${points && html`<${ChartFigure} title="pass@k" id="chart-pass" describe=${points} />`}</section>`;
}
