// What the server answers from its index, answered from rows that are all here: filters, groups and comparisons.
const ORDERS = {
  reward: (row) => row.reward === null ? Infinity : row.reward,
  duration: (row) => row.duration_seconds,
  step: (row) => row.step ?? -1,
};

function wordsOf(text) { return (text || '').toLowerCase().split(/\s+/).filter(Boolean); }

// The rows that fit a query, in its order, and how many of each status its other conditions leave.
async function chosenRows(rows, query, textOf) {
  const statuses = new Set((query.status || '').split(',').filter(Boolean));
  const words = wordsOf(query.search), task = (query.task || '').toLowerCase();
  const fits = (row) => (!query.step || String(row.step ?? 0) === String(query.step)) &&
    (!query.held_out || Boolean(row.held_out) === (query.held_out === '1')) && (!query.disagrees || row.disagrees) && (!query.cut_off || row.cut_off) &&
    (!task || row.task_id.toLowerCase().includes(task));
  const counts = {}, found = [];
  let disagrees = 0, cutOff = 0, heldOut = 0;
  for (const row of rows) {
    if (!fits(row)) continue;
    if (words.length) {
      const text = textOf(row);
      const whole = typeof text === 'string' ? text : await text;
      if (!words.every((word) => whole.includes(word))) continue;
    }
    counts[row.status] = (counts[row.status] || 0) + 1;
    disagrees += Boolean(row.disagrees);
    cutOff += Boolean(row.cut_off);
    heldOut += Boolean(row.held_out);
    if (!statuses.size || statuses.has(row.status)) found.push(row);
  }
  const measure = ORDERS[query.order];
  if (measure) found.sort((a, b) => measure(a) - measure(b) || a.position - b.position);
  if (query.desc === '1') found.reverse();
  return {found, facets: {status: counts, disagrees, cut_off: cutOff, held_out: heldOut}};
}

// Whether a sample passed; nothing where that was not found out.
function passed(sample) { return sample[2] === null ? null : sample[1] === 'passed'; }

// Cells in the order of their steps, with how often a sample passes where the same sample of the step before did not, or the reverse.
function countFlips(cells) {
  let flips = 0;
  for (let at = 1; at < cells.length; at++) flips += flippedSamples(cells[at - 1], cells[at]).size;
  return flips;
}

function flippedSamples(before, cell) {
  const flipped = new Set();
  if (!before) return flipped;
  cell.samples.forEach((sample, index) => {
    const [then, now] = [before.samples[index] && passed(before.samples[index]), passed(sample)];
    if (typeof then === 'boolean' && typeof now === 'boolean' && then !== now) flipped.add(index);
  });
  return flipped;
}

function groupedRows(rows) {
  const groups = new Map(), steps = new Set();
  for (const row of rows) {
    if (row.held_out) continue;
    const step = row.step ?? 0;
    steps.add(step);
    let group = groups.get(row.task_id);
    if (!group) groups.set(row.task_id, group = {task_id: row.task_id, problem: row.problem || null, cells: new Map(), flips: 0});
    if (!group.cells.has(step)) group.cells.set(step, {step, samples: []});
    group.cells.get(step).samples.push([row.key, row.status, row.reward]);
  }
  const made = [...groups.values()].map((group) => {
    const cells = [...group.cells.values()].sort((a, b) => a.step - b.step);
    return {...group, cells, flips: countFlips(cells)};
  });
  return {steps: [...steps].sort((a, b) => a - b), groups: made};
}

function chosenGroups({steps, groups}, query) {
  const task = (query.task || '').toLowerCase();
  const found = groups.filter((group) => (query.flipped !== '1' || group.flips) && group.task_id.toLowerCase().includes(task));
  const offset = Number(query.offset || 0), limit = Number(query.limit || 50);
  return {total: found.length, steps, groups: found.slice(offset, offset + limit)};
}

// One cell of a comparison: all of a run's completions of a problem that belong to its last step.
function comparedCell(rows) {
  const last = rows.reduce((most, row) => Math.max(most, row.step ?? 0), 0);
  const own = rows.filter((row) => (row.step ?? 0) === last);
  const scored = own.filter((row) => row.reward !== null);
  const example = own.find((row) => row.status !== 'passed') || own[0];
  return {
    n: own.length, passed: own.filter((row) => row.status === 'passed').length, key: example.key, status: example.status,
    reward: scored.length ? scored.reduce((sum, row) => sum + row.reward, 0) / scored.length : null,
  };
}

function comparedRows(listsOfRows, query) {
  const problems = new Map();
  listsOfRows.forEach((rows, run) => {
    for (const row of rows) {
      if (row.held_out) continue;
      if (!problems.has(row.task_id)) problems.set(row.task_id, listsOfRows.map(() => []));
      problems.get(row.task_id)[run].push(row);
    }
  });
  const all = [...problems].map(([task_id, lists]) => {
    const digests = new Set(lists.flatMap((rows) => rows.map((row) => row.problem).filter(Boolean)));
    return {task_id, same_problem: digests.size <= 1, cells: lists.map((rows) => rows.length ? comparedCell(rows) : null)};
  });
  const task = (query.search || '').toLowerCase();
  const differing = all.filter(differs);
  const found = (query.only === 'all' ? all : differing).filter((problem) => problem.task_id.toLowerCase().includes(task));
  const offset = Number(query.offset || 0), limit = Number(query.limit || 100);
  return {total: found.length, differ: differing.length, problems: found.slice(offset, offset + limit)};
}

function differs({cells}) {
  return new Set(cells.map((cell) => cell === null ? 'none' : `${cell.passed === cell.n} ${cell.passed / cell.n}`)).size > 1;
}

function curvesOf(documents) {
  const names = new Set(documents.flatMap((document) => Object.keys(document.metrics)).filter((name) => !isBound(name)));
  return Object.fromEntries([...names].map((name) => [name, documents.map(({metrics}) => metrics[name] || null)]));
}

function isBound(name) { return /_(low|high)$/.test(name); }
