"""Transcriptions and translations: what was said in a recording, as text.

See ``docs/contract/apis.md#sound``. Requests are forms with a file, or JSON; answers are JSON, bare
text or events, in the words of OpenAI and of Mistral.

Doors: ``route``.
"""
