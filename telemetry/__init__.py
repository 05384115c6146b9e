"""What an exchange looks like to an observability backend: records, spans, the store."""
