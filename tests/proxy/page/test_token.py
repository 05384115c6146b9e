"""The check of tokens, cookies and tickets."""

from __future__ import annotations

from proxy.page.token import MAX_TICKETS, TokenCheck
from proxy.page_access.digests import TICKET_SECONDS, digest_token, make_ticket

DIGEST = digest_token("the-token-of-this-store")


class _Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_cookie_holds_after_a_restart_and_until_there_is_another_token() -> None:
    """It is made from the token and the port, and tells neither."""
    check, again = (TokenCheck(DIGEST, 4002, _Clock()) for _ in range(2))
    assert again.accepts_cookie(check.cookie)
    assert check.cookie_name == "spantap-page-4002"
    assert not TokenCheck(DIGEST, 4003, _Clock()).accepts_cookie(check.cookie)
    assert not TokenCheck(digest_token("another"), 4002, _Clock()).accepts_cookie(check.cookie)
    assert not check.accepts_token(check.cookie)
    assert not check.accepts_cookie("the-token-of-this-store")


def test_what_is_shown_may_be_anything() -> None:
    """A header may hold any byte, and a body any character: none of it is the token."""
    check = TokenCheck(DIGEST, 4002, _Clock())
    for shown in ("", "\udcff", "\0", "é" * 5000, "ticket.", "ticket.1.2.3"):
        assert not check.takes(shown)
        assert not check.accepts_cookie(shown)


def test_a_ticket_is_taken_once_and_for_a_minute() -> None:
    """Whoever saw it in a browser's arguments comes too late."""
    clock = _Clock()
    check = TokenCheck(DIGEST, 4002, clock)
    ticket, late = make_ticket(DIGEST, clock.now), make_ticket(DIGEST, clock.now)
    assert not check.accepts_token(ticket)  # as a bearer it would hold for ever
    assert check.takes(ticket)
    assert not check.takes(ticket)
    clock.now += TICKET_SECONDS + 1
    assert not check.takes(late)
    assert not check.takes(ticket)


def test_a_ticket_is_not_taken_from_a_stranger_nor_used_up_by_one() -> None:
    """Whoever read it in the arguments is refused, and the browser comes in."""
    clock = _Clock()
    check = TokenCheck(DIGEST, 4002, clock)
    ticket = make_ticket(DIGEST, clock.now)
    assert not check.takes(ticket, lambda: True)
    assert check.takes(ticket, lambda: False)
    assert check.takes("the-token-of-this-store", lambda: True)  # as by a forwarded port


def test_a_ticket_of_another_token_or_time_is_not_taken() -> None:
    """Nothing in it can be changed."""
    clock = _Clock()
    check = TokenCheck(DIGEST, 4002, clock)
    assert not check.takes(make_ticket(digest_token("another"), clock.now))
    word, until, nonce, signature = make_ticket(DIGEST, clock.now).split(".")
    assert not check.takes(f"{word}.{int(until) + 1}.{nonce}.{signature}")
    assert not check.takes(f"{word}.{until}.{'0' * 32}.{signature}")


def test_used_tickets_are_forgotten_when_they_hold_no_more() -> None:
    """What is remembered of them is bounded, and the bound lets none in twice."""
    clock = _Clock()
    check = TokenCheck(DIGEST, 4002, clock)
    tickets = [make_ticket(DIGEST, clock.now) for _ in range(MAX_TICKETS + 1)]
    assert [check.takes(ticket) for ticket in tickets] == [True] * MAX_TICKETS + [False]
    clock.now += TICKET_SECONDS + 1
    assert check.takes(make_ticket(DIGEST, clock.now))
    assert not check.takes(tickets[0])


def test_without_a_token_everybody_is_let_in() -> None:
    """``SPANTAP_PAGE_TOKEN=none``; nobody can make a ticket that means anything, either."""
    check = TokenCheck(None, 4002, _Clock())
    assert check.is_open
    assert check.accepts_token("")
    assert check.accepts_cookie("")
