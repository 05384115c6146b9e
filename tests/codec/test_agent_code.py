"""``codec.agent_code``: code in answers, and what it gives to other agents."""

from __future__ import annotations

from codec.agent_code import find_code, find_delegations


def test_code_is_found_between_its_tags() -> None:
    """The last tag is where the model stops."""
    assert find_code("a\n<code>\nx = 1\n</code>\nb\n<code>\ny = 2") == "x = 1\n\ny = 2"
    assert find_code("```python\nx = 1\n```\nb") == "x = 1"
    assert find_code("I do not know.") is None


def test_code_gives_tasks_to_agents() -> None:
    """By position or by name."""
    code = 'a = pilot("How deep?")\nb = pilot(task=\'It\\\'s \\nlate\')\nc("""x "y" z""")\nd(1)'
    assert [*find_delegations(code)] == [
        ("pilot", "How deep?"),
        ("pilot", "It's \nlate"),
        ("c", 'x "y" z'),
    ]


def test_a_text_with_an_escape_that_is_none_is_no_task() -> None:
    """Also a code that no character has; the next call counts all the same."""
    code = 'a("\\d")\nb("\\U80000000")\nc("\\U00110000")\nd("\\U0001f600")'
    assert [*find_delegations(code)] == [("d", "\U0001f600")]
