// Dark or light: the system's, until the button chooses; the choice is remembered.
const THEME_KEY = 'sandrl-theme';
const systemTheme = matchMedia('(prefers-color-scheme: dark)');
const themeListeners = new Set();

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : systemTheme.matches;
}

function chooseTheme(theme, isRemembered = true) {
  document.documentElement.dataset.theme = theme;
  // A page opened from disk may have no storage.
  if (isRemembered) try { localStorage.setItem(THEME_KEY, theme); } catch { /* forgotten with the page */ }
  for (const each of themeListeners) each();
}

function useTheme() {
  const [dark, setDark] = useState(isDark);
  useEffect(() => {
    const follow = () => setDark(isDark());
    themeListeners.add(follow);
    systemTheme.addEventListener('change', follow);
    return () => { themeListeners.delete(follow); systemTheme.removeEventListener('change', follow); };
  }, []);
  return dark;
}

try {
  const remembered = localStorage.getItem(THEME_KEY);
  if (remembered === 'dark' || remembered === 'light') chooseTheme(remembered, false);
} catch { /* no storage: the system's */ }

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim(); }
function faded(tint, share) { return `color-mix(in srgb, ${tint} ${100 * share}%, transparent)`; }
