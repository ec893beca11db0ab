// Two or more runs: their curves over one another, and the same problems side by side.
const COMPARED_SHOWN = 100;

function ComparePage({source, query}) {
  const keys = (query.runs || '').split(',').filter(Boolean), offset = Number(query.offset || 0);
  const asked = {only: query.only === 'all' ? 'all' : 'differ', search: query.search || '', offset, limit: COMPARED_SHOWN};
  const {data, error} = useData(() => keys.length < 2 ? Promise.reject(new Error('A comparison needs at least two runs: select them in the list of runs.')) : comparedRuns(source, keys, asked),
    [source, query.runs, asked.only, asked.search, offset], source, keys);
  if (!data) return html`<${Pending} error=${error} />`;
  const change = (changes, options) => go(link(['compare'], {...query, offset: '', ...changes}), options);
  const {runs, problems, differ} = data;
  return html`<div class="page-head"><h1 tabindex="-1">${plural(runs.length, 'run')} compared</h1></div>
    ${error && html`<p class="note" role="alert">${error.message}</p>`}
    <div class="panel flush"><div class="scroll-x" tabindex="0" role="region" aria-label="Compared runs"><table class="runs"><thead><tr><th scope="col">run</th><th scope="col">state</th><th scope="col" class="wide">command</th>
      <th scope="col" class="right middle">completions</th><th scope="col" class="right">pass rate</th><th scope="col" class="right">reward</th></tr></thead>
      <tbody>${runs.map((run, index) => html`<tr key=${run.key}><td class="name"><span class="mark" style=${{background: colour(TINTS[index % TINTS.length])}} /><b class="ordinal">${letterAt(index)}</b> <a href=${link(['run', run.key])}>${run.run_id}</a></td><td><${StateBadge} state=${run.state} /></td>
        <td class="wide muted">${run.command}</td><td class="right middle">${formatted(run.completions)}</td><td class="right">${formatted(run.pass_rate, 'share')}</td><td class="right">${rewardText(run.reward)}</td></tr>`)}</tbody></table></div></div>
    <${ComparedCharts} runs=${runs} curves=${data.curves} reports=${data.reports} query=${query} />
    <${ComparedOptions} runs=${runs} reports=${data.reports} />
    <div class="filters" role="search" aria-label="Filter problems"><${SearchField} value=${query.search} label="Search problems" placeholder="problem" onSearch=${(search) => change({search}, {replace: true})} />
      <div class="chips"><${Toggle} isOn=${asked.only === 'differ'} onClick=${() => change({only: asked.only === 'differ' ? 'all' : ''})}>different verdicts <small>${differ.toLocaleString('en')}</small><//></div>
      <p class="muted" role="status" id="count">${plural(data.total, 'problem')}</p></div>
    ${problems.length ? html`<${Grid} label="Problems" className="compared"><thead><tr><th scope="col">problem</th>
      ${runs.map((run, index) => html`<th scope="col"><b class="ordinal">${letterAt(index)}</b> ${run.run_id}</th>`)}</tr></thead>
      <tbody>${problems.map((problem) => html`<tr key=${problem.task_id}><th scope="row" class="name">${problem.task_id}${problem.same_problem === false && html`<small class="tag">the problem changed</small>`}</th>
        ${problem.cells.map((cell, index) => html`<td>${cell ? html`<${ComparedCell} cell=${cell} run=${runs[index]} name=${problem.task_id} />` : html`<span class="muted">not in this run</span>`}</td>`)}</tr>`)}</tbody><//>
      <${Pages} total=${data.total} offset=${offset} limit=${COMPARED_SHOWN} linkTo=${(to) => link(['compare'], {...query, offset: to || ''})} />`
    : html`<${Empty}>${asked.only === 'differ' && !asked.search ? 'No verdict differs.' : 'No problem matches the filters.'}<//>`}`;
}

// The comparison, with the document of each run for what is not compared problem by problem.
async function comparedRuns(source, keys, asked) {
  const found = await source.compare(keys, asked);
  return {...found, reports: await Promise.all(found.runs.map(({key}) => source.document(key)))};
}

function letterAt(index) { return String.fromCharCode(65 + index % 26); }

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

// Estimates of pass@k: of a whole run, or of the last evaluation of a training.
function comparedEstimates(reports) {
  const found = reports.map((report) => {
    const last = (report.evaluations || []).filter((each) => Object.keys(each.pass_at || {}).length).pop();
    return isTraining(report) ? (last ? last.pass_at : {}) : passAt(report);
  });
  const ks = [...new Set(found.flatMap((points) => Object.keys(points)))].sort((a, b) => a - b);
  return ks.flatMap((k) => found.flatMap((points, index) => points[k] ? [{label: `${letterAt(index)} pass@${k}`, tint: index, ...points[k]}] : []));
}

function ComparedCharts({runs, curves, reports, query}) {
  const names = Object.keys(curves || {}).filter((name) => curves[name].some((curve) => curve && curve.steps.length > 1));
  const chosen = names.includes(query.metric) ? query.metric : names.includes('reward/mean') ? 'reward/mean' : names[0];
  const lines = useMemo(() => chosen ? () => comparedCurves(runs, curves, chosen) : null, [runs, curves, chosen]);
  const points = useMemo(() => {
    const found = comparedEstimates(reports);
    return found.length ? () => estimates(found.map((point) => ({...point, tint: colour(TINTS[point.tint % TINTS.length])}))) : null;
  }, [reports]);
  if (!lines && !points) return null;
  const choose = html`<select aria-label="Metric" value=${chosen} onChange=${(event) => go(link(['compare'], {...query, metric: event.currentTarget.value}), {replace: true})}>
    ${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>`;
  return html`<section id="charts" class=${lines && points ? 'double' : lines ? 'single' : 'points'} aria-label="Charts">
    ${lines && html`<${ChartFigure} title="Curves" id="chart-compare" describe=${lines} control=${choose} />`}
    ${points && html`<${ChartFigure} title="pass@k" id="chart-pass" describe=${points} />`}</section>`;
}

function ComparedOptions({runs, reports}) {
  const text = (value) => value === undefined ? '–' : typeof value === 'string' ? value : JSON.stringify(value);
  const names = [...new Set(reports.flatMap((report) => Object.keys(report.options || {})))];
  const rows = names.map((name) => [name, ...reports.map((report) => text((report.options || {})[name]))]).filter(([, ...values]) => new Set(values).size > 1);
  if (!rows.length) return null;
  return html`<details class="panel"><summary>${plural(rows.length, 'option')} that differ${rows.length === 1 ? 's' : ''}</summary><div class="scroll" tabindex="0" role="region" aria-label="Options that differ">
    <${Table} label="Options that differ" head=${['option', ...runs.map((run, index) => `${letterAt(index)} ${run.run_id}`)]} rows=${rows} /></div></details>`;
}
