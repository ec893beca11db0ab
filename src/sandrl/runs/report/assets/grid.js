// The group grid: problem × sample, as GRPO compares them.
const GROUPS_SHOWN = 40;

function makeGrid(report, choose) {
  const steps = [...new Set(trained(report).map((row) => row.step || 0))].sort((a, b) => a - b);
  const select = byId('grid-step');
  select.append(...steps.map((step) => element('option', {value: step}, step)));
  select.value = steps[steps.length - 1];
  byId('grid-step-label').hidden = steps.length < 2;
  const kinds = Object.keys(KIND_COLOURS).filter((kind) => report.trajectories.some((row) => kindOf(row) === kind));
  byId('legend').append(...kinds.map((kind) => element('li', {},
    element('span', {class: 'swatch ' + kind, 'aria-hidden': 'true'}, kind === 'unscorable' ? '?' : LETTERS[kind]), kind)));
  let all = false;
  const draw = () => drawGrid(report, Number(select.value), all, choose);
  select.addEventListener('change', draw);
  byId('grid-more').addEventListener('click', () => { all = true; draw(); });
  draw();
}

function drawGrid(report, step, all, choose) {
  const groups = new Map();
  report.trajectories.forEach((row, position) => {
    if (row.held_out || (row.step || 0) !== step) return;
    if (!groups.has(row.task_id)) groups.set(row.task_id, []);
    groups.get(row.task_id).push(position);
  });
  const names = [...groups.keys()];
  const visible = all ? names : names.slice(0, GROUPS_SHOWN);
  byId('grid').replaceChildren(...visible.map((name) => groupRow(name, groups.get(name), report.trajectories, choose)));
  byId('grid-more').hidden = visible.length === names.length;
  byId('grid-more').textContent = `Show all ${names.length} problems`;
}

function groupRow(name, positions, rows, choose) {
  const rewards = positions.map((position) => rows[position].reward).filter((reward) => reward !== null);
  const flat = rewards.length > 1 && rewards.every((reward) => reward === rewards[0]);
  const mean = rewards.length ? rewards.reduce((a, b) => a + b, 0) / rewards.length : null;
  const cells = positions.map((position, index) => {
    const row = rows[position];
    const label = `${name}, sample ${index + 1}: ${row.status}, ${rewardText(row)}`;
    return element('button', {type: 'button', class: 'cell ' + kindOf(row), 'aria-label': shown(label), title: shown(label), onclick: () => choose(position)}, letterOf(row));
  });
  return element('div', {class: flat ? 'group flat' : 'group', role: 'group', 'aria-label': shown(name) + (flat ? ', no variance' : '')},
    element('span', {class: 'name', title: shown(name)}, name),
    element('span', {class: 'mean'}, formatted(mean)),
    element('span', flat ? {class: 'flat-mark', title: 'no variance: all rewards are equal'} : {}, flat ? '=' : ''),
    element('div', {class: 'cells'}, ...cells));
}
