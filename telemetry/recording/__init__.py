"""Recording: from a call that has ended to the rows of the store.

Here a call gets its position in a conversation, its span and its columns, and the run that it
belongs to gets its rows.
"""
