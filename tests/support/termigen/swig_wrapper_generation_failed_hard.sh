#!/bin/bash
cd /workspace/mathtools
sed -i '1i %module mathtools' mathtools.i
echo 'int add(int a, int b);' > mathtools.h
cat > setup.py <<'END'
from distutils.core import Extension, setup

setup(name="mathtools", ext_modules=[Extension("_mathtools", ["mathtools.i", "mathtools.c"])], py_modules=["mathtools"])
END
python3 setup.py build_ext --inplace && python3 -c 'import mathtools; assert mathtools.add(2, 3) == 5'
echo '%module mathtools' > /workspace/solution.txt
