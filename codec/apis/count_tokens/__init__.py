"""Token counts: Anthropic says how long a request is, without asking the model.

:data:`codec.apis.count_tokens.route.COUNT_TOKENS` is the door; the player answers for the demo.
"""
