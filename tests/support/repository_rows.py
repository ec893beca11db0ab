"""Rows about repositories, one of each format: they are tasks, so their answers are judged in images."""

from __future__ import annotations

import json
from typing import Any

PATCH = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return 0
+    return a + b
"""
TESTS = """diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -1 +1,2 @@
 import calc
+# more
"""
SWE_ROW: dict[str, Any] = {
    "instance_id": "owner__name-1",
    "repo": "owner/name",
    "image_name": "image:1",
    "FAIL_TO_PASS": '["tests/test_calc.py::test_add"]',
    "PASS_TO_PASS": ["tests/test_calc.py::test_sub"],
    "problem_statement": "It is wrong.",
    "patch": PATCH,
    "test_patch": TESTS,
    "base_commit": "c0ffee",
}
R2E_ROW: dict[str, Any] = {
    "task_id": "r2e/1",
    "problem_statement": "x",
    "docker_image": "i",
    "expected_output_json": json.dumps(
        {"TestA.test_one": "PASSED", "\x1b[1mtest_two\x1b[0m - no": "PASSED", "test_three": "FAILED"}
    ),
}
MULTI_SWE_ROW: dict[str, Any] = {
    "org": "Owner",
    "repo": "name",
    "number": 7,
    "title": "t",
    "body": "b",
    "test_patch": TESTS,
    "fix_patch": PATCH,
    "lang": "go",
    "fixed_tests": {"TestA": {"run": "FAIL"}, "TestNone": None},
    "p2p_tests": {"TestB": {"run": "PASS"}},
}
REPOSITORY_ROWS = {"SWE-bench": SWE_ROW, "R2E-Gym": R2E_ROW, "Multi-SWE-bench": MULTI_SWE_ROW}
"""By the name of their format."""
