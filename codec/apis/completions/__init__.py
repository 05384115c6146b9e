"""Legacy completions: prompts instead of messages.

:data:`codec.apis.completions.route.COMPLETIONS` is the door. Requests have a kind of their own;
answers and streams are folded as those of chats are (:mod:`codec.chat`).
"""
