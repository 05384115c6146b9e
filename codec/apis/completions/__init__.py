"""Legacy completions: prompts instead of messages."""
