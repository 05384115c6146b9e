"""The observer: tap frames in, one :class:`Exchange` out, sans-IO.

Every ``end`` frame of an exchange that was begun gives exactly one record (R3); frames of an
unknown exchange are dropped. No frame makes the observer raise: bytes that cannot be understood
become an anomaly, and after a defect of ours the record has no content and the anomaly
``observer_failed`` (R2).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from telemetry.frames.ending import EndKind
from telemetry.frames.frame import Begin, End, Frame, RequestBody, ResponseData, ResponseHead
from telemetry.observing.client_context import HeaderMap
from telemetry.observing.crash_counter import CrashCounter
from telemetry.observing.encryption import OWN_CIPHER
from telemetry.observing.heads import AllowedFields
from telemetry.observing.observation import Observation
from telemetry.observing.open_bodies import OpenBodies
from telemetry.privacy.credentials import NO_CREDENTIALS, Credentials
from telemetry.privacy.head_credentials import find_head_credentials, read_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from telemetry.observing.encryption import Cipher
    from telemetry.observing.exchange import Exchange
    from telemetry.observing.open_call import OpenExchange
    from telemetry.observing.raw_answer import RawCapture

MAX_KEPT_HEADS = 64
"""The number of heads whose credentials are remembered: most calls have the same head."""


class Observer:
    """All open exchanges of one source of frames.

    Args:
        on_failure: called with a defect of ours, once per exchange; the error may quote content.
        header_map: which request headers describe a call.
        allowed_fields: which fields of both heads are recorded; by default those of the list.
        hides_inputs: requests are not shown, so nothing is read from their bodies.
        keeps_pictures: pictures of answers are kept, as long as there is room.
        keeps_sound: sound of sessions is kept.
        capture_raw: makes what keeps the true bytes of an answer; ``None`` if nobody wants them.
        bodies: the room for bodies, shared with other observers.
        crashes: which exchanges telemetry has died of.
        cipher: decrypts what may be credentials.
        on_end: called with each exchange that ends, before its content is forgotten; it must not
            raise.
    """

    def __init__(
        self,
        on_failure: Callable[[Exception], None] = lambda _: None,
        *,
        header_map: HeaderMap | None = None,
        allowed_fields: AllowedFields | None = None,
        hides_inputs: bool = False,
        keeps_pictures: bool = False,
        keeps_sound: bool = False,
        capture_raw: Callable[[OpenBodies], RawCapture] | None = None,
        bodies: OpenBodies | None = None,
        crashes: CrashCounter | None = None,
        cipher: Cipher = OWN_CIPHER,
        on_end: Callable[[Observation], None] = lambda _: None,
    ) -> None:
        self._on_end = on_end
        self._crashes = CrashCounter() if crashes is None else crashes
        self._cipher = cipher
        self._find_credentials = lru_cache(MAX_KEPT_HEADS)(self._open_credentials)
        self.bodies = OpenBodies() if bodies is None else bodies
        self._open: dict[int, Observation] = {}
        self.on_failure = on_failure
        self._header_map = header_map or HeaderMap.build()
        self._allowed_fields = allowed_fields or AllowedFields()
        self._hides_inputs = hides_inputs
        self._keeps_pictures = keeps_pictures
        self.keeps_sound = keeps_sound
        self._capture_raw = capture_raw

    def __len__(self) -> int:
        return len(self._open)

    def look(self) -> list[OpenExchange]:
        """Look at all that is open; any thread may."""
        # One step of the interpreter makes the tuple: the dictionary may change meanwhile.
        return [observation.look() for observation in tuple(self._open.values())]

    def observations(self) -> Sequence[Observation]:
        """Return all that is open, as it came."""
        return tuple(self._open.values())

    def feed(self, frame: Frame) -> Exchange | None:
        """Observe the next frame; return the record if it was the exchange's last."""
        observation = self._open.get(frame.exchange)
        if observation is None:
            if type(frame) is Begin:
                self._open[frame.exchange] = self._begin(frame)
            return None
        try:
            feed = _FEEDS.get(type(frame))
            if feed is not None:
                feed(observation, frame)
            elif type(frame) is End:
                return self._end(observation, frame)
            elif type(frame) is Begin:
                self.forget(frame.exchange)
                self._open[frame.exchange] = self._begin(frame)
        except Exception as error:  # noqa: BLE001 - no frame makes the observer raise
            self.on_failure(error)
            observation.give_up()
        return None

    def _begin(self, frame: Begin) -> Observation:
        credentials = self._find_credentials(frame.encrypted) if frame.encrypted else NO_CREDENTIALS
        return Observation(
            frame,
            self._header_map,
            self._allowed_fields,
            self.bodies,
            self._crashes,
            credentials=credentials,
            hides_inputs=self._hides_inputs,
            keeps_pictures=self._keeps_pictures,
            keeps_sound=self.keeps_sound,
            capture_raw=self._capture_raw,
        )

    def _open_credentials(self, encrypted: bytes) -> Credentials:
        try:
            fields = self._cipher.decrypt(encrypted)  # unreadable after a restart: the key is gone
            if fields is not None:
                return find_head_credentials(read_fields(fields))
        except Exception as error:  # noqa: BLE001 - no frame makes the observer raise
            self.on_failure(error)
        return Credentials(unknown=True)

    def forget(self, number: int) -> None:
        """Forget an exchange without a record; an unknown one is ignored."""
        if (observation := self._open.pop(number, None)) is not None:
            observation.close()

    def forget_all(self) -> None:
        """Forget all that is open without a record."""
        for number in tuple(self._open):
            self.forget(number)

    def lose(self, at_ns: int, message: str) -> list[tuple[int, Exchange]]:
        """End all open exchanges, because their worker is gone; return numbers and records (R3).

        The `message` says how the worker ended; the end was noticed at `at_ns`.
        """
        ends = [
            End(
                exchange=number,
                at_ns=max(at_ns, observation.begin_ns),
                kind=EndKind.WORKER_LOST,
                message=message,
            )
            for number, observation in self._open.items()
        ]
        exchanges = [(end.exchange, self.feed(end)) for end in ends]
        return [(number, exchange) for number, exchange in exchanges if exchange is not None]

    def _end(self, observation: Observation, end: End) -> Exchange:
        """Make the record; without content if that fails."""
        del self._open[end.exchange]
        self._on_end(observation)
        try:
            with observation.at_work():
                return observation.end(end)
        except Exception as error:  # noqa: BLE001 - no frame makes the observer raise
            self.on_failure(error)
        finally:
            observation.close()
        observation.give_up()
        return observation.end(end)


_FEEDS: dict[type[Frame], Callable[[Observation, Any], None]] = {
    ResponseData: Observation.feed_data,
    RequestBody: Observation.feed_request,
    ResponseHead: Observation.feed_head,
}
"""The steps for frames between an exchange's first and last."""
