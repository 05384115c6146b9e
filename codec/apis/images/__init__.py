"""Images: made of a prompt, edited, or varied (``docs/contract/apis.md#images``).

Requests are JSON, or forms with files; answers are JSON or events, with images as URLs or in
base64. Long base64 is only counted.

Doors: ``route``.
"""
