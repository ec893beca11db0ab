"""An audit of a page in a real browser: nothing cut off, nothing unreachable by keyboard, nothing without a name.

It knows no page. It walks all elements and texts as they are laid out (`audit.js`), reads the tree that a screen reader
gets, and presses Tab and the arrow keys until it has been everywhere. A fault is a line of text that names its kind and
the element.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
_NAMED = {
    "button", "checkbox", "combobox", "dialog", "figure", "grid", "heading", "image", "img", "link", "listbox",
    "menuitem", "meter", "option", "progressbar", "radio", "region", "searchbox", "slider", "spinbutton", "switch",
    "tab", "textbox", "Canvas", "DisclosureTriangle", "Iframe",
}  # fmt: skip
_LANDMARKS = {"banner", "complementary", "contentinfo", "form", "navigation", "region", "search"}
_WITHOUT_ROLE = {"generic", "none", "Section", "paragraph", "Pre", "LabelText", "LayoutTable"}
_MOST_MEMBERS = 400


def audit(page: Any, *, has_walk: bool = True) -> list[str]:
    """What is wrong with a page.

    Returns:
        A line for each fault; none if nothing is wrong.
    """
    client = page.context.new_cdp_session(page)
    try:
        _evaluated(client, _SCRIPT)
        faults: list[str] = _evaluated(client, "sandrlAudit.look()")
        faults += _faults_of_tree(client)
        if has_walk:
            faults += _faults_of_walk(client)
            faults += _faults_of_dialogs(page)
        return list(dict.fromkeys(faults))
    finally:
        client.detach()


def _evaluated(client: Any, expression: str) -> Any:
    # With the tools of a console, which know the listeners of an element.
    answer = client.send(
        "Runtime.evaluate",
        {"expression": expression, "returnByValue": True, "awaitPromise": True, "includeCommandLineAPI": True},
    )
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    return answer["result"].get("value")


def _faults_of_tree(client: Any) -> list[str]:
    nodes = client.send("Accessibility.getFullAXTree")["nodes"]
    faults, landmarks = [], Counter[tuple[str, str]]()
    for node in nodes:
        role, name = node.get("role", {}).get("value", ""), node.get("name", {}).get("value", "") or ""
        facts = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
        what = f"{role} {name!r}"
        if node.get("ignored"):
            if facts.get("focusable"):
                faults.append(f"name: what can have the focus is hidden from screen readers: {what}")
            continue
        if role in _NAMED and not re.search(r"\w", name):
            faults.append(f"name: {what} says nothing")
        if facts.get("focusable") and role in _WITHOUT_ROLE:
            faults.append(f"name: what can have the focus has no role: {what}")
        if role in _LANDMARKS:
            landmarks[role, name] += 1
    faults += [
        f"name: {count} {role} of the same name {name!r}" for (role, name), count in landmarks.items() if count > 1
    ]
    return faults


def _press(client: Any, key: str, *, shift: bool = False) -> None:
    codes = {"Tab": 9, "ArrowDown": 40, "ArrowRight": 39, "Home": 36}
    event = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 * shift}
    client.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **event})
    client.send("Input.dispatchKeyEvent", {"type": "keyUp", **event})


def _faults_of_walk(client: Any) -> list[str]:
    faults: list[str] = []
    for is_back in (False, True):
        wanted = _evaluated(client, "sandrlAudit.start()")
        for count in range(4 * wanted + 20):
            _press(client, "Tab", shift=is_back)
            if count >= wanted // 2 and count % 4 == 0 and _evaluated(client, "sandrlAudit.isOver()"):
                break
        else:
            faults.append("unreachable: Tab does not come to an end")
        for number in range(0 if is_back else _evaluated(client, "sandrlAudit.composites()")):
            is_grid = _evaluated(client, f"sandrlAudit.enter({number})")
            for _ in range(_MOST_MEMBERS):
                if is_grid:
                    _move_on(client, "ArrowRight")
                    _press(client, "Home")
                is_end = not _move_on(client, "ArrowDown", most=1)
                if is_end and (is_grid or not _move_on(client, "ArrowRight", most=1)):
                    break
        found = _evaluated(client, "sandrlAudit.end()")
        faults += [fault for fault in found if not (is_back and fault.startswith(("unreachable", "order")))]
    return faults


def _move_on(client: Any, key: str, *, most: int = _MOST_MEMBERS) -> bool:
    for _ in range(most):
        _press(client, key)
        if not _evaluated(client, "sandrlAudit.hasMoved()"):
            return False
    return True


def _faults_of_dialogs(page: Any) -> list[str]:
    faults = []
    for button in page.locator("[aria-haspopup=dialog]:visible").all():
        name = button.get_attribute("aria-label") or button.inner_text()
        button.focus()
        page.keyboard.press("Enter")
        if not page.evaluate("Boolean(document.activeElement.closest('dialog, [role=dialog]'))"):
            faults.append(f"unreachable: the dialog of {name!r} does not take the focus")
        else:
            faults += [f"in the dialog of {name!r}: {fault}" for fault in audit(page, has_walk=False)]
        page.keyboard.press("Escape")
        if page.locator("dialog[open], [role=dialog]:visible").count():
            faults.append(f"unreachable: Escape does not close the dialog of {name!r}")
        elif not button.evaluate("button => document.activeElement === button"):
            faults.append(f"focus: it does not return to {name!r} when the dialog is closed")
    return faults
