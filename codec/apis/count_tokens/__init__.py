"""Counting tokens of a request to Anthropic's Messages, without asking the model."""
