"""Log lines of the OpenTelemetry SDK, without the content that they quote (R7).

Its messages quote their input, such as a client's ``tracestate``, or an attribute that cannot be
encoded. So only the logger, the line and the message's fixed text are logged, with an ellipsis for
each argument; no exception, and no message that was formatted before.
"""

from __future__ import annotations

import logging
import re

_log = logging.getLogger("spantap.telemetry")

_DIRECTIVE = re.compile(r"%(?:\(\w+\))?[#0 +-]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[hlL]?[a-zA-Z]")
"""A place where ``%`` formatting puts an argument."""


def quiet_sdk_logs() -> None:
    """Log warnings of the ``opentelemetry`` loggers without what they quote."""
    sdk = logging.getLogger("opentelemetry")
    sdk.propagate = False
    sdk.handlers = [_SdkLogHandler()]


class _SdkLogHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        # Each line of the SDK's code is logged once per process: we or the settings are the cause,
        # and no client can fill the log with it.
        self._logged: set[tuple[str, int]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        place = (record.name, record.lineno)
        if place in self._logged:
            return
        self._logged.add(place)
        text = fixed_text(str(record.msg)) if record.args else "(no fixed text)"
        _log.log(record.levelno, "OpenTelemetry's SDK says (once) at %s:%d: %s", *place, text)


def fixed_text(template: str) -> str:
    """Replace each ``%`` directive of a log message by an ellipsis."""
    # Piece by piece: the second half of an escaped per cent sign begins no directive.
    return "%".join(_DIRECTIVE.sub("...", piece) for piece in template.split("%%"))
