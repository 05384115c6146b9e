"""``docs/interception.md`` says on which side each client of the matrix is."""

from __future__ import annotations

from tests.clients.intercepted.other_clients import OTHER_CLIENTS
from tests.clients.intercepted.python_clients import PYTHON_CLIENTS
from tests.docs.blocks import DOCS, Page

_HEAD = "| For | Client | Side | Trusts the run by |\n|---|---|---|---|\n"


def build_table() -> str:
    """Build the table: a row for the clients of a language that are alike."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for client in (*PYTHON_CLIENTS, *OTHER_CLIENTS):
        variables = " or ".join(f"`{name}`" for name in client.trusts_by)
        groups.setdefault((client.language, client.side, variables), []).append(client.name)
    return _HEAD + "".join(
        f"| {language} | {', '.join(names)} | {side} | {variables} |\n".replace("  |", " |")
        for (language, side, variables), names in groups.items()
    )


def test_the_page_has_the_side_of_each_client() -> None:
    """And the variables by which it trusts a run, as ``tests/clients/intercepted`` finds them."""
    assert build_table() + "\n" in Page(DOCS / "interception.md").text
