// The address is the state: what is shown, filtered, searched and ordered stands behind the `#`.
function parsedRoute() {
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return {path: path.split('/').filter(Boolean).map(decoded), query: Object.fromEntries(new URLSearchParams(search))};
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function link(path, query = {}) {
  const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== ''));
  const text = String(parameters);
  return '#/' + path.map(encodeURIComponent).join('/') + (text ? '?' + text : '');
}

let visits = 0;

function useRoute() {
  const [route, setRoute] = useState(parsedRoute);
  useEffect(() => {
    const follow = () => { visits += 1; setRoute(parsedRoute()); };
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);
  return route;
}

function go(target, {replace = false} = {}) {
  if (replace) location.replace(target); else location.hash = target;
}

// Back to where the reader came from; to a page of the report if that was elsewhere.
function goBack(otherwise) {
  if (visits > 0) history.back(); else go(otherwise);
}
