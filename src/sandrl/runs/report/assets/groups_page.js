// Groups as GRPO compares them: the samples of a problem in each step, and which of them changed from step to step.
const GROUPS_SHOWN = 50;
const MOST_COLUMNS = 24;

function GroupsPage({source, run, query}) {
  const offset = Number(query.offset || 0);
  const asked = {task: query.task || '', flipped: query.flipped === '1' ? '1' : '', offset, limit: GROUPS_SHOWN};
  const {data, error} = useData(async () => {
    const [report, found] = await Promise.all([source.document(run), source.groups(run, asked)]);
    return {report, found};
  }, [source, run, asked.task, asked.flipped, offset], source, [run]);
  if (!data) return html`<${Pending} error=${error} />`;
  const {report, found: {total: count, steps, groups}} = data;
  const change = (changes, options) => go(link(['run', run, 'groups'], {...query, offset: '', ...changes}), options);
  const kinds = KINDS.filter((kind) => groups.some((group) => group.cells.some((cell) => cell.samples.some(([, status, reward]) => kindOf({status, reward}) === kind))));
  const isMatrix = steps.length > 1 && steps.length <= MOST_COLUMNS;
  return html`<${RunHead} run=${run} report=${report} current="groups" /><${IndexProgress} index=${report.index} />
    <div class="filters" role="search" aria-label="Filter groups">
      <${SearchField} value=${query.task} label="Search problems" placeholder="problem" onSearch=${(task) => change({task}, {replace: true})} />
      ${steps.length > 1 && html`<div class="chips"><${Toggle} isOn=${query.flipped === '1'} onClick=${() => change({flipped: query.flipped === '1' ? '' : '1'})}>flipped only<//></div>`}
      <p class="muted" role="status" id="count">${plural(count, 'problem')}</p>
    </div>
    <ul class="legend" aria-label="Statuses">${kinds.map((kind) => html`<li><${Swatch} kind=${kind} letter=${LETTERS[kind] || '?'} />${kind}</li>`)}
      <li><span class="flat-mark" aria-hidden="true">=</span>all rewards equal: no gradient</li>
      ${steps.length > 1 && html`<li><span class="cell flipped sample" aria-hidden="true" />flipped: the sample passes and failed in the previous step of the problem, or the reverse</li>`}</ul>
    ${groups.length ? html`<${Grid} label="Groups" className=${isMatrix ? 'groups matrix' : 'groups'}><thead><tr><th scope="col" class="sticky">problem</th><th scope="col" class="right">reward</th>
        ${steps.length > 1 && html`<th scope="col" class="right">flips</th>`}
        ${isMatrix ? steps.map((step) => html`<th scope="col">step ${stepText(step)}</th>`) : html`<th scope="col">${steps.length > 1 ? 'samples by step' : 'samples'}</th>`}</tr></thead>
      <tbody>${groups.map((group) => html`<${Group} key=${group.task_id} group=${group} steps=${steps} run=${run} isMatrix=${isMatrix} />`)}</tbody><//>
      <${Pages} total=${count} offset=${offset} limit=${GROUPS_SHOWN} linkTo=${(to) => link(['run', run, 'groups'], {...query, offset: to || ''})} />`
    : html`<${Empty}>${query.task || query.flipped ? 'No problem matches the filters.' : 'There are no trajectories yet.'}<//>`}`;
}

function meanReward(cells) {
  const rewards = cells.flatMap((cell) => cell.samples.map((sample) => sample[2])).filter((reward) => reward !== null);
  return rewards.length ? rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length : null;
}

function Group({group, steps, run, isMatrix}) {
  const before = new Map(group.cells.map((cell, at) => [cell.step, group.cells[at - 1]]));
  const cell = (each) => html`<${GroupCell} key=${each.step} cell=${each} before=${before.get(each.step)} name=${group.task_id} run=${run} />`;
  const at = new Map(group.cells.map((each) => [each.step, each]));
  return html`<tr class="group"><th scope="row" class="sticky name"><a href=${link(['run', run, 'rows'], {task: group.task_id})}>${group.task_id}</a></th>
    <td class="right">${rewardText(meanReward(group.cells))}</td>${steps.length > 1 && html`<td class="right">${group.flips || html`<span class="muted">0</span>`}</td>`}
    ${isMatrix ? steps.map((step) => html`<td>${at.has(step) && cell(at.get(step))}</td>`)
    : html`<td><div class="blocks">${group.cells_left_out > 0 && html`<small class="muted">${plural(group.cells_left_out, 'earlier step')} left out</small>`}${group.cells.map((each) => html`<div class="block">${steps.length > 1 && html`<small class="muted">${stepText(each.step)}</small>`}${cell(each)}</div>`)}</div></td>`}</tr>`;
}

function GroupCell({cell, before, name, run}) {
  const rewards = cell.samples.map((sample) => sample[2]).filter((reward) => reward !== null);
  const isFlat = rewards.length > 1 && rewards.every((reward) => reward === rewards[0]);
  const flipped = flippedSamples(before, cell);
  return html`<div class=${isFlat ? 'cells flat' : 'cells'}>${cell.samples.map(([key, status, reward], index) => {
    const label = `${name}, step ${stepText(cell.step)}, sample ${index + 1}: ${status}, reward ${rewardText(reward)}${flipped.has(index) ? ', flipped' : ''}`;
    return html`<a class=${`cell ${kindOf({status, reward})}${flipped.has(index) ? ' flipped' : ''}`} href=${link(['run', run, 't', key])} aria-label=${label} title=${label}>${letterOf({status, reward})}</a>`;
  })}${isFlat && html`<span class="flat-mark" title="no variance: all rewards are equal">=</span>`}</div>`;
}
