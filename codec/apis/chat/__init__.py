"""Chat completions (OpenAI, and all who speak its language): the reading of :mod:`codec.chat`.

:data:`codec.apis.chat.route.CHAT` is the door, and all that is here; three other rooms read chats
too, so that what does it stands outside.
"""
