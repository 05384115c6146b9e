"""Privacy: removes from a span's finished attributes whatever must not be shown.

:mod:`telemetry.privacy.switches` says what is to be hidden, and :mod:`telemetry.privacy.hiding`
hides it in each attribute. :mod:`telemetry.privacy.images` and :mod:`telemetry.privacy.redaction`
remove images and patterns from the rest. :class:`telemetry.privacy.mask.Mask` calls them all.

Doors: ``aws_signature``, ``body_credentials``, ``credential_names``, ``credentials``,
``head_credentials``, ``hiding``, ``json_strings``, ``mask``, ``path_keys``, ``redaction``,
``switches``.
"""
