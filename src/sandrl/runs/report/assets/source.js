// Where the data is: in this file, behind a server, or in files beside this one. All answer the same questions.
async function unpacked(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).json();
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

function briefRow(row, position) {
  return {
    key: String(row.key ?? position), position, index: row.index, id: row.id, task_id: row.task_id, status: row.status, reward: row.reward,
    step: row.step ?? null, passed: row.passed || 0, total: row.total || 0, duration_seconds: row.duration_seconds,
    held_out: Boolean(row.held_out), greedy: Boolean(row.greedy), cached: Boolean(row.cached), problem: row.problem || null,
    detail: (row.detail || '').slice(0, 120), disagrees: (row.second_opinion || {}).status === 'passed', cut_off: Boolean(row.cut_off),
  };
}

// All that a search finds a trajectory by.
function searchedText(row) {
  const spoken = [row, ...(row.branches || [])].flatMap(({messages}) => messages || []);
  const said = spoken.flatMap((each) => [each.content || '', ...(each.tool_calls || []).map((call) => `${call.name} ${call.arguments}`)]);
  const checks = (row.checks || []).flatMap((check) => [check.name, check.detail, check.got, check.expected]);
  return [row.task_id, row.id, row.status, row.detail, row.completion, row.code, row.stdout, row.stderr,
    ...(row.failures || []), ...checks, ...said].filter(Boolean).join('\n').toLowerCase();
}

// Runs whose rows are all here. `load` gives a run's {document, rows, cards(), whole(position)}, where `whole` gives all of a trajectory.
class LocalSource {
  constructor(load) {
    this.load = load;
    this.texts = new Map();
    this.memory = new Map();
  }

  onChange() { return () => {}; }
  async document(run) { return (await this.load(run)).document; }

  // The answers that are asked for page by page are made once.
  async remembered(name, make) {
    if (!this.memory.has(name)) {
      if (this.memory.size > 20) this.memory.clear();
      this.memory.set(name, make());
    }
    return this.memory.get(name);
  }

  async rows(run, query) {
    const {rows, whole} = await this.load(run);
    const {offset = 0, limit = 100, ...rest} = query;
    const {found, facets} = await this.remembered(`rows ${run} ${JSON.stringify(rest)}`, () => chosenRows(rows, rest, (row) => this.text(run, row, whole)));
    return {total: found.length, offset, rows: found.slice(offset, offset + limit), facets};
  }

  text(run, row, whole) {
    const name = `${run} ${row.key}`;
    if (!this.texts.has(name)) {
      const trajectory = whole(row.position);
      const keep = (found) => { const text = searchedText(found); this.texts.set(name, text); return text; };
      return trajectory instanceof Promise ? trajectory.then(({row: found}) => keep(found)) : keep(trajectory.row);
    }
    return this.texts.get(name);
  }

  async groups(run, query) {
    const {rows} = await this.load(run);
    return chosenGroups(await this.remembered(`groups ${run}`, () => groupedRows(rows)), query);
  }

  async trajectory(run, key) {
    const {rows, whole} = await this.load(run);
    const at = rows.findIndex((row) => row.key === key);
    if (at < 0) throw new Error('This run does not have this trajectory.');
    const {row, problem} = await whole(at);
    const neighbour = (position) => position in rows ? rows[position].key : null;
    return {...row, key, problem: problem || null, previous: neighbour(at - 1), next: neighbour(at + 1)};
  }

  async cards(run) {
    const {document, cards} = await this.load(run);
    return {run: document.run, set: document.cards, cards: await cards()};
  }

  async card(run, digest) {
    const {document, rows, cards} = await this.load(run);
    const card = (await cards()).find((each) => each.digest === digest), prefix = card && `${card.task_id}#`;
    if (!card) throw new Error('This run does not have this card.');
    const own = rows.filter((row) => row.task_id === card.task_id && row.id.startsWith(prefix));
    return {...card, run: document.run, runs: own.map((row) => [row.id.slice(prefix.length), row.key, row.status, row.reward])};
  }

  async compare(keys, query) {
    const loaded = await Promise.all(keys.map((key) => this.load(key)));
    const briefs = new Map((await this.runs()).runs.map((run) => [run.key, run]));
    const {options, compared, pairs} = await this.comparisons(), baseline = keys.find((key) => compared[key]);
    const pairOf = (key) => key === baseline ? null : pairs[`${baseline} ${key}`] || (pairs[`${key} ${baseline}`] ? mirrored(pairs[`${key} ${baseline}`]) : null);
    const first = keys.indexOf(baseline), other = keys.indexOf(query.of), pair = pairOf(query.of);
    const turned = ({task_id, cells}) => other >= 0 && changeOf(cells[first], cells[other]) * (query.only === 'lost' ? -1 : 1) > 0 && !(pair && pair.changed.includes(task_id));
    return {
      runs: keys.map((key) => briefs.get(key)).filter(Boolean), ...comparedRows(loaded.map(({rows}) => rows), query, turned),
      curves: curvesOf(loaded.map(({document}) => document)), baseline: baseline || null, options: keys.map((key) => options[key] || {}),
      compared: keys.map((key) => compared[key] || null), pairings: adjustedPairings(keys.map(pairOf)),
    };
  }
}

// The report of one run: everything is in the page.
class EmbeddedSource extends LocalSource {
  constructor(base64) {
    const ready = unpacked(base64).then(({trajectories, problems = {}, all_cards = [], ...document}) => {
      const rows = trajectories.map(briefRow);
      return {document, rows, cards: () => all_cards, whole: (at) => ({row: trajectories[at], problem: problems[trajectories[at].problem]})};
    });
    super(() => ready);
    this.ready = ready;
  }

  async single() { const {document} = await this.ready; return document.key || document.run.run_id; }
  async runs() {
    const {document, rows} = await this.ready;
    return {runs: [{...document.run, key: await this.single(), completions: rows.length}]};
  }
}

// Runs in files beside the page: a page opened from disk may read scripts, nothing else.
class FilesSource extends LocalSource {
  constructor() {
    const waiting = new Map(), runs = new Map();
    window.sandrlData = (name, base64) => { waiting.get(name).resolve(unpacked(base64)); };
    const file = (name) => {
      if (!waiting.has(name)) {
        const entry = {};
        entry.promise = new Promise((resolve, reject) => { Object.assign(entry, {resolve, reject}); });
        waiting.set(name, entry);
        const script = document.createElement('script');
        script.src = `data/${encodeURIComponent(name)}.js`;
        script.onerror = () => entry.reject(new Error(`The file data/${name}.js cannot be read.`));
        script.onload = () => script.remove();
        document.head.append(script);
      }
      return waiting.get(name).promise;
    };
    const load = async (run) => {
      const [document, packed] = await Promise.all([file(run), file(`${run}-rows`)]);
      const rows = packed.rows.map((row, position) => ({...row, position, disagrees: Boolean(row.disagrees)}));
      const whole = async (at) => {
        const {trajectories, problems} = await file(`${run}-t${Math.floor(at / packed.chunk)}`);
        const row = trajectories[at % packed.chunk];
        return {row, problem: problems[row.problem]};
      };
      const cards = async () => document.cards ? (await file(`${run}-cards`)).all_cards : [];
      return {document, rows, cards, whole};
    };
    super((run) => {
      if (!runs.has(run)) runs.set(run, load(run));
      return runs.get(run);
    });
    this.file = file;
  }

  async single() { return null; }
  runs() { return this.file('runs'); }
  comparisons() { return this.file('comparisons'); }
}

// Runs behind `sandrl view`.
class HttpSource {
  constructor() {
    this.listeners = new Set();
    this.states = new Set();
    this.events = null;
  }

  async single() { return null; }

  async get(path, query = {}) {
    const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== ''));
    const text = String(parameters);
    let answer;
    try {
      answer = await fetch(`api/${path}${text ? '?' + text : ''}`, {credentials: 'same-origin'});
    } catch {
      throw new Error('The server does not answer. If it has ended, start `sandrl view` again.');
    }
    if (!answer.ok) {
      const said = await answer.json().catch(() => ({}));
      throw new Error(said.error || said.message || said.detail || `The server answered with status ${answer.status}.`);
    }
    return answer.json();
  }

  runs() { return this.get('runs'); }
  document(run) { return this.get(`runs/${encodeURIComponent(run)}`); }
  rows(run, query) { return this.get(`runs/${encodeURIComponent(run)}/rows`, query); }
  groups(run, query) { return this.get(`runs/${encodeURIComponent(run)}/groups`, query); }
  trajectory(run, key) { return this.get(`runs/${encodeURIComponent(run)}/rows/${encodeURIComponent(key)}`); }
  cards(run) { return this.get(`runs/${encodeURIComponent(run)}/cards`); }
  card(run, digest) { return this.get(`runs/${encodeURIComponent(run)}/cards/${encodeURIComponent(digest)}`); }
  compare(keys, query) { return this.get('compare', {runs: keys.join(','), ...query}); }

  onChange(listener) {
    if (!this.events) {
      this.events = new EventSource('api/events');
      this.events.addEventListener('change', (event) => {
        const {runs} = JSON.parse(event.data);
        for (const each of [...this.listeners]) each(runs);
      });
      const tell = (state) => () => { for (const each of this.states) each(state); };
      this.events.addEventListener('open', tell('live'));
      this.events.addEventListener('error', tell('lost'));
    }
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  onState(listener) {
    this.states.add(listener);
    return () => this.states.delete(listener);
  }
}

function makeSource() {
  const kind = document.documentElement.dataset.source;
  if (kind === 'http') return new HttpSource();
  if (kind === 'files') return new FilesSource();
  return new EmbeddedSource(document.getElementById('data').textContent);
}
