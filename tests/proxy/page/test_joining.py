"""The page's modules as one script: scopes, order, forms of imports, comments."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from proxy.page.joining import join_modules, join_sheets

_PART = re.compile(
    r"^// (\w+)\.js\nconst \$\1 = (.*?)^return \{ (.*?) \};$", re.MULTILINE | re.DOTALL
)
_STATIC = resources.files("proxy.page").joinpath("static")


def _read_modules() -> dict[str, str]:
    return {
        file.name.removesuffix(".js"): file.read_text(encoding="utf-8")
        for file in _STATIC.iterdir()
        if file.name.endswith(".js")
    }


def test_module_is_a_function_that_returns_what_it_exports() -> None:
    """Names of one module are not those of another, but for what it imports."""
    sources = {
        "app": 'import { tell } from "./words.js";\nimport "./mark.js";\n'
        "const text = 1;\ntell(text);\n",
        "mark": 'import { tell, TEXT } from "./words.js";\ntell(TEXT);\n',
        "words": "const text = 2;\nexport const TEXT = `${text}`;\n"
        "export async function tell(words) {}\nexport class Words {}\n",
    }
    assert join_modules(sources, "app") == (
        "// words.js\nconst $words = (() => {\nconst text = 2;\nconst TEXT = `${text}`;\n"
        "async function tell(words) {}\nclass Words {}\nreturn { TEXT, tell, Words };\n})();\n"
        "// mark.js\nconst $mark = (() => {\nconst { tell, TEXT } = $words;\ntell(TEXT);\n"
        "return {  };\n})();\n"
        "// app.js\nconst $app = (() => {\nconst { tell } = $words;\nconst text = 1;\ntell(text);\n"
        "return {  };\n})();\n"
    )


@pytest.mark.parametrize(
    "source",
    [
        'import words from "./words.js";\n',
        'import * as words from "./words.js";\n',
        'import { tell as say } from "./words.js";\n',
        'import { tell } from "https://example.com/words.js";\n',
        "export default 1;\n",
        "export let count = 0;\n",
        "export { tell };\n",
        'export * from "./words.js";\n',
    ],
)
def test_other_forms_are_refused(source: str) -> None:
    """What would not mean the same in a function is an error that names it."""
    with pytest.raises(ValueError, match=re.escape(source.partition("\n")[0])):
        join_modules({"app": source, "words": ""}, "app")


def test_modules_that_import_each_other_are_refused() -> None:
    """No order is right for them."""
    sources = {name: f'import "./{then}.js";\n' for name, then in ("ab", "bc", "cb")}
    with pytest.raises(ValueError, match=r"^b\.js imports itself, by b and c$"):
        join_modules(sources, "a")


def test_comments_with_lines_of_their_own_are_left_out() -> None:
    """Others stand beside code, and texts that look like one are none."""
    source = (
        "/**\n * Of the module. **\n */\n// a line\nconst a = /** @type {any} */ (b); // why\n"
        "  /* one */\n/** @type {A} */ (a).b();\nconst c = 'http://d';\n"
    )
    left = "const a = /** @type {any} */ (b); // why\n/** @type {A} */ (a).b();\nconst c = 'http://d';\n"
    assert left in join_modules({"app": source}, "app")
    hidden = "/*\nexport const b = 1;\n*/\nexport const a = 1; // the end"
    assert "const a = 1; // the end\nreturn { a };\n" in join_modules({"app": hidden}, "app")
    assert join_sheets(["/* one\n two */\na { }\n", "b { } /* c */\n"]) == "a { }\nb { } /* c */\n"


def test_page_has_all_modules_and_all_that_they_take_from_each_other() -> None:
    """Each is there once, behind those that it imports, and none is left behind."""
    modules = _read_modules()
    script = join_modules(modules, "app")
    parts = _PART.findall(script)
    given: dict[str, set[str]] = {}
    for name, body, exported in parts:
        for names, module in re.findall(r"^const \{ (.*) \} = \$(\w+);$", body, re.MULTILINE):
            assert {*names.split(", ")} <= given[module], (name, module)
        given[name] = {*exported.split(", ")}
    assert len(given) == len(parts) == len(modules)
