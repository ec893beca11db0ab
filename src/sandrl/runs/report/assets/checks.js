// The checks of a completion: what each asks, what came of it, and where it failed.
const CHECKS = {
  passed: ['P', 'passed'], failed: ['F', 'failed'], timeout: ['T', 'timed out'],
  not_reached: ['–', 'not reached'], not_run: ['–', 'not run'], uncounted: ['–', 'passed, but not counted'],
  invalid: ['!', 'the checker failed'], unknown: ['–', 'verdict not stored'],
};
const CHECK_KINDS = {passed: 'passed', failed: 'failed', timeout: 'timeout', invalid: 'unscorable'};

// Verdicts with what the problem says of the same check.
function mergedChecks(row) {
  const verdicts = row.checks || [], asked = (row.problem && row.problem.checks) || [];
  const count = Math.max(verdicts.length, asked.length);
  return Array.from({length: count}, (_, index) => {
    const [verdict, check] = [verdicts[index] || {status: verdicts.length ? 'not_run' : 'unknown'}, asked[index] || {}];
    return {
      ...check, ...verdict, number: index + 1, name: verdict.name || check.name || '', source: check.source || '', stdin: check.stdin ?? null,
      expected: verdict.expected ?? check.expected ?? null, got: verdict.got ?? null, is_hidden: check.is_hidden === undefined ? false : check.is_hidden, isKnown: index in asked,
    };
  });
}

// Neighbours of which the same is to be said share a line: a problem may have a thousand checks.
function checkRuns(checks) {
  const runs = [];
  for (const check of checks) {
    const last = runs[runs.length - 1], same = last && last[0];
    const isAlike = same && ['status', 'detail', 'is_hidden', 'isKnown', 'got', 'score'].every((name) => (same[name] ?? '') === (check[name] ?? ''));
    if (isAlike && check.got === null && (check.status !== 'failed' || !check.isKnown)) last.push(check); else runs.push([check]);
  }
  return runs;
}

function CheckBody({check}) {
  const name = `Check ${check.number}`, isFailed = check.status === 'failed' || check.status === 'timeout';
  const {source, stdin, expected, got, line} = check;
  return html`<div class="check-body">
    ${source && html`<h3>${stdin === null ? 'Check' : 'Call'}${line ? html`<span class="muted">, failed in line ${line}</span>` : ''}</h3><${NumberedCode} code=${source} marked=${line} label=${`${name}: source`} />`}
    ${stdin !== null && html`<h3>Input</h3><${Text} text=${stdin} label=${`${name}: input`} />`}
    ${isFailed && expected !== null && got !== null ? html`<h3>Expected and actual</h3><${Difference} expected=${expected} got=${got} name=${name} />` : html`
      ${expected !== null && html`<h3>Expected</h3><${Text} text=${expected} label=${`${name}: expected`} />`}
      ${got !== null && html`<h3>Actual</h3><${Text} text=${got} label=${`${name}: actual`} />`}`}
    ${check.truncated && html`<p class="muted small">A part of this check is left out, because it is long.</p>`}</div>`;
}

function CheckLine({checks}) {
  const [first, last] = [checks[0], checks[checks.length - 1]];
  const [letter, words] = CHECKS[first.status] || ['?', first.status];
  const number = first === last ? `${first.number}` : `${first.number}–${last.number}`;
  const names = first === last && first.name ? ` ${first.name}` : '';
  const score = first.score === null || first.score === undefined ? '' : `, score ${formatted(first.score)}`;
  return html`<${Swatch} kind=${CHECK_KINDS[first.status] || 'no_code'} letter=${letter} /><span class="check-words"><b>${number}${names}</b> ${words}${score}${first.detail ? `: ${first.detail}` : ''}</span>
    ${first.is_hidden && first.isKnown && html`<span class="tag">not in the prompt</span>`}`;
}

function CheckRun({checks, isOpen}) {
  const [open, setOpen] = useState(isOpen);
  const hasBody = checks.some((check) => check.source || check.stdin !== null || check.expected !== null || check.got !== null);
  if (!hasBody) return html`<li class="check plain"><${CheckLine} checks=${checks} /></li>`;
  return html`<li class="check"><details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary><${CheckLine} checks=${checks} /></summary>
    ${open && (checks.length === 1 ? html`<${CheckBody} check=${checks[0]} />`
    : html`<ul class="checks inner">${checks.map((check) => html`<${CheckRun} key=${check.number} checks=${[check]} isOpen=${false} />`)}</ul>`)}</details></li>`;
}

function Checks({row}) {
  const checks = mergedChecks(row), runs = checkRuns(checks);
  const opened = runs.findIndex(([check]) => check.status === 'failed' || check.status === 'timeout' || check.status === 'invalid');
  const left = ((row.problem && row.problem.check_count) || 0) - checks.length;
  if (!checks.length) return null;
  return html`<${Section} title="Checks" id="checks-title" aside=${html`<span class="muted">${row.passed || 0} of ${row.total || 0} passed</span>`}>
    <ul class="checks">${runs.map((run, index) => html`<${CheckRun} key=${run[0].number} checks=${run} isOpen=${index === opened} />`)}</ul>
    ${left > 0 && html`<p class="muted small">${plural(left, 'further check')} ${left === 1 ? 'is' : 'are'} not stored in the run.</p>`}<//>`;
}
