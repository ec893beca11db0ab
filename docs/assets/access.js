// What the theme does by labels that only a mouse reaches, by keyboard and for screen readers, too.
(() => {
  const toggles = new Map([['__drawer', 'Navigation'], ['__search', 'Search']]);

  // A label of a hidden checkbox becomes a button, in windows in which it is one; the theme presses a label on Enter.
  function buttonOf(label, name, onlyWhile) {
    const field = document.getElementById(label.htmlFor);
    const follow = () => {
      const acts = !onlyWhile || onlyWhile.matches;
      for (const [name, value] of [['role', 'button'], ['tabindex', '0']]) if (acts) label.setAttribute(name, value); else label.removeAttribute(name);
    };
    if (onlyWhile) onlyWhile.addEventListener('change', follow);
    follow();
    if (name) label.setAttribute('aria-label', name);
    const tell = () => label.setAttribute('aria-expanded', String(field.checked));
    field.addEventListener('change', tell);
    // The theme also changes fields without an event.
    new MutationObserver(tell).observe(document.body, {attributes: true, attributeFilter: ['data-md-scrolllock']});
    tell();
    label.addEventListener('keydown', (event) => {
      if (event.key === ' ') { event.preventDefault(); label.click(); }
    });
  }

  for (const label of document.querySelectorAll('label.md-header__button[for]')) {
    if (toggles.has(label.htmlFor)) buttonOf(label, toggles.get(label.htmlFor));
  }
  const hasDrawer = matchMedia('(max-width: 76.234375em)'), coversPage = matchMedia('(max-width: 59.984375em)');
  for (const label of document.querySelectorAll('label.md-nav__link[for], label.md-nav__title[for]')) {
    buttonOf(label, null, label.getAttribute('tabindex') === '0' ? null : hasDrawer);
  }
  for (const label of document.querySelectorAll('label.md-search__icon[for]')) buttonOf(label, 'Close the search', coversPage);
  // A field of the palette has the name of what its label does; the field itself has the focus.
  for (const label of document.querySelectorAll('label[for^=__palette]')) label.setAttribute('aria-hidden', 'true');
  // The theme of the system has no field that is chosen, and the focus would be at one whose label is hidden.
  const palette = document.querySelector('form.md-header__option');
  if (palette) {
    const choose = () => {
      for (const field of palette.querySelectorAll('input')) if (field.nextElementSibling && !field.nextElementSibling.hidden) field.checked = true;
    };
    new MutationObserver(choose).observe(palette, {attributes: true, attributeFilter: ['hidden'], subtree: true});
    choose();
  }
  window.addEventListener('keydown', (event) => {
    const drawer = document.getElementById('__drawer');
    if (event.key !== 'Escape' || !drawer || !drawer.checked) return;
    drawer.click();
    document.querySelector('label.md-header__button[for=__drawer]').focus();
  });

  const names = {'.md-search[role=dialog]': 'Search', 'form.md-header__option': 'Theme', 'form.md-search__form': 'Search the documentation'};
  for (const [selector, name] of Object.entries(names)) for (const each of document.querySelectorAll(selector)) each.setAttribute('aria-label', name);
  const results = document.querySelector('.md-search__scrollwrap');
  if (results) { results.setAttribute('role', 'region'); results.setAttribute('aria-label', 'Search results'); }
  for (const picture of document.querySelectorAll('svg:not([role], [aria-label], [aria-hidden])')) picture.setAttribute('aria-hidden', 'true');
  // One part for navigation, in which lists have the names of their titles.
  for (const inner of document.querySelectorAll('.md-nav .md-nav')) inner.setAttribute('role', 'group');

  function headingOf(element) {
    let at = element;
    while (at && !/^H[1-6]$/.test(at.tagName)) at = at.previousElementSibling || (at.parentElement && at.parentElement.tagName !== 'ARTICLE' ? at.parentElement : null);
    return at ? at.firstChild.textContent.trim() : document.title;
  }
  for (const link of document.querySelectorAll('a.headerlink')) link.setAttribute('aria-label', `Link to “${link.parentElement.firstChild.textContent.trim()}”`);
  // What is wider than the window is scrolled by keyboard, too, and says what it is.
  const counts = new Map();
  let wide = [];
  function nameAll() {
    wide = [...document.querySelectorAll('.md-typeset__scrollwrap, .md-typeset pre > code')];
    for (const part of wide) {
      if (part.hasAttribute('aria-label')) continue;
      const isTable = part.matches('.md-typeset__scrollwrap'), name = `${isTable ? 'Table' : 'Code'} of “${headingOf(part)}”`;
      counts.set(name, (counts.get(name) || 0) + 1);
      const number = counts.get(name);
      part.setAttribute('role', isTable ? 'region' : 'group');
      part.setAttribute('aria-label', number > 1 ? `${name}, ${number}` : name);
    }
    for (const inner of document.querySelectorAll('.md-code__nav')) inner.setAttribute('role', 'group');
    measure();
  }
  const measure = () => {
    for (const part of wide) {
      if (part.scrollWidth > part.clientWidth + 1) part.tabIndex = 0; else part.removeAttribute('tabindex');
    }
  };
  nameAll();
  window.addEventListener('resize', measure);
  // The theme puts tables into parts that scroll when it has started.
  const content = document.querySelector('.md-content');
  new MutationObserver(nameAll).observe(content, {childList: true, subtree: true});
  if (!document.querySelector('.md-skip')) {
    const skip = Object.assign(document.createElement('a'), {className: 'md-skip', href: '#content', textContent: 'Skip to content'});
    content.id = 'content';
    document.querySelector('[data-md-component=skip]').append(skip);
  }
  // The contents of a page stand beside it: they are read in this order, too.
  const contents = document.querySelector('.md-sidebar--secondary');
  if (contents) content.after(contents);
})();
