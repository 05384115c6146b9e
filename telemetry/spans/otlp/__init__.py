"""OTLP: a span as the bytes that the protocol sends, written without the SDK's steps in between."""
