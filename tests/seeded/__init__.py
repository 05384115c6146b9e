"""``make seeded``: whether the tests notice faults that are put into the product, one at a time."""
