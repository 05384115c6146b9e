"""Images: made of a prompt, edited, or varied (``docs/contract/apis.md#images``).

:data:`codec.apis.images.route.IMAGES` is the door. Requests are JSON, or forms with files; answers
are JSON or events, with images as URLs or in base64, of which what is long is only counted.
"""
