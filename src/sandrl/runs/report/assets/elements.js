// The one door to the page: every text that becomes an element's passes `shown`, and markup is never set.
const {createElement, render, Fragment} = preact;
const {useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback} = preactHooks;

const READ_ALOUD = ['title', 'aria-label', 'alt', 'placeholder'];

function safeChild(child) {
  if (typeof child === 'string') return shown(child);
  return Array.isArray(child) ? child.map(safeChild) : child;
}

function safeElement(type, attributes, ...children) {
  if (typeof type !== 'string' && type !== Fragment) return createElement(type, attributes, ...children);
  const own = {...attributes};
  delete own.dangerouslySetInnerHTML;
  for (const name of READ_ALOUD) if (typeof own[name] === 'string') own[name] = shown(own[name]);
  return createElement(type, own, ...children.map(safeChild));
}

const html = htm.bind(safeElement);
