"""Speech: a text, spoken (``docs/contract/apis.md#sound``).

:data:`codec.apis.speech.route.SPEECH` is the door. The answer is bytes, of which only the number is
known here, events with pieces of sound, or Mistral's JSON. No sound is kept.
"""
