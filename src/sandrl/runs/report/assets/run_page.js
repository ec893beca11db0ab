// One run: what to look at first, its totals, its charts, and how it was made.
function RunHead({run, report, current}) {
  const {run_id, command, state, created_at, seconds, unscorable} = report.run;
  const tabs = [['', 'Overview'], ...report.cards || current === 'cards' ? [['cards', 'Cards']] : [], ['groups', 'Groups'], ['rows', 'Trajectories']];
  return html`<div class="page-head">
      <h1 tabindex="-1">${run_id}</h1><${StateBadge} state=${state} unscorable=${unscorable} />
      <p class="muted" id="subtitle">${command} · ${moment(created_at)} · ${duration(seconds)}</p>
    </div>
    <nav class="tabs" aria-label="Parts of the run">${tabs.map(([part, title]) => html`
      <a href=${link(['run', run, part].filter(Boolean))} aria-current=${part === current ? 'page' : undefined}>${title}</a>`)}</nav>`;
}

function IndexProgress({index}) {
  if (!index || index.is_complete !== false) return null;
  const share = index.total_bytes ? index.read_bytes / index.total_bytes : 0;
  return html`<div class="progress" role="status"><progress max="1" value=${share} aria-label="Reading the run" />
    <span class="muted">Reading the run: ${bytesText(index.read_bytes)} of ${bytesText(index.total_bytes)}; the values below count ${plural(index.rows, 'row')} so far.</span></div>`;
}

// A flag: what was seen, in which metrics and steps, against which threshold, and what to try.
function Flag({flag}) {
  const compared = flag.value === null ? '' : `: ${formatted(flag.value, flag.unit)}, threshold ${formatted(flag.threshold, flag.unit)}`;
  const steps = flag.first_step === flag.last_step ? `step ${stepText(flag.last_step)}` : `steps ${stepText(flag.first_step)} to ${stepText(flag.last_step)}`;
  return html`<div class="note"><b>${flag.name}: ${flag.message}</b><span class="measured">${flag.metrics.join(', ')}${compared}, ${steps}</span>
    <span>try: ${flag.hint.replaceAll('`', '')}</span></div>`;
}

function Notes({report}) {
  const {flags = [], notes = [], disagreements = []} = report;
  const failure = (report.jobs || []).map((job) => job.error).filter(Boolean).pop();
  if (!flags.length && !notes.length && !disagreements.length && !failure) return null;
  return html`<section id="notes" aria-label="Notes">
    ${failure && html`<p class="note bad"><b>The last job ended with an error</b>${failure}</p>`}
    ${flags.map((flag) => html`<${Flag} flag=${flag} />`)}${notes.map((note) => html`<p class="note">${note}</p>`)}
    ${disagreements.length > 0 && html`<div class="note"><b>The numbers of this run do not agree</b>${disagreements.join('; ')}</div>`}
  </section>`;
}

function Totals({report, counts}) {
  const {metrics} = report;
  const completions = Math.max(total(metrics, 'completions'), counts ? counts.trained : 0);
  const scored = total(metrics, 'scored'), passes = total(metrics, 'status/passed');
  const rate = scored ? passes / scored : null, reward = scored && metrics['reward/total'] ? total(metrics, 'reward/total') / scored : latest(metrics, 'reward/mean');
  const steps = metrics.completions ? metrics.completions.steps.length : 0;
  const points = passAt(report), heldOut = evaluationSeries(report).find(({label}) => /pass@1$/.test(label));
  const hours = (report.sandbox_seconds ?? total(metrics, 'aviato/sandbox_seconds')) / 3600, throughput = (report.throughput || {}).completions_per_second ?? null;
  const last = heldOut && heldOut.values.length - 1;
  const created = (report.sandboxes || {}).created ?? (metrics['aviato/sandboxes_created'] ? total(metrics, 'aviato/sandboxes_created') : null);
  return html`<section id="cards" aria-label="Totals">
    ${report.cards && report.run.measures_problems && html`<${SetTotals} set=${report.cards} />`}
    <${Stat} value=${formatted(completions)} label=${report.run.measures_problems ? 'runs' : 'completions'} />
    ${steps > 1 && html`<${Stat} value=${formatted(steps)} label="steps" />`}
    ${counts && counts.heldOut > 0 && html`<${Stat} value=${formatted(counts.heldOut)} label="held out" />`}
    ${!report.run.measures_problems && html`<${Stat} value=${formatted(rate, 'share')} label=${`passed (${formatted(passes)})`} /><${Stat} value=${formatted(reward)} label="mean reward" />`}
    ${!report.run.measures_problems && points[1] && html`<${Stat} value=${formatted(points[1].estimate, 'share')} label="pass@1" note=${intervalText(points[1]) && `95%: ${intervalText(points[1])}`} />`}
    ${heldOut && last >= 0 && html`<${Stat} value=${formatted(heldOut.values[last], 'share')} label=${heldOut.label.replace('held_out/', 'held-out ')}
      note=${heldOut.low && intervalText({low: heldOut.low[last], high: heldOut.high[last]}) && `95%: ${intervalText({low: heldOut.low[last], high: heldOut.high[last]})}`} />`}
    <${Stat} value=${formatted(total(metrics, 'unscorable'))} label="unscorable" />
    ${total(metrics, 'abstained') > 0 && html`<${Stat} value=${formatted(total(metrics, 'abstained'))} label="abstained" />`}
    <${Stat} value=${formatted(total(metrics, 'executions'))} label="executions" />
    <${Stat} value=${formatted(total(metrics, 'cache_hits'))} label="cache hits" />
    <${Stat} value=${formatted(created)} label="sandboxes" />
    ${hours > 0 && html`<${Stat} value=${hours < 0.1 ? formatted(3600 * hours, 'seconds') : hours.toFixed(2)} label=${hours < 0.1 ? 'sandbox time' : 'sandbox-hours'} />`}
    ${report.cost !== null && report.cost !== undefined && costText(report.cost) !== '–' && html`<${Stat} value=${costText(report.cost)} label="cost" />`}
    ${throughput !== null && html`<${Stat} value=${formatted(Number(throughput.toPrecision(3)))} label="completions per second" />`}
    <${Stat} value=${duration(report.run.seconds)} label="working time" />
  </section>`;
}

function RunCharts({report, query, run}) {
  const isOverSteps = isTraining(report), names = metricNames(report);
  const chosen = names.includes(query.metric) ? query.metric : names.includes('loss') ? 'loss' : names[0];
  // That a cheat passes is not a success.
  const points = report.run.measures_problems ? {} : passAt(report), has = (test, make) => useMemo(() => test ? () => make(report) : null, [report, test, chosen]);
  const reward = has(isOverSteps, rewardChart), passes = has(Object.keys(points).length > 0, () => passAtChart(points));
  const evaluations = has(evaluationSeries(report).length > 0, evaluationsChart), statuses = has(!report.run.measures_problems && hasStatuses(report), statusChart);
  const seconds = has(hasSeconds(report), secondsChart), throughput = has(hasThroughput(report), throughputChart);
  const sandboxes = has(isOverSteps && Boolean(report.metrics['aviato/sandboxes_created']), sandboxChart);
  const metric = has(isOverSteps && Boolean(chosen), () => metricChart(report, chosen));
  const choose = html`<select aria-label="Metric" value=${chosen} onChange=${(event) => go(link(['run', run], {...query, metric: event.currentTarget.value}), {replace: true})}>
    ${names.map((name) => html`<option value=${name}>${name}</option>`)}</select>`;
  const meaning = metric && report.metrics[chosen].meaning;
  return html`<section id="charts" aria-label="Charts">
    ${reward && html`<${ChartFigure} title="Reward and pass rate" id="chart-reward" describe=${reward} />`}
    ${passes && html`<${ChartFigure} title="pass@k" id="chart-pass" describe=${passes} />`}
    ${evaluations && html`<${ChartFigure} title="Evaluations" id="chart-evaluations" describe=${evaluations} />`}
    ${statuses && html`<${ChartFigure} title="Statuses" id="chart-status" describe=${statuses} />`}
    ${throughput && html`<${ChartFigure} title="Throughput" id="chart-throughput" describe=${throughput} />`}
    ${sandboxes && html`<${ChartFigure} title="Sandboxes" id="chart-sandboxes" describe=${sandboxes} />`}
    ${seconds && html`<${ChartFigure} title="Seconds" id="chart-latency" describe=${seconds} />`}
    ${metric && html`<${ChartFigure} title="Metric" id="chart-metric" describe=${metric} control=${choose} note=${meaning} />`}
  </section>`;
}

function Settings({report}) {
  const text = (value) => typeof value === 'string' ? value : JSON.stringify(value);
  const jobs = (report.jobs || []).map((job) => [
    job.job_id, moment(job.started_at), job.finished_at ? moment(job.finished_at) : '–', job.outcome || (report.run.state === 'running' ? 'running' : 'killed'),
    Object.entries(job.versions || {}).map(([name, version]) => `${name} ${version}`).join(', '),
  ]);
  return html`<${Section} title="Configuration" id="config-title"><div id="config" class="scroll" tabindex="0" role="region" aria-label="Configuration">
      <${Table} head=${['option', 'value']} rows=${Object.entries(report.options || {}).map(([name, value]) => [name, text(value)])} label="Configuration" /></div><//>
    <${Section} title="Environment" id="jobs-title"><div id="jobs" class="scroll" tabindex="0" role="region" aria-label="Environment">
      <${Table} head=${['job', 'started', 'ended', 'outcome', 'versions']} rows=${jobs} label="Jobs" /></div><//>`;
}

function RunPage({source, run, query}) {
  const {data, error} = useData(async () => {
    const report = await source.document(run);
    const [trained, heldOut] = await Promise.all(['0', '1'].map((held_out) => source.rows(run, {held_out, limit: 1})));
    return {report, counts: {trained: trained.total, heldOut: heldOut.total}};
  }, [source, run], source, [run]);
  if (!data) return html`<${Pending} error=${error} />`;
  const {report, counts} = data;
  return html`<${RunHead} run=${run} report=${report} current="" />
    ${error && html`<p class="note" role="alert">${error.message}</p>`}
    <${IndexProgress} index=${report.index} /><${Notes} report=${report} /><${Totals} report=${report} counts=${counts} />
    <${RunCharts} report=${report} query=${query} run=${run} /><${Settings} report=${report} />
    <footer class="muted"><p id="made">${report.run.made_at ? `Made by sandrl at ${moment(report.run.made_at)} from the run's own files.` : ''}</p></footer>`;
}
