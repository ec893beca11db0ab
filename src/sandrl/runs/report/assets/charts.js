// A chart is drawn by the library from a description, and has its numbers as a table, too, for those who do not see it.
function ChartFigure({title, id, describe, control, note}) {
  const canvas = useRef(null), chart = useRef(null);
  const dark = useTheme();
  const described = useMemo(describe, [describe, dark]);
  useEffect(() => {
    const config = themed(described.config);
    if (chart.current && chart.current.config.type === config.type) {
      chart.current.data = config.data;
      chart.current.options = config.options;
      chart.current.update('none');
    } else {
      if (chart.current) chart.current.destroy();
      chart.current = new Chart(canvas.current, config);
    }
  }, [described]);
  useEffect(() => () => { if (chart.current) chart.current.destroy(); }, []);
  return html`<figure aria-label=${title}>
    <figcaption>${title}${control}</figcaption>
    ${note && html`<p class="muted small">${note}</p>`}
    <div class="plot"><canvas id=${id} ref=${canvas} role="img" aria-label=${`${title}; the numbers follow as a table`} /></div>
    <${FoldedTable} head=${described.head} rows=${described.rows} label=${title} />
  </figure>`;
}

function themed(config) {
  const [ink, line, card] = [colour('soft'), colour('line'), colour('card')];
  const font = {family: getComputedStyle(document.body).fontFamily, size: 11};
  const axis = (extra = {}) => ({
    grid: {color: line, drawTicks: false}, border: {display: false}, ...extra,
    title: {color: ink, font, ...extra.title}, ticks: {color: ink, font, maxRotation: 0, padding: 6, ...extra.ticks},
  });
  const {scales = {}, plugins = {}, ...options} = config.options || {};
  const isOwn = (item) => !item.text.startsWith('_');
  return {...config, options: {
    responsive: true, maintainAspectRatio: false, animation: false, interaction: {mode: 'index', intersect: false},
    plugins: {
      legend: {labels: {color: ink, font, boxWidth: 8, boxHeight: 8, usePointStyle: true, pointStyle: 'circle', filter: isOwn}, position: 'bottom', align: 'start'},
      tooltip: {
        backgroundColor: colour('ink'), titleColor: card, bodyColor: card, titleFont: font, bodyFont: font, padding: 8, boxPadding: 4, usePointStyle: true,
        filter: (item) => !item.dataset.label.startsWith('_'),
      },
      ...plugins,
    },
    scales: {x: axis({...scales.x, ticks: {autoSkipPadding: 14, ...(scales.x || {}).ticks}, grid: {display: false}}), y: axis({beginAtZero: true, ...scales.y})}, ...options,
  }};
}

function shareAxis(extra) { return {suggestedMax: 1, ticks: {callback: (value) => `${Math.round(100 * value)}%`}, ...extra}; }

// Lines over steps; where a series has bounds, its interval is a band around it.
function linesOver(series, options, firstStep = 1) {
  const steps = [...new Set(series.flatMap((each) => each.steps))].sort((a, b) => a - b);
  const at = (each, values) => {
    const known = new Map(each.steps.map((step, index) => [step, values[index]]));
    return steps.map((step) => known.has(step) ? known.get(step) : null);
  };
  const datasets = [], head = ['step'], columns = [];
  for (const each of series) {
    const values = at(each, each.values), radius = values.filter((value) => value !== null).length > 60 ? 0 : 2.5;
    datasets.push({
      label: each.label, data: values, borderColor: each.tint, backgroundColor: each.tint, borderWidth: 2, borderDash: each.dash,
      pointRadius: radius, pointHoverRadius: 4, tension: 0, spanGaps: true, order: 0,
    });
    head.push(each.label);
    columns.push(values.map((value) => formatted(value, each.unit)));
    if (each.low && each.high) {
      const [low, high] = [at(each, each.low), at(each, each.high)];
      const edge = {borderWidth: 0, pointRadius: 0, pointHoverRadius: 0, spanGaps: true, order: 1};
      datasets.push({...edge, label: '_low', data: low, fill: false});
      datasets.push({...edge, label: '_high', data: high, fill: '-1', backgroundColor: faded(each.tint, 0.18)});
      head.push('95% interval');
      columns.push(low.map((value, index) => intervalText({low: value, high: high[index]}) || '–'));
    }
  }
  return {
    config: {type: 'line', data: {labels: steps.map((step) => step + firstStep), datasets}, options},
    head, rows: steps.map((step, row) => [step + firstStep, ...columns.map((column) => column[row])]),
  };
}

function metricSeries(metrics, name, tint, extra = {}) {
  const {steps, values, unit} = metrics[name];
  const bound = (end) => {
    const known = metrics[name + end];
    return known && steps.map((step) => { const at = known.steps.indexOf(step); return at < 0 ? null : known.values[at]; });
  };
  return {label: name, steps, values, unit, tint, low: bound('_low'), high: bound('_high'), ...extra};
}

// Estimates side by side, each with its interval as a bar through its point.
function estimates(points) {
  const tints = points.map(({tint}) => tint || colour('accent'));
  return {
    config: {
      data: {labels: points.map(({label}) => label), datasets: [
        {type: 'line', label: 'estimate', data: points.map(({estimate}) => estimate), showLine: false, pointRadius: 5, pointHoverRadius: 6, borderColor: tints, backgroundColor: tints, order: 0},
        {type: 'bar', label: '95% interval', data: points.map(({low, high}) => [low, high]), backgroundColor: tints.map((tint) => faded(tint, 0.35)), barThickness: 7, borderRadius: 3, borderSkipped: false, order: 1},
      ]},
      type: 'bar',
      options: {scales: {y: shareAxis({max: 1}), x: {offset: true}}, plugins: {tooltip: {callbacks: {label: ({dataset, raw}) =>
        `${dataset.label}: ${Array.isArray(raw) ? intervalText({low: raw[0], high: raw[1]}) : formatted(raw, 'share')}`}}}},
    },
    head: ['', 'estimate', '95% interval', 'problems'],
    rows: points.map((point) => [point.label, formatted(point.estimate, 'share'), intervalText(point), formatted(point.problems)]),
  };
}
