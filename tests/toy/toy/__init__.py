"""The toy API: as small as an API can be."""
