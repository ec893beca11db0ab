// The cards of a set of problems: what is known about the quality of each, and of all together.
const CARDS_SHOWN = 100;
// The parts of the quality, and what a part of 1 means.
const QUALITY = {
  oracle: 'the solution, or the reference, earns 1 in every run', nop: 'an agent that does nothing, or a stub, earns 0', flake: 'the same agent has the same outcome in every run',
  cheats: 'no cheat, or exploit, earns a reward', mutants: 'a damaged solution earns less than the solution',
};
// The columns that can be ordered by; what is unknown is last, whatever the order.
const CARD_ORDERS = {
  task: (card) => card.task_id, quality: (card) => card.quality, oracle: (card) => card.parts.oracle, nop: (card) => card.nop, flake: (card) => card.flake_rate,
  mutants: (card) => card.mutation_score, cheats: (card) => card.cheats_tried === null ? null : card.cheats.length, seconds: secondsOf,
};
const CARD_MARKS = {
  cheated: ['cheated', (card) => card.cheats.length > 0], idle: ['rewards doing nothing', (card) => isBelow(card.parts.nop)], flaky: ['flaky', (card) => isBelow(card.parts.flake)],
  unsolved: ['solution fails', (card) => isBelow(card.parts.oracle)], unknown: ['unknown parts', (card) => card.unknown.length > 0], null: ['runs without a reward', (card) => card.null_runs > 0],
};

function isBelow(value) { return value !== null && value < 1; }
function secondsOf({seconds}) { const parts = Object.values(seconds || {}).filter((each) => typeof each === 'number'); return parts.length ? parts.reduce((sum, each) => sum + each, 0) : null; }
// Rounded down: only what is 1 looks like 1.
function shareOf(value) { return value === null || value === undefined ? 'unknown' : (Math.floor(100 * value + 1e-9) / 100).toFixed(2); }
// What is unknown can only lower it.
function qualityText({quality, unknown}) { return quality === null ? 'unknown' : `${unknown.length && quality > 0 ? '≤ ' : ''}${shareOf(quality)}`; }
function gradeOf(value) { return value === null ? 'unscorable' : value >= 1 ? 'passed' : value > 0 ? 'timeout' : 'failed'; }
// A quality of 1 is not green as long as a part is unknown.
function gradeOfCard({quality, unknown}) { return quality >= 1 && unknown.length ? 'open' : gradeOf(quality); }
function Meter({value, grade = gradeOf(value)}) { return html`<span class=${`meter ${grade}`} aria-hidden="true"><span style=${{width: `${100 * (value ?? 0)}%`}} /></span>`; }
function networkText(network) { const modes = Object.entries(network || {}); return new Set(modes.map(([, mode]) => mode)).size === 1 ? modes[0][1] : modes.map(([phase, mode]) => `${phase}: ${mode}`).join(', ') || '–'; }

function chosenCards(cards, query) {
  const words = wordsOf(query.search), marks = (query.mark || '').split(',').filter((mark) => mark in CARD_MARKS);
  const found = cards.filter((card) => {
    const text = [card.task_id, ...card.cheats.flatMap(({name, group}) => [name, group])].join('\n').toLowerCase();
    return words.every((word) => text.includes(word)) && marks.every((mark) => CARD_MARKS[mark][1](card)) && (!query.weakest || card.weakest === query.weakest) && (!query.unknown || card.unknown.includes(query.unknown));
  });
  const measure = CARD_ORDERS[query.order] || CARD_ORDERS.quality, sign = query.desc === '1' ? -1 : 1;
  return found.map((card) => [measure(card), card]).sort(([a, one], [b, other]) => (a === null) - (b === null) || sign * (a < b ? -1 : a > b ? 1 : 0) || (one.task_id < other.task_id ? -1 : 1)).map(([, card]) => card);
}

// What the headline of a run says that measures problems: its rewards are those of cheats, too.
function SetTotals({set}) {
  const unknown = set.problems - Math.min(...Object.values(set.known));
  return html`<${Stat} value=${formatted(set.problems)} label=${set.problems === 1 ? 'problem' : 'problems'} />
    <${Stat} value=${set.mean === null ? 'unknown' : shareOf(set.mean)} label="mean quality" note=${unknown > 0 && 'at most: parts are unknown'} />
    ${Object.entries(set.under).map(([place, mean]) => html`<${Stat} value=${shareOf(mean)} label=${`mean with --verifier ${place}`} note="at most" />`)}
    <${Stat} value=${set.least === null ? 'unknown' : shareOf(set.least)} label="least quality" />
    <${Stat} value=${formatted(set.perfect)} label="without a known weakness" /><${Stat} value=${formatted(set.cheated)} label="cheated" />
    <${Stat} value=${formatted(set.idle)} label="reward doing nothing" /><${Stat} value=${formatted(set.flaky)} label="flaky" />
    <${Stat} value=${formatted(set.unsolvable)} label="solution fails" /><${Stat} value=${formatted(unknown)} label="with unknown parts" />`;
}

function qualityChart(cards) {
  const bins = [...Array.from({length: 10}, (_, at) => `.${at}`), '≤ 1', '1', 'unknown'], counts = bins.map(() => 0);
  for (const {quality, unknown} of cards) counts[quality === null ? 12 : quality < 1 ? Math.floor(10 * quality + 1e-9) : unknown.length ? 10 : 11] += 1;
  const tints = bins.map((_, at) => colour(['failed', ...Array(9).fill('timeout'), 'accent', 'passed', 'no_code'][at]));
  const options = {plugins: {legend: {display: false}}, scales: {x: {title: {display: true, text: 'quality, rounded down'}, ticks: {autoSkip: false, callback: (_, at) => at === 12 ? '?' : bins[at]}}, y: {ticks: {precision: 0}}}};
  return {
    config: {type: 'bar', data: {labels: bins, datasets: [{label: 'problems', data: counts, backgroundColor: tints, borderRadius: 3, categoryPercentage: 0.92, barPercentage: 1}]}, options},
    head: ['quality, rounded down', 'problems'], rows: bins.map((bin, at) => [bin, counts[at].toLocaleString('en')]),
  };
}

function PartsTable({set, linkTo}) {
  const counted = (count, name, part, words) => count ? html`<a href=${linkTo({[name]: part})} aria-label=${`${plural(count, 'problem')} ${words}`}>${count.toLocaleString('en')}</a>` : html`<span class="muted">0</span>`;
  return html`<${Section} title="Parts of the quality" id="parts-title"><div class="scroll-x" tabindex="0" role="region" aria-label="Parts of the quality"><table aria-label="Parts of the quality"><thead><tr>
      <th scope="col">part</th><th scope="col">1 means</th><th scope="col" class="right">weakest</th><th scope="col" class="right">unknown</th></tr></thead>
    <tbody>${Object.entries(QUALITY).map(([part, meaning]) => html`<tr><th scope="row"><b>${part}</b></th><td class="meaning">${meaning}</td>
      <td class="right">${counted(set.weakest[part], 'weakest', part, `whose weakest part is ${part}`)}</td>
      <td class="right">${counted(set.unknown[part], 'unknown', part, `whose part ${part} is unknown`)}</td></tr>`)}</tbody></table></div>
    <p class="muted small">The quality of a problem is the value of its weakest known part, because a policy finds it. The numbers count problems.</p><//>`;
}

function CardsPage({source, run, query}) {
  const {data, error} = useData(() => source.cards(run), [source, run], source, [run]);
  const chart = useMemo(() => data && data.set ? () => qualityChart(data.cards) : null, [data]);
  if (!data) return html`<${Pending} error=${error} />`;
  const {cards, set} = data, offset = Number(query.offset || 0), found = chosenCards(cards, query);
  const linkTo = (changes) => link(['run', run, 'cards'], {...query, offset: '', ...changes});
  const change = (changes, options) => go(linkTo(changes), options);
  const marks = new Set((query.mark || '').split(',').filter(Boolean));
  const toggle = (mark) => { const next = new Set(marks); if (!next.delete(mark)) next.add(mark); change({mark: [...next].join(',')}); };
  const head = html`<${RunHead} run=${run} report=${{run: data.run, cards: set}} current="cards" />
    ${error && html`<p class="note" role="alert">${error.message}</p>`}`;
  if (!set) return html`${head}<${Empty}>This run has no cards. \`sandrl problems validate\` and \`sandrl redteam\` measure problems, and write a card of each.<//>`;
  const weakest = Object.keys(QUALITY).filter((part) => set.weakest[part] || query.weakest === part);
  return html`${head}
    <section id="cards" aria-label="The set"><${SetTotals} set=${set} /></section>
    <section class="set" aria-label="Quality"><${ChartFigure} title="Quality of the problems" id="chart-quality" describe=${chart} /><${PartsTable} set=${set} linkTo=${linkTo} /></section>
    <div class="filters" role="search" aria-label="Filter cards">
      <${SearchField} value=${query.search} label="Search cards" placeholder="problem, cheat" onSearch=${(search) => change({search}, {replace: true})} />
      ${weakest.length > 0 && html`<select aria-label="Weakest part" value=${query.weakest || ''} onChange=${(event) => change({weakest: event.currentTarget.value})}>
        <option value="">any weakest part</option>${weakest.map((part) => html`<option value=${part}>weakest: ${part}</option>`)}</select>`}
      <div class="chips" role="group" aria-label="Marks">${query.unknown && html`<${Toggle} isOn=${true} onClick=${() => change({unknown: ''})}>${query.unknown} unknown ×<//>`}
        ${Object.entries(CARD_MARKS).map(([mark, [words, test]]) => [mark, words, cards.filter(test).length]).filter(([mark, , count]) => count || marks.has(mark)).map(([mark, words, count]) => html`
          <${Toggle} key=${mark} isOn=${marks.has(mark)} onClick=${() => toggle(mark)}>${words} <small>${count.toLocaleString('en')}</small><//>`)}</div>
      <p class="muted" role="status" id="count">${plural(found.length, 'problem')}${found.length < cards.length ? ` of ${cards.length.toLocaleString('en')}` : ''}</p>
    </div>
    ${found.length ? html`<${CardsTable} cards=${found.slice(offset, offset + CARDS_SHOWN)} run=${run} query=${query} linkTo=${linkTo} />
      <${Pages} total=${found.length} offset=${offset} limit=${CARDS_SHOWN} linkTo=${(to) => linkTo({offset: to || ''})} />` : html`<${Empty}>No problem matches the filters.<//>`}`;
}

function CardsTable({cards, run, query, linkTo}) {
  const order = query.order in CARD_ORDERS ? query.order : 'quality', isDown = query.desc === '1';
  const sortable = (name, title, className = 'right') => html`<th scope="col" class=${className} aria-sort=${order === name ? (isDown ? 'descending' : 'ascending') : undefined}>
    <a href=${linkTo({order: name, desc: order === name && !isDown ? '1' : ''})}>${title}${order === name ? (isDown ? ' ↓' : ' ↑') : ''}</a></th>`;
  return html`<${Grid} label="Cards" className="cards"><thead><tr>${sortable('task', 'problem', 'sticky')}${sortable('quality', 'quality', '')}${sortable('oracle', 'oracle')}${sortable('nop', 'nop')}
      ${sortable('flake', 'flake rate')}${sortable('mutants', 'mutants')}${sortable('cheats', 'cheats')}${sortable('seconds', 'seconds')}<th scope="col">network</th></tr></thead>
    <tbody>${cards.map((card) => html`<tr key=${card.digest}><th scope="row" class="sticky name"><a href=${link(['run', run, 'cards', card.digest], query)}>${card.task_id}</a>
        ${card.null_runs > 0 && html`<small class="muted">${plural(card.null_runs, 'run')} without a reward</small>`}</th>
      <td class="quality"><b>${qualityText(card)}</b><${Meter} value=${card.quality} grade=${gradeOfCard(card)} /><small class="muted">${card.weakest ? `weakest: ${card.weakest}` : card.quality === null ? '' : 'no known weakness'}</small>
        ${Object.entries(card.quality_under).filter(([, value]) => value > card.quality).map(([place, value]) => html`<small class="muted">with ${place}: ≤ ${shareOf(value)}</small>`)}</td>
      <${Measured} isWeak=${isBelow(card.parts.oracle)} value=${card.parts.oracle}>${card.oracle_passes}/${card.oracle_runs}<//>
      <${Measured} isWeak=${card.nop > 0} value=${card.nop}>${rewardText(card.nop)}<//>
      <${Measured} isWeak=${card.flake_rate > 0} value=${card.flake_rate}>${formatted(card.flake_rate, 'share')}<small class="muted interval">${intervalText({low: card.flake_low, high: card.flake_high})}</small><//>
      <${Measured} isWeak=${isBelow(card.mutation_score)} value=${card.mutation_score}>${formatted(card.mutation_score, 'share')}<//>
      <${Measured} isWeak=${card.cheats.length > 0} value=${card.cheats_tried}>${card.cheats.length} of ${card.cheats_tried}<//>
      <td class="right">${formatted(secondsOf(card), 'seconds')}</td><td class="muted">${networkText(card.network)}</td></tr>`)}</tbody><//>`;
}

function Measured({value, isWeak, children}) {
  return value === null || value === undefined ? html`<td class="right muted">unknown</td>` : html`<td class=${isWeak ? 'right weak' : 'right'}>${children}</td>`;
}
