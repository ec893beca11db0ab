// One trajectory, all of it: what was asked, what came, and why it has its verdict.

// The arguments of a call by name, if all of them are texts: code in JSON is no code that anyone can read.
function textsOf(written) {
  try {
    const values = JSON.parse(written);
    const named = values && typeof values === 'object' && !Array.isArray(values) ? Object.entries(values) : [];
    if (named.length && named.every(([, value]) => typeof value === 'string')) return named;
  } catch { /* not JSON: shown as it is */ }
  return [['', written]];
}

// What a failed completion does in plain Python, in one process.
function opinionWords({status, detail}) {
  if (status === 'passed') return 'passes in one process';
  const words = status === 'infrastructure' ? 'not available' : `also ${status} in one process`;
  return detail ? `${words}: ${detail}` : words;
}

function factsOf(row) {
  const facts = [['reward', rewardText(row.reward)], ['checks', `${row.passed || 0} of ${row.total || 0}`], ['time', formatted(row.duration_seconds, 'seconds')]];
  if (row.step !== undefined && row.step !== null) facts.unshift(['step', stepText(row.step)]);
  if (row.held_out) facts.push(['kind', row.greedy ? 'held out, greedy' : 'held out']);
  facts.push(['trust', row.trust || '–']);
  if (row.isolation) facts.push(['isolation', row.isolation]);
  for (const [part, seconds] of Object.entries(row.timing || {})) facts.push([part, formatted(seconds, 'seconds')]);
  if (row.compile_seconds) facts.push(['compile', formatted(row.compile_seconds, 'seconds')]);
  for (const [part, count] of Object.entries(row.tokens || {})) facts.push([`${part} tokens`, formatted(count)]);
  for (const [name, value] of Object.entries(row.scores || {})) facts.push([name, formatted(value)]);
  for (const [name, value] of Object.entries(row.components || {})) facts.push([name, `${value >= 0 ? '+' : ''}${formatted(value)}`]);
  for (const [name, value] of Object.entries(row.episode || {})) if (name !== 'agent_output') facts.push([name.replaceAll('_', ' '), typeof value === 'object' ? JSON.stringify(value) : String(value)]);
  if (row.finish_reason) facts.push(['answer ended', row.cut_off ? `${row.finish_reason}: cut off at the token limit` : row.finish_reason]);
  if (row.cached) facts.push(['verdict', 'from an identical completion']);
  for (const name of ['retries', 'reruns', 'canaries']) if (row[name]) facts.push([name, formatted(row[name])]);
  if (row.sandbox_id) facts.push(['sandbox', row.sandbox_id]);
  return facts;
}

function Message({message, number}) {
  const {role, name, content = '', reasoning = '', tool_calls = [], finish_reason, seconds, is_given} = message;
  const facts = [is_given && 'said elsewhere', finish_reason, typeof seconds === 'number' && formatted(seconds, 'seconds')].filter(Boolean).join(' · ');
  return html`<li class=${['system', 'user', 'assistant', 'tool'].includes(role) ? `message ${role}` : 'message'}>
    <h3>${name ? `${role}: ${name}` : role}${facts && html`<span class="muted"> ${facts}</span>`}</h3>
    ${reasoning && html`<details class="folded"><summary>Reasoning</summary><${Text} text=${reasoning} label=${`Message ${number}: reasoning`} /></details>`}
    ${(content || !tool_calls.length) && html`<${Text} text=${content} label=${`Message ${number}`} />`}
    ${tool_calls.map((call) => textsOf(call.arguments || '').map(([argument, text]) => html`
      <h3>calls ${call.name}${argument && argument !== 'code' ? `, ${argument}` : ''}</h3><${Code} code=${text} label=${`Message ${number}: call of ${call.name}`} />`))}</li>`;
}

function Output({row}) {
  const texts = [['agent', (row.episode || {}).agent_output], ['stdout', row.stdout], ['stderr', row.stderr]].filter(([, text]) => text);
  if (!texts.length && !row.truncated) return null;
  return html`<${Section} title="Output" id="output-title">
    ${texts.map(([name, text]) => html`<h3>${name}</h3><${Text} text=${String(text)} label=${name} />`)}
    ${row.truncated && html`<p class="muted small">The output was longer than the stored part.</p>`}<//>`;
}

function Prompt({problem}) {
  if (!problem || !problem.prompt) return null;
  return html`<${Section} title="Prompt" id="prompt-title" aside=${html`<span class="muted">${problem.language}</span>`}><${Text} text=${problem.prompt} label="Prompt" />
    ${problem.setup && html`<details class="folded"><summary>Code that the checks need</summary><${Code} code=${problem.setup} label="Code that the checks need" /></details>`}
    ${problem.truncated && html`<p class="muted small">A part of the problem is left out, because it is long.</p>`}<//>`;
}

// The way to the neighbours: those of the list that the reader came from, where its rows are here.
function Neighbours({row, run, query, source}) {
  const filters = filtersOf(query);
  const [found, setFound] = useState(null);
  const near = found && found.key === row.key ? found : row;
  useEffect(() => {
    let isOver = false;
    const known = places.get(`${run} ${JSON.stringify(filters)}`);
    if (!known || !Object.keys(filters).length) return undefined;
    const offset = Math.max(known.selected - 1, 0);
    source.rows(run, {...filters, offset, limit: 3}).then(({rows}) => {
      const at = rows.findIndex(({key}) => key === row.key);
      if (!isOver && at >= 0) setFound({key: row.key, previous: at > 0 ? rows[at - 1].key : null, next: at + 1 < rows.length ? rows[at + 1].key : null});
    }, () => {});
    return () => { isOver = true; };
  }, [row.key]);
  const move = (key, by) => {
    const known = places.get(`${run} ${JSON.stringify(filters)}`);
    if (known) places.set(`${run} ${JSON.stringify(filters)}`, {...known, selected: Math.max(known.selected + by, 0)});
    go(link(['run', run, 't', key], query), {replace: true});
  };
  const step = (name, by) => () => near[name] !== null && near[name] !== undefined && move(near[name], by);
  const [back, forth] = [step('previous', -1), step('next', 1)];
  useKeys({ArrowLeft: back, k: back, ArrowRight: forth, j: forth, Escape: () => goBack(link(['run', run, 'rows'], filters))}, [near]);
  const button = (name, act, words) => html`<button type="button" onClick=${act} disabled=${near[name] === null || near[name] === undefined}>${words}</button>`;
  return html`<nav class="neighbours" aria-label="Previous and next trajectory"><a class="button" href=${link(['run', run, 'rows'], filters)}>All trajectories</a>
    ${button('previous', back, '← Previous')}${button('next', forth, 'Next →')}</nav>`;
}

function TrajectoryPage({source, run, rowKey, query}) {
  const {data: row, error} = useData(() => source.trajectory(run, rowKey), [source, run, rowKey], source, [run]);
  if (!row) return html`<${Pending} error=${error} />`;
  const messages = row.messages || [], hasCompletion = row.completion !== undefined && row.completion !== null && row.completion !== row.code && !messages.length;
  return html`<article id="detail" class="trajectory" aria-label="Trajectory">
    <div class="page-head"><h1 tabindex="-1" key=${row.key}>${row.task_id}</h1><${StatusBadge} row=${row} />
      <p class="muted">${row.index}: ${row.id}</p><${Neighbours} row=${row} run=${run} query=${query} source=${source} /></div>
    <dl class="facts">${factsOf(row).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${row.detail && html`<p class=${'verdict ' + kindOf(row)}><b>Verdict</b> ${row.detail}</p>`}
    ${row.second_opinion && html`<p class="verdict"><b>Second opinion</b> ${opinionWords(row.second_opinion)}</p>`}
    <div class="columns"><div class="column"><${Checks} row=${row} key=${row.key} /><${Output} row=${row} />
      ${(row.failures || []).length > 0 && html`<${Section} title="Sandbox failures" id="failures-title"><${Text} text=${row.failures.join('\n')} label="Sandbox failures" /><//>`}
      ${messages.length > 0 && html`<${Section} title="Messages" id="messages-title"><ol class="messages">${messages.map((message, index) => html`<${Message} message=${message} number=${index + 1} />`)}</ol><//>`}
      ${(row.branches || []).map((branch, place) => html`<${Section} title=${`Branch ${place + 1}`} id=${`branch-${place + 1}-title`} aside=${html`<span class="muted">another conversation of the agent</span>`}>
        <ol class="messages">${(branch.messages || []).map((message, index) => html`<${Message} message=${message} number=${`${index + 1} of branch ${place + 1}`} />`)}</ol><//>`)}</div>
    <div class="column"><${Prompt} problem=${row.problem} />
      ${row.code !== undefined && row.code !== null && html`<${Section} title="Code" id="code-title"><${Code} code=${row.code} label="Code" /><//>`}
      ${row.reasoning && !messages.length && html`<${Section} title="Reasoning" id="reasoning-title"><${Text} text=${row.reasoning} label="Reasoning" /><//>`}
      ${hasCompletion && html`<${Section} title="Completion" id="completion-title"><${Text} text=${row.completion} label="Completion" /><//>`}</div></div>
  </article>`;
}
