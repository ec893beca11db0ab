# === patched-choice
import random
def f(xs):
    return random.choice(xs)
# --- wrong
def f(xs): return 2
# --- test
from unittest.mock import patch
with patch('random.choice', return_value=2) as m:
    assert f([1,2,3])==2
m.assert_called_once_with([1,2,3])

# === patched-open
def f(p):
    with open(p) as h:
        return [line.strip() for line in h]
# --- wrong
def f(p): return ['a','b']
# --- test
from unittest.mock import patch, mock_open
with patch('builtins.open', mock_open(read_data='a\nb\n')) as m:
    assert f('x.txt')==['a','b']
    m.assert_called_once_with('x.txt')

# === openwrite
import json
def f(p, d):
    with open(p,'w') as h:
        h.write(json.dumps(d))
# --- wrong
def f(p,d): open(p,'w')
# --- test
from unittest.mock import patch, mock_open
m = mock_open()
with patch('builtins.open', m):
    f('x.txt',{'a':1})
m.assert_called_once_with('x.txt','w')
m().write.assert_called_once_with('{"a": 1}')

# === environ
import os
def f():
    return os.environ.get('MODE','none')
# --- wrong
def f(): return 'x'
# --- test
import os
os.environ['MODE']='x'
assert f()=='x'
del os.environ['MODE']
assert f()=='none'
# --- test
import os
from unittest.mock import patch
with patch.dict(os.environ, {'MODE':'y'}):
    assert f()=='y'
assert f()=='none'
# --- test
import os
from unittest.mock import patch
with patch.dict('os.environ', {'MODE':'y'}, clear=True):
    assert f()=='y'

# === patched-seed
import random
def f():
    return random.random()
# --- wrong
import os
def f(): return int.from_bytes(os.urandom(4),'big')
# --- test
import random
random.seed(3)
a=f()
random.seed(3)
b=f()
assert a==b and a!=f()
# --- test
import random
random.seed(3)
a=random.random()
random.seed(3)
assert f()==a

# === datetime
import datetime
def f():
    return datetime.datetime.now().year
# --- wrong
def f(): return 2026
# --- test
from unittest.mock import patch
import datetime
with patch('datetime.datetime') as m:
    m.now.return_value=datetime.date(1999,1,1)
    assert f()==1999

# === stdout
def f():
    print('hi')
# --- wrong
def f(): pass
# --- test
import io
from unittest.mock import patch
with patch('sys.stdout', new_callable=io.StringIO) as out:
    f()
    assert out.getvalue()=='hi\n'

# === stdin
def f():
    return int(input())*2
# --- wrong
def f(): return 8
# --- test
import io,sys
old=sys.stdin
sys.stdin=io.StringIO('4\n')
try:
    assert f()==8
finally:
    sys.stdin=old
# --- test
from unittest.mock import patch
with patch('builtins.input', side_effect=['3']):
    assert f()==6

# === print
def f(x):
    print('got', x, sep='-')
# --- wrong
def f(x): print('got', x)
# --- test
from unittest.mock import patch
with patch('builtins.print') as p:
    f(2)
p.assert_called_once_with('got', 2, sep='-')

# === argv
import sys
def f():
    return sys.argv[1:]
# --- wrong
def f(): return ['a','b']
# --- test
import sys
from unittest.mock import patch
with patch.object(sys,'argv',['p','a','b']):
    assert f()==['a','b']
# --- test
import sys
sys.argv=['p','q']
assert f()==['q']

# === decimal
from decimal import Decimal
def f():
    return str(Decimal(1)/3)
# --- wrong
def f(): return '0.33333'
# --- test
import decimal
with decimal.localcontext() as c:
    c.prec=5
    assert f()=='0.33333'
# --- test
import decimal
decimal.getcontext().prec=4
assert f()=='0.3333'

# === recursion
def f(n):
    return 0 if n==0 else 1+f(n-1)
# --- wrong
def f(n): return n
# --- test
import sys
old=sys.getrecursionlimit()
sys.setrecursionlimit(9000)
try:
    assert f(6000)==6000
finally:
    sys.setrecursionlimit(old)
# --- test
import sys
old=sys.getrecursionlimit()
sys.setrecursionlimit(200)
try:
    try:
        f(500)
        ok=False
    except RecursionError:
        ok=True
finally:
    sys.setrecursionlimit(old)
assert ok

# === patched-warn
import warnings
def f(x):
    warnings.warn('old', DeprecationWarning)
    return x
# --- wrong
def f(x): return x
# --- test
import warnings
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter('always')
    assert f(1)==1
assert len(w)==1 and issubclass(w[0].category, DeprecationWarning) and 'old' in str(w[0].message)
# --- test
import unittest
class T(unittest.TestCase):
    def test_w(self):
        with self.assertWarns(DeprecationWarning):
            f(1)
T('test_w').debug()
# --- test
import warnings
with warnings.catch_warnings():
    warnings.simplefilter('error')
    try:
        f(1); ok=False
    except DeprecationWarning:
        ok=True
assert ok

# === patched-main
import random
def roll():
    return random.randint(1,6)
def f():
    return roll()+roll()
# --- wrong
def roll(): return 3
def f(): return 6
# --- test
from unittest.mock import patch
with patch('solution.roll', return_value=3) as m:
    assert f()==6
assert m.call_count==2
assert 2<=f()<=12
# --- test
from unittest.mock import patch
with patch('solution.random') as r:
    r.randint.return_value=4
    assert f()==8

# === sideseed
import random
def f(xs):
    xs=list(xs)
    random.shuffle(xs)
    return xs+[random.random()]
# --- wrong
def f(xs): return list(xs)+[__import__('os').urandom(3)]
# --- test
import random
from random import seed, shuffle
from unittest.mock import patch
with patch('random.shuffle', side_effect=lambda x: seed(42) or shuffle(x)):
    a=f([1,2,3]); b=f([1,2,3])
assert a==b

# === patched-response
import urllib.request, json
def f(u):
    with urllib.request.urlopen(u) as r:
        return json.loads(r.read().decode('utf-8'))['a']
# --- wrong
def f(u): return 5
# --- test
from unittest.mock import patch, MagicMock
r=MagicMock()
r.read.return_value=b'{"a": 5}'
r.__enter__.return_value=r
with patch('urllib.request.urlopen', return_value=r) as m:
    assert f('http://x')==5
m.assert_called_once_with('http://x')
# --- test
from unittest.mock import patch
import urllib.error
with patch('urllib.request.urlopen', side_effect=urllib.error.URLError('down')):
    try:
        f('http://x'); ok=False
    except urllib.error.URLError as e:
        ok='down' in str(e)
assert ok

# === patched-class
from pathlib import Path
def f(p):
    return Path(p).exists()
# --- wrong
def f(p): return True
# --- test
from pathlib import Path
from unittest.mock import patch
with patch.object(Path,'exists',return_value=True):
    assert f('/nope') is True
assert f('/nope') is False
# --- test
from unittest.mock import patch
with patch('pathlib.Path.exists', autospec=True, return_value=True) as m:
    assert f('/nope') is True
assert m.call_count==1

# === patched-multiple
import os.path
def f(p):
    return os.path.exists(p), os.path.getsize(p)
# --- wrong
def f(p): return (True,7)
# --- test
from unittest.mock import patch
import os.path
with patch.multiple('os.path', exists=lambda p: True, getsize=lambda p: 7):
    assert f('q')==(True,7)
# --- test
from unittest.mock import patch, DEFAULT
import os.path
with patch.multiple(os.path, exists=DEFAULT, getsize=DEFAULT) as v:
    v['exists'].return_value=True
    v['getsize'].return_value=8
    assert f('q')==(True,8)
    v['getsize'].assert_called_once_with('q')

# === startstop
import time
def f():
    return time.time()
# --- wrong
def f(): return 1.0
# --- test
import unittest
from unittest import mock
class T(unittest.TestCase):
    def setUp(self):
        p=mock.patch('time.time', side_effect=[1.0,2.0])
        self.m=p.start()
        self.addCleanup(p.stop)
    def test_t(self):
        self.assertEqual(f(),1.0)
        self.assertEqual(f(),2.0)
t=T('test_t')
t.debug()
assert f()>100

# === patched-wraps
import math
def f(x):
    return math.sqrt(x)+math.sqrt(x)
# --- wrong
def f(x): return 4.0
# --- test
import math
from unittest import mock
with mock.patch('math.sqrt', wraps=math.sqrt) as m:
    assert f(4)==4
assert m.call_count==2

# === mockarg
def f(db):
    db.timeout=5
    db.connect('x')
    return db.query('q')
# --- wrong
def f(db): return db.query('q')
# --- test
from unittest.mock import Mock
m=Mock()
m.query.return_value=[1]
assert f(m)==[1]
m.connect.assert_called_once_with('x')
assert m.timeout==5

# === patched-async
import asyncio
async def f(c):
    return await c.get('a')+1
# --- wrong
async def f(c): return 3
# --- test
import asyncio
from unittest.mock import AsyncMock
m=AsyncMock()
m.get.return_value=2
assert asyncio.run(f(m))==3
m.get.assert_awaited_once_with('a')

# === genlater
import random
def f():
    yield random.random()
    yield random.random()
# --- wrong
def f():
    yield 0.5
    yield 0.5
# --- test
from unittest.mock import patch
with patch('random.random', return_value=0.5):
    g=f(); assert next(g)==0.5
assert next(g)!=0.5

# === sysmodules
def f():
    import foo_missing
    return foo_missing.answer()
# --- wrong
def f(): return 41
# --- test
from unittest.mock import patch, MagicMock
m=MagicMock()
m.answer.return_value=42
with patch.dict('sys.modules', {'foo_missing': m}):
    assert f()==42

# === locale
import locale
def f():
    return locale.setlocale(locale.LC_ALL)
# --- wrong
def f(): return 'x'
# --- test
import locale
locale.setlocale(locale.LC_ALL,'C.UTF-8')
assert f()=='C.UTF-8', f()

# === checkdraws
import random
def f():
    return random.random()
# --- wrong
def f(): return 1
# --- test
import random
random.seed(5)
a=f()
b=random.random()
random.seed(5)
assert [a,b]==[random.random(),random.random()]

# === function-setattr
import random
def f():
    return random.randint(1,100)
# --- wrong
def f(): return 1
# --- test
import random
calls=[]
def fake(a,b):
    calls.append((a,b))
    return a
old=random.randint
random.randint=fake
try:
    assert f()==1
finally:
    random.randint=old
assert calls==[(1,100)]

# === patched-class-decorator
import time
def f(n):
    for _ in range(n):
        time.sleep(0.5)
    return n
# --- wrong
def f(n): return n
# --- test
import unittest
from unittest.mock import patch, Mock, MagicMock, mock_open, call, ANY
@patch('time.sleep')
class TestCases(unittest.TestCase):
    def test_it(self, nap):
        self.assertEqual(f(3), 3)
        self.assertEqual(nap.call_args_list, [call(0.5)] * 3)
TestCases('test_it').debug()

# === nested-patches
import os, shutil
def f(d, to):
    moved=[]
    for n in sorted(os.listdir(d)):
        if n.endswith('.txt'):
            shutil.move(os.path.join(d,n), to)
            moved.append(n)
    return moved
# --- wrong
def f(d,to): return ['a.txt','b.txt']
# --- test
import unittest
from unittest.mock import patch, Mock, MagicMock, mock_open, call, ANY
class TestCases(unittest.TestCase):
    @patch('shutil.move')
    @patch('os.listdir', return_value=['b.txt','a.txt','c.py'])
    def test_it(self, ls, move):
        self.assertEqual(f('/d','/t'), ['a.txt','b.txt'])
        move.assert_has_calls([call('/d/a.txt','/t'), call('/d/b.txt','/t')])
        ls.assert_called_once_with('/d')
TestCases('test_it').debug()

# === smtp
import smtplib
from email.message import EmailMessage
def f(to, text):
    m=EmailMessage()
    m['To']=to
    m.set_content(text)
    with smtplib.SMTP('localhost', 25) as s:
        s.starttls()
        s.send_message(m)
    return True
# --- wrong
def f(to,text): return True
# --- test
import unittest
from unittest.mock import patch, Mock, MagicMock, mock_open, call, ANY
class TestCases(unittest.TestCase):
    def test_it(self):
        with patch('smtplib.SMTP') as smtp:
            self.assertTrue(f('a@b','hi'))
            server = smtp.return_value.__enter__.return_value
            server.starttls.assert_called_once()
            self.assertEqual(server.send_message.call_count, 1)
            self.assertEqual(server.send_message.call_args[0][0]['To'], 'a@b')
        smtp.assert_called_with('localhost', 25)
TestCases('test_it').debug()

# === platform
import platform
def f():
    return {'Windows': 'cls'}.get(platform.system(), 'clear')
# --- wrong
def f(): return 'clear'
# --- test
import unittest
from unittest.mock import patch, Mock, MagicMock, mock_open, call, ANY
class TestCases(unittest.TestCase):
    def test_it(self):
        for name, word in (('Windows','cls'),('Linux','clear')):
            with self.subTest(name=name), patch('platform.system', return_value=name):
                self.assertEqual(f(), word)
TestCases('test_it').debug()

# === module-alias
import time as clock
def f():
    a=clock.perf_counter()
    b=clock.perf_counter()
    return b-a
# --- wrong
def f(): return 0.0
# --- test
import time as t
from unittest.mock import patch
with patch.object(t, 'perf_counter', side_effect=[1.0, 3.5]):
    assert f() == 2.5

# === own-class-method
class Api:
    def get(self, k):
        raise OSError
    def name(self, k):
        return self.get(k)['name']
# --- wrong
class Api:
    def get(self,k): pass
    def name(self,k): return 'n'
# --- test
from unittest.mock import patch
with patch.object(Api, 'get', return_value={'name': 'n'}) as m:
    assert Api().name(1) == 'n'
m.assert_called_once_with(1)

# === tempdir-chdir
import os
def f(name, text):
    with open(name, 'w') as h:
        h.write(text)
    return os.path.abspath(name)
# --- wrong
def f(name,text): return '/'+name
# --- test
import unittest
from unittest.mock import patch, Mock, MagicMock, mock_open, call, ANY
import os, tempfile
class TestCases(unittest.TestCase):
    def setUp(self):
        self.here = os.getcwd()
        self.dir = tempfile.TemporaryDirectory()
        os.chdir(self.dir.name)
    def tearDown(self):
        os.chdir(self.here)
        self.dir.cleanup()
    def test_it(self):
        path = f('a.txt', 'hello')
        self.assertEqual(path, os.path.join(os.path.realpath(self.dir.name), 'a.txt'))
        with open(path) as h:
            self.assertEqual(h.read(), 'hello')
TestCases('test_it').debug()

# === state-restored
import random
def f():
    return random.getrandbits(32)
# --- wrong
def f(): return 1
# --- test
import random
state = random.getstate()
a = f()
random.setstate(state)
assert f() == a
assert f() != a

# === constant-patched
import string
ALPHABET = string.ascii_lowercase
def f(c):
    return ALPHABET.index(c)
# --- wrong
ALPHABET='abc'
def f(c): return 2
# --- test
from unittest.mock import patch
with patch('solution.ALPHABET', 'cba'):
    assert f('a') == 2
assert f('a') == 0

# === exception-lists
import time
def f(call, tries):
    for n in range(tries):
        try:
            return call()
        except ConnectionError:
            time.sleep(2 ** n)
    raise TimeoutError('gave up')
# --- wrong
def f(call, tries): return 'ok'
# --- test
import unittest
from unittest.mock import patch, Mock, MagicMock, mock_open, call, ANY
class TestCases(unittest.TestCase):
    @patch('time.sleep')
    def test_it(self, nap):
        service = Mock(side_effect=[ConnectionError, ConnectionError, 'ok'])
        self.assertEqual(f(service, 5), 'ok')
        self.assertEqual([c.args[0] for c in nap.call_args_list], [1, 2])
        with self.assertRaises(TimeoutError):
            f(Mock(side_effect=ConnectionError), 2)
TestCases('test_it').debug()

# === from-import-unaffected
from random import choice
def f(xs):
    return choice(xs)
# --- wrong
import random
def f(xs): return random.choice(xs)
# --- test
from unittest.mock import patch
with patch('random.choice', return_value='never') as m:
    assert f(['a']) == 'a'
m.assert_not_called()

# === called-later
import time
def f():
    start = time.time()
    return lambda: time.time() - start
# --- wrong
def f(): return lambda: 1.0
# --- test
import time
from unittest.mock import patch
with patch('time.time', return_value=100.0):
    since = f()
with patch('time.time', return_value=107.5):
    assert since() == 7.5

# === deleted-attribute
import os
def f():
    return hasattr(os, 'fork')
# --- wrong
def f(): return True
# --- test
import os
kept = os.fork
del os.fork
try:
    assert f() is False
finally:
    os.fork = kept
assert f() is True

# === patched-exit-raises
import sys
def f(args):
    if not args:
        print('usage', file=sys.stderr)
        sys.exit(2)
    return args[0]
# --- wrong
def f(args): return args[0] if args else None
# --- test
import unittest
from unittest.mock import patch, Mock, MagicMock, mock_open, call, ANY
import io
class TestCases(unittest.TestCase):
    @patch('sys.exit', side_effect=SystemExit)
    @patch('sys.stderr', new_callable=io.StringIO)
    def test_it(self, err, leave):
        with self.assertRaises(SystemExit):
            f([])
        leave.assert_called_once_with(2)
        self.assertIn('usage', err.getvalue())
        self.assertEqual(f(['a']), 'a')
TestCases('test_it').debug()

# === datetime-in-module
from datetime import datetime
def f():
    return datetime.now().strftime('%Y-%m')
# --- wrong
def f(): return '2020-05'
# --- test
from datetime import datetime
from unittest.mock import patch
day = datetime(2020, 5, 17)
with patch('solution.datetime') as d:
    d.now.return_value = day
    assert f() == '2020-05'
assert f() > '2020-05'

# === date-subclass
import datetime
def f():
    return datetime.date.today().isoformat()
# --- wrong
def f(): return '2001-02-03'
# --- test
import datetime
class Fixed(datetime.date):
    @classmethod
    def today(cls):
        return cls(2001, 2, 3)
real = datetime.date
datetime.date = Fixed
try:
    assert f() == '2001-02-03'
finally:
    datetime.date = real
assert f() > '2020'

# === import-blocked
def f():
    try:
        import colorsys
    except ImportError:
        return 'none'
    return 'colour'
# --- wrong
def f(): return 'none'
# --- test
import sys
from unittest.mock import patch
with patch.dict('sys.modules', {'colorsys': None}):
    assert f() == 'none'
assert f() == 'colour'

# === threads-see-it
import threading, time
def f():
    out = []
    t = threading.Thread(target=lambda: out.append(time.time()))
    t.start(); t.join()
    return out[0]
# --- wrong
def f(): return 4.0
# --- test
from unittest.mock import patch
with patch('time.time', return_value=3.0):
    assert f() == 3.0

# === subprocess-sees-environ
import os
def f():
    r, w = os.pipe()
    if os.fork() == 0:
        os.write(w, os.environ.get('COLOR_X', '-').encode())
        os._exit(0)
    os.wait()
    return os.read(r, 20).decode()
# --- wrong
def f(): return 'red'
# --- test
import os
from unittest.mock import patch
with patch.dict(os.environ, COLOR_X='red'):
    assert f() == 'red'
assert f() == '-'
