"""Spans: an exchange becomes the attributes of one span, in two vocabularies.

:class:`telemetry.spans.recorder.SpanRecorder` makes spans. OpenInference's names and
OpenTelemetry's come from one table (:mod:`telemetry.spans.vocabulary`);
:class:`telemetry.spans.rules.SpanRules` says what is hidden and what is cut.

Doors: ``call_words``, ``columns``, ``genai_messages``, ``keep_rules``, ``message_attributes``,
``open_calls``, ``otlp``, ``recorder``, ``rules``, ``run_spans``, ``run_texts``, ``size_limits``,
``text_tools``, ``value_texts``, ``wrappers``.
"""
