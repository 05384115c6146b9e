"""Pricing: what a call cost, in US dollars (``docs/contract/spans.md#cost``).

:class:`telemetry.pricing.pricing.Pricing` asks the answer, then the user's
:mod:`price table <telemetry.pricing.price_table>`, then the bundled
:mod:`catalogue <telemetry.pricing.catalogue>`; :mod:`telemetry.pricing.billing` does the sums and
:mod:`telemetry.pricing.span_cost` is the result, with its attributes.

Doors: ``catalogue``, ``price_table``, ``pricing``, ``repricing``, ``span_cost``.
"""
