// What is wrong with the page that is shown, found by walking all of it: see audit.py.
(() => {
  const NATIVE = 'a[href], button, input:not([type=hidden]), select, textarea, summary, iframe, [contenteditable=true]';
  const INTERACTIVE = `${NATIVE}, [tabindex]:not([tabindex="-1"]), [role=button], [role=link], [role=checkbox], [role=tab], [role=menuitem], [role=option]`;
  // Parts with one stop for Tab, in which arrow keys move.
  const COMPOSITE = '[role=list], [role=listbox], [role=tablist], [role=grid], [role=menu], [role=toolbar], [role=radiogroup]';
  const all = () => [...document.querySelectorAll('body, body *')];
  const words = (text) => (text || '').toLowerCase().match(/[\p{L}\p{N}]+/gu) || [];
  const isShown = (element) => element.checkVisibility({visibilityProperty: true}) && !element.closest('[inert]');
  const isSeen = (element) => element.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const hasBox = (element) => { const {width, height} = element.getBoundingClientRect(); return width > 0 && height > 0; };
  const isDisabled = (element) => element.matches(':disabled, [aria-disabled=true]');

  function nameOf(element) {
    const name = element.tagName.toLowerCase() + (element.id ? `#${element.id}` : '') + [...element.classList].slice(0, 2).map((each) => `.${each}`).join('');
    const text = (element.getAttribute('aria-label') || element.textContent || '').trim().replace(/\s+/g, ' ').slice(0, 50);
    return `<${name}> "${text}"`;
  }

  // Colours, whatever notation they are computed in, as red, green, blue from 0 to 255 and alpha from 0 to 1.
  const pixels = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const known = new Map();
  function parsed(colour) {
    if (!known.has(colour)) {
      const plain = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(colour);
      if (plain) known.set(colour, [plain[1], plain[2], plain[3], plain[4] ?? 1].map(Number));
      else {
        pixels.clearRect(0, 0, 1, 1);
        pixels.fillStyle = colour;
        pixels.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = pixels.getImageData(0, 0, 1, 1).data;
        known.set(colour, [red, green, blue, alpha / 255]);
      }
    }
    return known.get(colour);
  }
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  function luminance([red, green, blue]) {
    const [r, g, b] = [red, green, blue].map((value) => { const part = value / 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function contrast(one, other) {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  }
  function canvasColour() {
    const probe = document.createElement('i');
    probe.style.color = 'Canvas';
    document.documentElement.append(probe);
    const found = parsed(getComputedStyle(probe).color);
    probe.remove();
    return found;
  }
  // What is behind an element; nothing where a picture is.
  function behind(element) {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== 'none') return null;
      const colour = parsed(style.backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), canvasColour());
  }
  function opacityOf(element) {
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    return opacity;
  }
  function checkContrast(faults, element, style, ground, what) {
    if (!ground) return;
    const [r, g, b, a] = parsed(element instanceof SVGElement ? style.fill : style.color), alpha = a * opacityOf(element);
    if (alpha === 0) return;
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = contrast(over([r, g, b, alpha], ground), ground);
    if (ratio < (isLarge ? 3 : 4.5) - 0.005) faults.push(`contrast: ${ratio.toFixed(2)} of ${what} ${nameOf(element)}`);
  }

  // The box of an element within its borders, where its content is seen.
  function innerBox(element) {
    const {left, top} = element.getBoundingClientRect();
    const x = left + element.clientLeft, y = top + element.clientTop;
    return {left: x, top: y, right: x + element.clientWidth, bottom: y + element.clientHeight};
  }
  // Why a piece of text cannot be read; nothing where it can, if need be by scrolling.
  function cutOff(node, rect) {
    let {left, right, top, bottom} = rect, position = 'static';
    const slack = Math.max(3, 0.3 * (bottom - top));
    for (let at = node.parentElement; at && at !== document.documentElement; at = at.parentElement) {
      const style = getComputedStyle(at), skips = position === 'absolute' && style.position === 'static' && style.transform === 'none';
      if (at !== document.body && style.display !== 'inline' && style.display !== 'contents' && !skips) {
        const box = innerBox(at), isTiny = at.clientWidth <= 2 && at.clientHeight <= 2;
        if (/hidden|clip/.test(style.overflowX + style.overflowY) && isTiny) return null;
        for (const [way, low, high, lowEdge, highEdge, room, by] of [['overflowX', left, right, box.left, box.right, 1.5, at.scrollLeft], ['overflowY', top, bottom, box.top, box.bottom, slack, at.scrollTop]]) {
          if (/hidden|clip/.test(style[way]) && (low < lowEdge - room || high > highEdge + room)) return `is cut off by ${nameOf(at)}`;
          if (/auto|scroll/.test(style[way]) && low + by < lowEdge - room) return `is before the beginning of what can be scrolled in ${nameOf(at)}`;
        }
        if (/auto|scroll/.test(style.overflowX)) [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
        if (/auto|scroll/.test(style.overflowY)) [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
        if (right < left || bottom < top) [left, right, top, bottom] = [box.left, box.right, box.top, box.bottom];
      }
      if (style.position !== 'static' && !skips) position = style.position;
      if (style.position === 'fixed') {
        if (top < -slack || bottom > innerHeight + slack) return `is outside of the window, in ${nameOf(at)}, which does not scroll`;
        break;
      }
    }
    return left < -1.5 || right > document.documentElement.clientWidth + 1.5 ? 'is beyond the edge of the window' : null;
  }

  function checkTexts(faults) {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    const grounds = new Map();
    while (walker.nextNode()) {
      const node = walker.currentNode, element = node.parentElement;
      if (!node.data.trim() || !isSeen(element) || element.closest('script, style, noscript, option')) continue;
      range.selectNodeContents(node);
      const rects = [...range.getClientRects()].filter(({width, height}) => width > 0 && height > 0);
      if (!rects.length) continue;
      // A link leads to the whole of what it shortens, and a way past the navigation appears when it has the focus.
      if (!element.closest('a[href]')) {
        const why = rects.map((rect) => cutOff(node, rect)).find(Boolean);
        if (why) faults.push(`cut off: ${nameOf(element)} ${why}`);
      } else if (rects.some(({left, right}) => left < -1.5 && right > 1.5)) faults.push(`cut off: ${nameOf(element)} at the edge of the window`);
      if (element.closest(':disabled, [aria-disabled=true]')) continue;
      if (!grounds.has(element)) {
        grounds.set(element, behind(element));
        checkContrast(faults, element, getComputedStyle(element), grounds.get(element), 'the text of');
      }
    }
    for (const element of all()) {
      if (!isSeen(element)) continue;
      for (const pseudo of ['::before', '::after']) {
        const style = getComputedStyle(element, pseudo);
        if (/\p{L}/u.test(style.content.replace(/^(none|normal|counters?\(.*\))$/, '')) && !/^url/.test(style.content)) {
          const own = parsed(style.backgroundColor), below = behind(element);
          checkContrast(faults, element, style, below && over(own, below), `${pseudo} of`);
        }
      }
      if (element.matches('input[placeholder]:placeholder-shown')) {
        checkContrast(faults, element, getComputedStyle(element, '::placeholder'), behind(element), 'the placeholder of');
        const style = getComputedStyle(element);
        pixels.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
        const room = element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        if (pixels.measureText(element.placeholder).width > room + 2) faults.push(`cut off: the placeholder of ${nameOf(element)}`);
      }
    }
  }

  function checkScrolling(faults) {
    const root = document.documentElement;
    if (root.scrollWidth > innerWidth) faults.push(`cut off: the page is ${root.scrollWidth} pixels wide in a window of ${innerWidth}`);
    for (const element of all()) {
      if (element === document.body || !isSeen(element) || !hasBox(element) || element.matches('input, select, textarea')) continue;
      const style = getComputedStyle(element);
      const scrolls = (/auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1) || (/auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 1);
      if (!scrolls) continue;
      const inside = [...element.querySelectorAll(INTERACTIVE)].some((each) => each.tabIndex >= 0 && isShown(each) && !isDisabled(each));
      if (!inside && !(element.hasAttribute('tabindex') && element.tabIndex >= 0)) faults.push(`unreachable: ${nameOf(element)} scrolls, but not by keyboard`);
    }
  }

  function checkStructure(faults) {
    const root = document.documentElement;
    if (!/^[a-z]{2}/.test(root.lang)) faults.push('structure: the page has no language');
    if (!words(document.title).length) faults.push('structure: the page has no title');
    const zoom = (document.querySelector('meta[name=viewport]') || {content: ''}).content;
    if (!/width=device-width/.test(zoom) || /user-scalable=(no|0)|maximum-scale=1(\.0)?\b/.test(zoom)) faults.push(`structure: the page does not fit small screens, or cannot be zoomed: ${zoom}`);
    const headings = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6, [role=heading]')].filter((each) => isSeen(each) && !each.closest('[aria-hidden=true]'));
    let level = 0;
    for (const heading of headings) {
      const own = Number(heading.getAttribute('aria-level') || heading.tagName[1]);
      if (own > level + 1) faults.push(`structure: a heading of level ${own} follows one of level ${level}: ${nameOf(heading)}`);
      if (!words(heading.textContent).length) faults.push(`name: the heading ${nameOf(heading)} is empty`);
      level = own;
    }
    const titles = headings.filter((each) => each.tagName === 'H1');
    if (titles.length !== 1) faults.push(`structure: ${titles.length} headings of the first level`);
    const mains = [...document.querySelectorAll('main, [role=main]')].filter(isShown);
    if (mains.length !== 1) faults.push(`structure: ${mains.length} main parts`);
    const ids = new Set();
    for (const element of document.querySelectorAll('[id]')) {
      if (ids.has(element.id)) faults.push(`structure: two elements have the id ${element.id}`);
      ids.add(element.id);
    }
    for (const name of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for']) for (const element of document.querySelectorAll(`[${name}]`)) {
      for (const id of element.getAttribute(name).split(/\s+/)) if (!ids.has(id)) faults.push(`name: ${name} of ${nameOf(element)} is ${id}, which does not exist`);
    }
    for (const table of document.querySelectorAll('table')) {
      if (!isSeen(table) || table.matches('[role=presentation]')) continue;
      const heads = [...table.querySelectorAll('th')];
      if (!heads.length) faults.push(`structure: ${nameOf(table)} has no headers`);
      for (const head of heads) if (!head.closest('thead') && !head.scope) faults.push(`structure: the header ${nameOf(head)} has no scope`);
    }
    // A picture that holds numbers has them as a table, too.
    for (const picture of document.querySelectorAll('canvas, svg, img')) {
      const {width, height} = picture.getBoundingClientRect();
      const isChart = picture.tagName === 'CANVAS' || (picture.matches('[role=img]') && picture.querySelector('polyline, path, rect'));
      if (!isChart || width < 150 || height < 100 || !isSeen(picture)) continue;
      const figure = picture.closest('figure, section, [role=group]');
      if (!figure || !figure.querySelector('table, details')) faults.push(`name: the chart ${nameOf(picture)} has no table`);
    }
    for (const element of all()) {
      if (element.tabIndex > 0) faults.push(`order: ${nameOf(element)} has a tabindex of its own`);
      if (!isShown(element)) continue;
      const style = getComputedStyle(element);
      const reorders = style.order !== '0' || /reverse/.test(style.flexDirection) || (/flex/.test(style.display) && style.flexWrap === 'wrap-reverse');
      if (reorders && (element.matches(INTERACTIVE) || element.querySelector(INTERACTIVE)) && element.parentElement.querySelectorAll(INTERACTIVE).length > 1) faults.push(`order: ${nameOf(element)} is drawn in another order than it is read`);
      if (element.matches(INTERACTIVE) && element.parentElement.closest('a[href], button, summary')) faults.push(`structure: ${nameOf(element)} is inside of another control`);
    }
  }

  function checkNames(faults) {
    for (const element of document.querySelectorAll('[aria-label]')) {
      if (!isSeen(element) || !element.matches('a, button, summary, label, [role=button], [role=link]')) continue;
      const copy = element.cloneNode(true);
      for (const hidden of copy.querySelectorAll('[aria-hidden=true], .visually-hidden')) hidden.remove();
      const name = words(element.getAttribute('aria-label'));
      const texts = document.createNodeIterator(copy, NodeFilter.SHOW_TEXT), written = [];
      for (let text = texts.nextNode(); text; text = texts.nextNode()) written.push(text.data);
      const missing = words(written.join(' ')).filter((word) => !name.includes(word) && !name.some((each) => word.length === 1 && each.includes(word)));
      if (missing.length) faults.push(`name: ${nameOf(element)} does not say what is written: ${missing.join(' ')}`);
    }
    // What looks as if it could be pressed can be, without a mouse, too.
    for (const element of all()) {
      if (!isSeen(element) || !hasBox(element) || isDisabled(element)) continue;
      const looks = getComputedStyle(element).cursor === 'pointer' && getComputedStyle(element.parentElement).cursor !== 'pointer';
      const has = typeof getEventListeners === 'function' && (getEventListeners(element).click || getEventListeners(element).mousedown);
      if (!(looks || has) || element.matches(INTERACTIVE) || element.closest(INTERACTIVE) || element.querySelector(INTERACTIVE)) continue;
      const control = element.matches('label') ? element.control : element.closest('label') && element.closest('label').control;
      if (control && isShown(control) && control.tabIndex >= 0) continue;
      // What a chart shows below the mouse stands in its table.
      if (element.tagName === 'CANVAS') continue;
      if (has && !looks && element.matches('body, main, [role=main]')) continue;
      faults.push(`unreachable: ${nameOf(element)} reacts to the mouse alone`);
    }
  }

  function checkMotion(faults) {
    if (!matchMedia('(prefers-reduced-motion: reduce)').matches) return;
    const longest = (text) => Math.max(...text.split(',').map((each) => parseFloat(each) * (/ms$/.test(each.trim()) ? 1 : 1000)));
    if (getComputedStyle(document.documentElement).scrollBehavior === 'smooth') faults.push('motion: the page scrolls smoothly');
    let count = 0;
    for (const element of all()) {
      const style = getComputedStyle(element);
      const moves = longest(style.transitionDuration) > 50 || (style.animationName !== 'none' && longest(style.animationDuration) > 50);
      if (moves && isSeen(element) && count++ < 3) faults.push(`motion: ${nameOf(element)} moves although the user prefers less`);
    }
  }

  // The walk with the Tab key: before each press, what has the focus, and whether that is seen.
  const LOOK = ['outlineStyle', 'outlineWidth', 'outlineColor', 'boxShadow', 'backgroundColor', 'borderTopColor', 'borderBottomColor', 'textDecorationLine', 'color'];
  const lookOf = (element) => { const style = getComputedStyle(element); return Object.fromEntries(LOOK.map((name) => [name, style[name]])); };
  const isOutlined = (look) => look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 1;
  // What is seen of an element: of a field that is drawn by its label, this one.
  function shapeOf(element) {
    if (!element.matches('input[type=radio], input[type=checkbox]') || (hasBox(element) && isSeen(element))) return element;
    return [...element.labels, ...[element.nextElementSibling].filter((each) => each && each.matches('label'))].find((each) => hasBox(each) && isSeen(each)) || element;
  }

  class Walk {
    constructor() {
      this.faults = [];
      this.stops = [];
      this.reached = new Set();
      this.isOver = false;
      this.stays = 0;
      this.wanted = [...document.querySelectorAll(INTERACTIVE)].filter((each) => isShown(each) && !isDisabled(each) && hasBox(shapeOf(each)) && isSeen(shapeOf(each)));
      this.before = new Map(this.wanted.map((each) => [each, lookOf(shapeOf(each))]));
      this.listener = (event) => { if (event.key === 'Tab') this.see(); };
      window.addEventListener('keydown', this.listener, {capture: true});
    }

    see() {
      const element = document.activeElement;
      if (!element || element === document.body || element === document.documentElement) { this.isOver = this.stops.length > 0; return; }
      if (this.reached.has(element)) {
        // After the last stop, the focus is in the browser's own controls for a moment.
        this.stays = element === this.stops[this.stops.length - 1] ? this.stays + 1 : 0;
        if (this.stays === 4) this.faults.push(`unreachable: Tab does not leave ${nameOf(element)}`);
        this.isOver = this.stays === 0 || this.stays > 3;
        return;
      }
      this.stops.push(element);
      this.reached.add(element);
      const shape = shapeOf(element);
      this.checkSeen(element, shape);
      const before = this.before.get(element);
      if (!before || element.matches('main, [role=main]')) return;
      const now = lookOf(shape);
      const hasChanged = LOOK.some((name) => before[name] !== now[name] && !(name.startsWith('outline') && !isOutlined(now)));
      if (!hasChanged) this.faults.push(`focus: ${nameOf(element)} does not show that it has the focus`);
      else if (isOutlined(now) && now.outlineStyle !== 'auto') {
        const ground = behind(shape.parentElement);
        if (ground && contrast(over(parsed(now.outlineColor), ground), ground) < 3) this.faults.push(`focus: the outline of ${nameOf(element)} is hardly seen`);
      }
    }

    checkSeen(element, shape) {
      const {left, right, top, bottom} = shape.getBoundingClientRect();
      const box = [Math.max(left, 0), Math.min(right, innerWidth), Math.max(top, 0), Math.min(bottom, innerHeight)];
      if (box[1] - box[0] < 1 || box[3] - box[2] < 1) { this.faults.push(`focus: ${nameOf(element)} has the focus outside of the window`); return; }
      const at = (x, y) => document.elementFromPoint(box[0] + x * (box[1] - box[0]), box[2] + y * (box[3] - box[2]));
      // What it consists of may be in several lines, with others between them.
      const rects = [...shape.getClientRects()].map((rect) => document.elementFromPoint((rect.left + rect.right) / 2, (rect.top + rect.bottom) / 2));
      const points = [[0.5, 0.5], [0.02, 0.1], [0.98, 0.1], [0.02, 0.9], [0.98, 0.9]].map(([x, y]) => at(x, y));
      const isOwn = (found) => found && (shape.contains(found) || found.contains(shape) && getComputedStyle(found).position !== 'sticky' || [...(element.labels || [])].some((label) => label.contains(found)));
      if (![...rects, ...points].some(isOwn)) this.faults.push(`focus: ${nameOf(element)} has the focus behind ${nameOf(points[0] || document.body)}`);
    }

    // Parts of which arrow keys move between the members.
    composites() {
      return [...new Set(this.missing().map((each) => each.closest(COMPOSITE)).filter(Boolean))].map((each) => [...each.querySelectorAll(INTERACTIVE)].find((inner) => this.reached.has(inner))).filter(Boolean);
    }

    missing() {
      const radio = (each) => each.matches('input[type=radio]') && this.stops.some((stop) => stop.name === each.name);
      return this.wanted.filter((each) => each.isConnected && isShown(each) && !this.reached.has(each) && !isDisabled(each) && !radio(each));
    }

    end() {
      window.removeEventListener('keydown', this.listener, {capture: true});
      for (const element of this.missing()) this.faults.push(`unreachable: ${nameOf(element)} is not reached by Tab or the arrow keys`);
      const first = this.stops[0];
      const isSkip = first && first.matches('a[href^="#"]') && words(first.textContent).length > 0;
      if (this.stops.length > 3 && !isSkip) this.faults.push(`order: the first stop is no way to the content: ${first ? nameOf(first) : 'nothing'}`);
      return this.faults;
    }
  }

  window.sandrlAudit = {
    look() {
      const faults = [];
      for (const check of [checkTexts, checkScrolling, checkStructure, checkNames, checkMotion]) check(faults);
      return faults;
    },
    async start() {
      // From the beginning of the page, wherever the focus was, and when nothing shows that it was there.
      const root = document.documentElement;
      root.tabIndex = -1;
      root.focus({preventScroll: true});
      root.removeAttribute('tabindex');
      await new Promise((resolve) => setTimeout(resolve, 150));
      window.sandrlWalk = new Walk();
      return window.sandrlWalk.wanted.length;
    },
    isOver() { return window.sandrlWalk.isOver; },
    count() { return window.sandrlWalk.stops.length; },
    composites() { window.sandrlInner = window.sandrlWalk.composites(); return window.sandrlInner.length; },
    enter(index) { window.sandrlInner[index].focus(); return Boolean(window.sandrlInner[index].closest('[role=grid]')); },
    // Whether the last key has moved the focus; the page may do so after it has been drawn anew.
    async hasMoved() {
      const walk = window.sandrlWalk;
      for (let frame = 0; frame < 3 && walk.reached.has(document.activeElement); frame++) await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      const isNew = !walk.reached.has(document.activeElement);
      walk.reached.add(document.activeElement);
      return isNew && walk.missing().length > 0;
    },
    end() { return window.sandrlWalk.end(); },
  };
})();
