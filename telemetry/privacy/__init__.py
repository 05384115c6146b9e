"""Privacy: what must not be shown is taken out of a span's finished attributes.

:mod:`telemetry.privacy.switches` says what is to be hidden, and :mod:`telemetry.privacy.hiding`
does so with each attribute. :mod:`telemetry.privacy.images` and :mod:`telemetry.privacy.redaction`
take images and patterns out of the rest. :class:`telemetry.privacy.mask.Mask` does it all.

Doors: ``aws_signature``, ``body_credentials``, ``credential_names``, ``credentials``,
``head_credentials``, ``hiding``, ``json_strings``, ``mask``, ``path_keys``, ``redaction``,
``switches``.
"""
