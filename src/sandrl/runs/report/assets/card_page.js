// The card of one problem: each part of its quality, what it means, and the runs behind it.
const SETTINGS = {
  end_processes: 'the processes of the agent are ended before the verifier starts', separate: 'the verifier runs in a fresh machine with the whole state (--verifier separate)',
  artifacts: 'the verifier runs in an untouched image that has nothing of the agent but its artifacts',
};

function quoted(text) { return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`; }

// What was measured of each part, as a sentence.
const FINDINGS = {
  oracle: ({oracle, oracle_passes, oracle_runs}, {solution}) => `The ${solution} earned 1 in ${oracle_passes} of ${plural(oracle_runs, 'run')}${oracle_passes < oracle_runs && oracle !== null ? `, ${rewardText(oracle)} on average` : ''}.`,
  nop: ({nop, nop_runs, stubs}) => stubs && stubs.length ? `The checks accept ${stubs.length === 1 ? 'this stub' : 'these stubs'}: ${stubs.join(', ')}.` : stubs ? 'The checks accept no stub.'
    : `An agent that does nothing earned ${nop > 0 ? `up to ${rewardText(nop)}` : 'nothing'} in ${plural(nop_runs, 'run')}.`,
  flake: ({flake_rate, flake_low, flake_high, flake_runs}) => `${formatted(flake_rate, 'share')} of ${plural(flake_runs, 'run')} had another outcome than most runs of the same agent; 95% interval ${intervalText({low: flake_low, high: flake_high}) || 'unknown'}.`,
  cheats: ({cheats, cheats_tried, cheats_unscored}, {cheat}) => `${cheats.length || 'None'} of ${plural(cheats_tried, cheat)} earned a reward${cheats_unscored ? `; ${cheats_unscored} more could not be scored` : ''}.`,
  mutants: ({mutants}) => {
    const scored = mutants.filter(({reward}) => reward !== null), killed = scored.filter(({is_killed}) => is_killed).length, left = mutants.length - scored.length;
    return `${killed} of ${plural(scored.length, 'mutant')} lowered the reward${left ? `; ${left} could not be scored` : ''}.`;
  },
};

// Why a part is unknown, and the command that measures it.
function reasonOf(part, card, run) {
  const isTask = card.kind === 'task', isCampaign = run.command === 'redteam', isValidation = run.command === 'problems validate', from = run.problems ? quoted(run.problems) : 'SET';
  const validate = `sandrl problems validate ${from}`, redteam = `sandrl redteam --problems ${from}`, solution = isTask ? 'solution' : 'reference';
  const failure = card.null_runs > 0 ? `Not scored; ${card.null_runs === 1 ? 'one run of this problem has' : `${card.null_runs} runs of this problem have`} no reward.` : '';
  if (part === 'oracle') return [failure || `No ${solution} was run. If there is none, write one.`, validate];
  if (part === 'nop') return [failure || (isTask ? 'An agent that does nothing was not run.' : 'No stub was judged.'), validate];
  if (part === 'flake') return [failure || `It takes several runs of the same agent${isCampaign ? '; a campaign of cheats has one' : ''}.`, isTask ? `${validate} --repeats 3` : validate];
  if (part === 'cheats') return [isValidation ? 'A validation tries no cheats.' : failure || (card.cheats_tried ? `Only ${plural(card.cheats_tried, isTask ? 'cheat' : 'exploit')} of more were tried.` : 'No cheat was scored.'), redteam];
  if (!isTask) return ['Only tasks have mutants.', ''];
  if (card.mutants && card.mutants.length) return [`None of ${plural(card.mutants.length, 'mutant')} has a reward.`, redteam];
  if (card.mutants) return ['The solution left nothing that could be changed.', ''];
  if (!(card.oracle > 0)) return [failure || 'Mutants are changes to the final state of a solution that earns a reward, and no such solution is known.', validate];
  return [isValidation ? 'A validation makes no mutants.' : 'No mutant was made.', redteam];
}

function Part({part, card, run}) {
  const value = card.parts[part], isTask = card.kind === 'task', words = {solution: isTask ? 'solution' : 'reference', cheat: isTask ? 'cheat' : 'exploit'};
  const [reason, command] = value === null ? reasonOf(part, card, run) : [];
  return html`<div class="panel part" role="group" aria-labelledby=${`part-${part}`}>
    <div class="section-head"><h2 id=${`part-${part}`}>${part}</h2><b class=${`value ${gradeOf(value)}`}>${shareOf(value)}</b></div><${Meter} value=${value} />
    ${value === null ? html`<p>${reason}</p>${command && html`<p class="small">Next: <code>${command.split(' ').map((word, at) => html`${at ? ' ' : ''}<span>${word}</span>`)}</code></p>`}` : html`<p>${FINDINGS[part](card, words)}</p>`}
    <p class="muted small">1 means: ${QUALITY[part]}.</p></div>`;
}

function RunLink({run, label, known, children}) {
  const found = known.get(label);
  return found ? html`<a href=${link(['run', run, 't', found.key])}>${children}</a>` : html`<span>${children}</span>`;
}

function Cheats({card, run, known}) {
  const named = (name) => known.has(`cheat.${name}`) ? `cheat.${name}` : `exploit.${name}`;
  const settings = [...new Set(card.cheats.flatMap(({stopped_by}) => stopped_by))];
  return html`<h2 class="above">${card.kind === 'task' ? 'Cheats' : 'Exploits'} that earned a reward</h2><${Grid} label="Cheats that earned a reward" className="found"><thead><tr>
      <th scope="col">name</th><th scope="col">group</th><th scope="col" class="right">earned</th><th scope="col">stopped by</th></tr></thead>
    <tbody>${card.cheats.map(({name, group, reward, stopped_by, advice}) => html`<tr key=${name}><th scope="row" class="name"><${RunLink} run=${run} label=${named(name)} known=${known}>${name}<//></th><td>${group}</td>
      <td class="right weak">${rewardText(reward)}</td><td class="stops">${stopped_by.map((setting) => html`<span class="tag"><${RunLink} run=${run} label=${`${named(name)}@${setting}`} known=${known}>${setting}<//></span> `)}
        ${advice || (stopped_by.length ? '' : html`<span class="muted">nothing that was tried</span>`)}</td></tr>`)}</tbody><//>
    ${settings.length > 0 && html`<dl class="settings">${settings.map((setting) => html`<div><dt><span class="tag">${setting}</span></dt><dd>${SETTINGS[setting] || 'a setting under which the cheat was tried again'}; measured: the cheat was tried again, and earned nothing more</dd></div>`)}</dl>`}
    ${Object.entries(card.quality_under).map(([setting, quality]) => html`<p>In a run with <code>--verifier ${setting}</code>: quality ${quality === null ? 'unknown' : `at most ${shareOf(quality)}`}${card.oracle_under[setting] < 1 ? `; the solution earned ${rewardText(card.oracle_under[setting])} there` : ''}.</p>`)}`;
}

function Mutants({card, run, known}) {
  const verdict = ({reward, is_killed}) => reward === null ? 'not scored' : is_killed ? 'killed' : 'survived';
  const kinds = {survived: 'failed', killed: 'passed', 'not scored': 'unscorable'};
  const listed = card.mutants.map((mutant, at) => ({...mutant, label: `mutant.${at + 1}`, verdict: verdict(mutant)})).sort((a, b) => (b.verdict === 'survived') - (a.verdict === 'survived'));
  return html`<h2 class="above">Mutants</h2><${Grid} label="Mutants" className="found"><thead><tr>
      <th scope="col">change</th><th scope="col">file</th><th scope="col">outcome</th><th scope="col" class="right">reward</th></tr></thead>
    <tbody>${listed.map((mutant) => html`<tr key=${mutant.label}><th scope="row" class="name"><${RunLink} run=${run} label=${mutant.label} known=${known}>${mutant.name}<//></th>
      <td class="name">${mutant.path || '–'}</td><td><span class=${`badge ${kinds[mutant.verdict]}`}>${mutant.verdict}</span></td><td class="right">${rewardText(mutant.reward)}</td></tr>`)}</tbody><//>`;
}

function cardFacts({kind, seconds, image_bytes, state_bytes, network, reached}) {
  const total = secondsOf({seconds}), size = (bytes) => typeof bytes === 'number' ? bytesText(bytes) : 'unknown';
  return [
    ...Object.entries(seconds || {}).map(([phase, value]) => [phase, formatted(value, 'seconds')]), ['all phases', total === null ? 'unknown' : formatted(total, 'seconds')],
    ...kind === 'task' ? [
      ['image', size(image_bytes)], ['what the solution changes, packed', size(state_bytes)], ['network', networkText(network)],
      ['hosts that were reached', reached === null ? 'not observed' : reached.join(', ') || 'none'],
    ] : [],
  ];
}

// All runs behind a card, with one stop for Tab.
function CardRuns({runs, run}) {
  const groups = new Map();
  for (const each of runs) {
    const [label, setting] = each.label.split('@'), [kind, ...name] = label.split('.'), group = setting ? `${kind} with ${setting}` : kind;
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push({...each, isSolution: kind === 'oracle', name: kind === 'oracle' || kind === 'nop' ? '' : name.join('.')});
  }
  return html`<h2 class="above">Runs behind this card</h2><${Grid} label="Runs behind this card" className="groups behind"><thead><tr><th scope="col">agent</th><th scope="col">reward of each run</th></tr></thead>
    <tbody>${[...groups].map(([group, own]) => html`<tr key=${group}><th scope="row">${group}</th><td><div class="cells">${own.map(({label, key, status, reward, name, isSolution}) => {
      const words = `${label}: ${status}, reward ${rewardText(reward)}`, kind = reward === null ? 'unscorable' : (isSolution ? reward >= 1 : reward <= 0) ? 'passed' : 'failed';
      return html`<a key=${key} class="behind-run" href=${link(['run', run, 't', key])} aria-label=${words} title=${words}><span class=${`swatch ${kind}`}>${reward === null ? '?' : rewardText(reward)}</span>${name}</a>`;
    })}</div></td></tr>`)}</tbody><//>`;
}

function CardPage({source, run, digest, query}) {
  const {data: card, error} = useData(() => source.card(run, digest), [source, run, digest], source, [run]);
  if (!card) return html`<${Pending} error=${error} />`;
  const runs = (card.run.measures_problems ? card.runs : []).map(([label, key, status, reward]) => ({label, key, status, reward})), known = new Map(runs.map((each) => [each.label, each]));
  const unknown = card.unknown.length ? ` ${card.unknown.length === 1 ? 'One part is' : `${card.unknown.length} parts are`} unknown${card.quality > 0 ? ', and can only lower it' : ''}: ${card.unknown.join(', ')}.` : '';
  const said = card.quality === null ? 'Nothing is known about the quality of this problem.' : card.weakest ? `The weakest part is ${card.weakest}.` : 'No part that was measured has a weakness.';
  return html`<article class="one-card" aria-label="Card">
    <div class="page-head"><h1 tabindex="-1">${card.task_id}</h1><span class=${`badge ${gradeOfCard(card)}`}>quality ${qualityText(card)}</span><p class="muted">${card.kind} · ${card.run.run_id} · measured ${moment(card.measured_at)}${card.verifier === 'task' ? '' : ` with --verifier ${card.verifier}`}</p>
      <nav class="neighbours" aria-label="Cards"><a class="button" href=${link(['run', run, 'cards'], query)}>All cards</a></nav></div>
    ${error && html`<p class="note" role="alert">${error.message}</p>`}
    <p class=${`verdict ${gradeOfCard(card)}`}>${said}${card.quality === null ? '' : unknown}${card.null_runs > 0 && ` ${card.null_runs === 1 ? 'One run has' : `${card.null_runs} runs have`} no reward${card.null_reason ? `; the first: ${card.null_reason}` : '.'}`}</p>
    <section class="parts" aria-label="Parts of the quality">${Object.keys(QUALITY).map((part) => html`<${Part} key=${part} part=${part} card=${card} run=${card.run} />`)}</section>
    ${card.cheats.length > 0 && html`<${Cheats} card=${card} run=${run} known=${known} />`}
    ${card.mutants && card.mutants.length > 0 && html`<${Mutants} card=${card} run=${run} known=${known} />`}
    <h2 class="above">Times, sizes and network</h2><dl class="facts">${cardFacts(card).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${runs.length > 0 && html`<${CardRuns} runs=${runs} run=${run} />`}
  </article>`;
}
