// How foreign text and numbers are written. What acts on a reader instead of being read becomes visible.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

function shown(text) {
  return String(text).replace(/\r\n/g, '\n').replace(HIDDEN, (character) => {
    const code = character.charCodeAt(0);
    return code < 256 ? '\\x' + code.toString(16).padStart(2, '0') : '\\u' + code.toString(16).padStart(4, '0');
  });
}

const LETTERS = {
  passed: 'P', failed: 'F', timeout: 'T', no_code: 'N', syntax_error: 'S', compile_error: 'E', crashed: 'C',
  resource_limit: 'R', abstained: 'A',
};
// The reward function gave none, on purpose.
const ABSTAINED = 'abstained';
const UNSCORABLE = new Set(['invalid_problem', 'not_isolated', 'infrastructure', 'reward_error', 'judge_error', 'unscorable']);
// Styles of the kinds: each is a class, and `--NAME` its colour.
const KINDS = ['passed', 'failed', 'timeout', 'syntax_error', 'compile_error', 'crashed', 'resource_limit', 'no_code', 'abstained', 'unscorable'];

// Whatever could not be scored is one kind for the eye: nothing was found out about the code.
function kindOf({status, reward}) {
  if (status === ABSTAINED) return ABSTAINED;
  if (reward === null || UNSCORABLE.has(status)) return 'unscorable';
  return status in LETTERS ? status : 'failed';
}
function letterOf(row) { return LETTERS[kindOf(row)] || '?'; }
function rewardText(reward) { return reward === null || reward === undefined ? '–' : String(Number(reward.toFixed(3))); }

function formatted(value, unit) {
  if (value === null || value === undefined) return '–';
  if (unit === 'share') return (100 * value).toFixed(1) + '%';
  if (unit === 'seconds') return value < 10 ? value.toFixed(3) + ' s' : value.toFixed(1) + ' s';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return String(Number(value.toPrecision(4)));
}

function bytesText(count) {
  for (const [size, name] of [[1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']]) if (count >= size) return `${(count / size).toFixed(1)} ${name}`;
  return `${count} B`;
}

function moment(text) { return text ? text.slice(0, 19).replace('T', ' ') + ' UTC' : '–'; }

function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 120) return seconds.toFixed(1) + ' s';
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// Steps are stored from 0 and shown from 1, as the terminal does.
function stepText(step) { return step === null || step === undefined ? '–' : (step + 1).toLocaleString('en'); }
function plural(count, noun) { return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`; }
function intervalText({low, high}) {
  return low === null || low === undefined || high === null || high === undefined ? '' : `${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}%`;
}

const TOKENS = new RegExp([
  '(#[^\\n]*)',
  '("""[\\s\\S]*?(?:"""|$)|\'\'\'[\\s\\S]*?(?:\'\'\'|$)|"(?:\\\\.|[^"\\\\\\n])*"?|\'(?:\\\\.|[^\'\\\\\\n])*\'?)',
  '\\b(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|match|case|nonlocal|not|or|pass|raise|return|try|while|with|yield|None|True|False)\\b',
  '\\b(\\d[\\d_.]*(?:e[+-]?\\d+)?)\\b',
].join('|'), 'g');
const LONGEST_COLOURED = 50000;

// Pieces of code, each with the class that colours it, or none.
function coloured(code) {
  const text = shown(code);
  if (text.length > LONGEST_COLOURED) return [['', text]];
  const pieces = [];
  let from = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > from) pieces.push(['', text.slice(from, found.index)]);
    pieces.push([found[1] !== undefined ? 'c' : found[2] !== undefined ? 's' : found[3] !== undefined ? 'k' : 'n', found[0]]);
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push(['', text.slice(from)]);
  return pieces;
}

// The same pieces by line, for code whose lines are numbered or marked.
function colouredLines(code) {
  const lines = [[]];
  for (const [kind, text] of coloured(code)) {
    text.split('\n').forEach((part, index) => {
      if (index) lines.push([]);
      if (part) lines[lines.length - 1].push([kind, part]);
    });
  }
  return lines;
}
