"""Privacy: what must not be shown is taken out of a span's finished attributes.

:mod:`telemetry.privacy.switches` says what is to be hidden, :mod:`telemetry.privacy.hiding` how
each attribute follows, :mod:`telemetry.privacy.images` and :mod:`telemetry.privacy.redaction` what
is taken out of the rest; :class:`telemetry.privacy.mask.Mask` is all of it in one.
"""
