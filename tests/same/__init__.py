"""``make same BEFORE=<commit>``: two versions of spantap side by side, to find what differs.

Each version runs from a checkout, as its users run it: recorded exchanges go through its proxy, and
its commands and its page read stores. Nothing here imports the product, so that it may be rebuilt.
"""
