// What is drawn of a run, from its metrics.
const PARTS = ['startup', 'queue', 'exec', 'judge'];
const PERCENTILES = ['p50', 'p95', 'p99'];
const TINTS = ['accent', 'passed', 'timeout', 'resource_limit', 'crashed', 'unscorable'];

function total(metrics, name) {
  return metrics[name] ? metrics[name].values.reduce((sum, value) => sum + (value || 0), 0) : 0;
}

function latest(metrics, name) {
  const values = metrics[name] ? metrics[name].values.filter((value) => value !== null) : [];
  return values.length ? values[values.length - 1] : null;
}

// The estimates of pass@k of a whole run: its own, or those of its only step.
function passAt(report) {
  // Over the steps of a training, the policy changes: its evaluations say more.
  if (isTraining(report)) return {};
  const own = report.pass_at || {};
  if (Object.keys(own).length) return own;
  const found = {};
  for (const name of Object.keys(report.metrics)) {
    const k = /^pass@(\d+)$/.exec(name);
    if (k) found[k[1]] = {estimate: latest(report.metrics, name), low: latest(report.metrics, `${name}_low`), high: latest(report.metrics, `${name}_high`), problems: null};
  }
  return found;
}

function isTraining(report) { return Math.max(0, ...Object.values(report.metrics).map(({steps}) => steps.length)) > 1; }

function passAtChart(points) {
  return estimates(Object.keys(points).sort((a, b) => a - b).map((k) => ({label: `pass@${k}`, ...points[k]})));
}

// Evaluations of the policy: pass@k after each number of steps.
function evaluationSeries(report) {
  const evaluations = report.evaluations || [];
  const series = [];
  if (evaluations.length) {
    const kinds = [...new Set(evaluations.map((each) => each.is_held_out))];
    for (const isHeldOut of kinds) {
      const own = evaluations.filter((each) => each.is_held_out === isHeldOut);
      const ks = [...new Set(own.flatMap((each) => Object.keys(each.pass_at || {})))].sort((a, b) => a - b);
      for (const k of ks) {
        const having = own.filter((each) => each.pass_at[k]);
        series.push({label: `${isHeldOut ? 'held-out ' : ''}pass@${k}`, unit: 'share', steps: having.map((each) => each.step),
          values: having.map((each) => each.pass_at[k].estimate), low: having.map((each) => each.pass_at[k].low), high: having.map((each) => each.pass_at[k].high)});
      }
    }
  }
  if (!series.length) {
    for (const name of Object.keys(report.metrics)) if (/^held_out\/pass@\d+$/.test(name)) series.push(metricSeries(report.metrics, name));
  }
  if (report.metrics['held_out/greedy']) series.push(metricSeries(report.metrics, 'held_out/greedy', undefined, {label: 'held-out greedy'}));
  return series;
}

function evaluationsChart(report) {
  const series = evaluationSeries(report).map((each, index) => ({...each, tint: colour(TINTS[index % TINTS.length])}));
  const chart = linesOver(series, {scales: {y: shareAxis(), x: {title: {display: true, text: 'training steps of the policy'}}}}, 0);
  chart.head[0] = 'after steps';
  return chart;
}

function rewardChart({metrics}) {
  const wanted = [['reward/mean', 'accent'], ['pass_rate', 'passed', {dash: [5, 3]}], ['held_out/pass@1', 'timeout'], ['held_out/pass_rate', 'timeout']];
  const has = wanted.filter(([name]) => metrics[name] && !(name === 'held_out/pass_rate' && metrics['held_out/pass@1']));
  return linesOver(has.map(([name, tint, extra]) => metricSeries(metrics, name, colour(tint), extra)), {scales: {y: {suggestedMax: 1}}});
}

function statusChart({metrics}) {
  const counts = new Map();
  for (const [name, {steps, values}] of Object.entries(metrics)) {
    if (!name.startsWith('status/')) continue;
    const kind = kindOf({status: name.slice(7)});
    if (!counts.has(kind)) counts.set(kind, new Map());
    steps.forEach((step, index) => counts.get(kind).set(step, (counts.get(kind).get(step) || 0) + (values[index] || 0)));
  }
  const steps = [...new Set([...counts.values()].flatMap((each) => [...each.keys()]))].sort((a, b) => a - b);
  const kinds = KINDS.filter((kind) => counts.has(kind) && [...counts.get(kind).values()].some(Boolean));
  const isSingle = steps.length === 1;
  const datasets = kinds.map((kind) => ({
    label: kind, data: steps.map((step) => counts.get(kind).get(step) || 0), backgroundColor: colour(kind),
    categoryPercentage: isSingle ? 0.45 : 0.92, barPercentage: 1,
  }));
  const options = {indexAxis: isSingle ? 'y' : 'x', scales: {x: {stacked: true}, y: {stacked: true, ...(isSingle ? {ticks: {display: false}} : {})}}};
  return {
    config: {type: 'bar', data: {labels: isSingle ? ['all'] : steps.map((step) => step + 1), datasets}, options},
    head: [isSingle ? '' : 'step', ...kinds],
    rows: steps.map((step, index) => [isSingle ? 'all' : step + 1, ...datasets.map((set) => set.data[index].toLocaleString('en'))]),
  };
}

function hasStatuses({metrics}) { return Object.keys(metrics).some((name) => name.startsWith('status/')); }
function hasSeconds({metrics}) { return PARTS.some((part) => metrics[`aviato/${part}_seconds_p50`]); }

function secondsChart(report) {
  const {metrics} = report, isOverSteps = isTraining(report);
  const present = PARTS.filter((part) => metrics[`aviato/${part}_seconds_p50`]);
  const value = (part, percentile) => latest(metrics, `aviato/${part}_seconds_${percentile}`);
  const head = [isOverSteps ? 'last step' : 'part', ...PERCENTILES];
  const rows = present.map((part) => [part, ...PERCENTILES.map((percentile) => formatted(value(part, percentile), 'seconds'))]);
  const isRound = (tick) => /^[125]/.test(String(tick / 10 ** Math.floor(Math.log10(tick))));
  const y = {type: 'logarithmic', beginAtZero: false, title: {display: true, text: 'seconds (log)'}, ticks: {callback: (tick) => isRound(tick) ? tick : ''}};
  if (isOverSteps) {
    const series = present.map((part, index) => {
      const made = metricSeries(metrics, `aviato/${part}_seconds_p95`, colour(TINTS[index]), {label: `${part} p95`});
      return {...made, values: made.values.map((each) => each > 0 ? each : null)};
    });
    return {config: linesOver(series, {scales: {y}}).config, head, rows};
  }
  const datasets = PERCENTILES.map((percentile, index) => ({
    label: percentile, data: present.map((part) => value(part, percentile) || null), backgroundColor: colour(TINTS[index]), maxBarThickness: 22, borderRadius: 3,
  }));
  return {config: {type: 'bar', data: {labels: present, datasets}, options: {scales: {y}}}, head, rows};
}

// Completions per second: of each step, or where no steps were timed over the seconds since the first completion.
function hasThroughput({throughput}) { return Boolean(throughput && throughput.at && throughput.at.length > 1); }

function throughputChart({throughput: {over, at, values}}) {
  const series = {label: 'completions per second', steps: at, values, tint: colour('accent')};
  if (over === 'steps') return linesOver([series], {});
  const chart = linesOver([{...series, steps: at.map((second) => Number(second.toPrecision(3)))}], {scales: {x: {title: {display: true, text: 'seconds since the first completion'}}}}, 0);
  chart.head[0] = 'second';
  return chart;
}

const SANDBOX_SERIES = ['aviato/sandboxes_created', 'aviato/executions', 'aviato/exec_errors'];
function sandboxChart({metrics}) {
  const present = SANDBOX_SERIES.filter((name) => metrics[name]);
  return linesOver(present.map((name, index) => metricSeries(metrics, name, colour(['accent', 'passed', 'failed'][index]), {label: name.slice(7)})), {});
}

function metricChart({metrics}, name) {
  return linesOver([metricSeries(metrics, name, colour('accent'))], {scales: {y: {beginAtZero: false}}});
}

function metricNames({metrics}) { return Object.keys(metrics).filter((name) => metrics[name].steps.length > 1 && !isBound(name)); }
