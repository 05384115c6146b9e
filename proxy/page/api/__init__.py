"""The page's API: JSON out of the store, a module for each resource."""
