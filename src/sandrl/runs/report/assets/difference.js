// What was expected and what came, side by side, with the parts that differ marked.
const DIFF_TIMEOUT_MS = 300;
const LONGEST_COMPARED_LINE = 2000;
const LEAST_ALIKE = 0.5;
const EQUAL_LINES_KEPT = 3;
const MOST_DIFF_ROWS = 400;

function linesOf(text) { return text.replace(/\n$/, '').split('\n'); }

// Rows of two sides; each side is a list of [text, differs], or null where the other has a line more.
function comparedLines(expected, got) {
  const parts = Diff.diffLines(expected, got, {timeout: DIFF_TIMEOUT_MS});
  if (!parts) return [{left: [[expected, true]], right: [[got, true]], isEqual: false}];
  const rows = [];
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at];
    if (!part.added && !part.removed) {
      for (const line of linesOf(part.value)) rows.push({left: [[line, false]], right: [[line, false]], isEqual: true});
      continue;
    }
    const next = part.removed && parts[at + 1] && parts[at + 1].added ? parts[++at] : null;
    const left = part.removed ? linesOf(part.value) : [], right = part.added ? linesOf(part.value) : next ? linesOf(next.value) : [];
    for (let line = 0; line < Math.max(left.length, right.length); line++) rows.push({...comparedLine(left[line], right[line]), isEqual: false});
  }
  return rows;
}

function comparedLine(left, right) {
  if (left === undefined || right === undefined) return {left: left === undefined ? null : [[left, true]], right: right === undefined ? null : [[right, true]]};
  const isLong = left.length > LONGEST_COMPARED_LINE || right.length > LONGEST_COMPARED_LINE;
  const parts = isLong ? null : Diff.diffChars(left, right, {timeout: DIFF_TIMEOUT_MS});
  const same = (parts || []).reduce((sum, part) => sum + (part.added || part.removed ? 0 : part.value.length), 0);
  // Of lines that have little in common, single letters that are equal by chance say nothing.
  if (same < LEAST_ALIKE * Math.max(left.length, right.length)) return {left: [[left, true]], right: [[right, true]]};
  return {
    left: parts.filter((part) => !part.added).map((part) => [part.value, part.removed]),
    right: parts.filter((part) => !part.removed).map((part) => [part.value, part.added]),
  };
}

// Long stretches of equal lines are left out, but for those next to a difference.
function foldedRows(rows) {
  const near = rows.map(() => false);
  rows.forEach((row, at) => {
    if (!row.isEqual) for (let by = -EQUAL_LINES_KEPT; by <= EQUAL_LINES_KEPT; by++) if (at + by in near) near[at + by] = true;
  });
  const folded = [];
  let skipped = 0;
  rows.forEach((row, at) => {
    if (near[at] || rows.length <= 3 * EQUAL_LINES_KEPT) {
      if (skipped) folded.push({skipped});
      skipped = 0;
      folded.push(row);
    } else skipped += 1;
  });
  if (skipped) folded.push({skipped});
  return folded;
}

function differenceNote(expected, got) {
  if (expected === got) return 'Both have the same text: they differ in a property that the text does not show.';
  if (expected.trimEnd() === got.trimEnd()) return 'They differ only in white space at the end.';
  return expected.replace(/\s+/g, '') === got.replace(/\s+/g, '') ? 'They differ only in white space.' : '';
}

function Difference({expected, got, name}) {
  const {rows, note} = useMemo(() => ({rows: foldedRows(comparedLines(shown(expected), shown(got))), note: differenceNote(expected, got)}), [expected, got]);
  const side = (pieces, kind) => pieces === null ? html`<td class="absent"><span class="visually-hidden">no line</span></td>`
    : html`<td class=${pieces.some(([, differs]) => differs) ? kind : ''}>${pieces.map(([text, differs]) => differs ? html`<mark>${text}</mark>` : text)}</td>`;
  return html`<div class="scroll diff-box" tabindex="0" role="region" aria-label=${`${name}: expected and actual`}><table class="diff">
      <thead><tr><th scope="col">expected</th><th scope="col">actual</th></tr></thead>
      <tbody>${rows.slice(0, MOST_DIFF_ROWS).map((row) => row.skipped ? html`<tr class="skipped"><td colspan="2">${plural(row.skipped, 'equal line')}</td></tr>`
        : html`<tr>${side(row.left, 'wanted')}${side(row.right, 'wrong')}</tr>`)}</tbody></table></div>
    ${rows.length > MOST_DIFF_ROWS && html`<p class="muted small">${(rows.length - MOST_DIFF_ROWS).toLocaleString('en')} further lines are not shown.</p>`}
    ${note && html`<p class="muted small">${note}</p>`}`;
}
