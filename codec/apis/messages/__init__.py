"""Messages: Anthropic's API, as a provider of its own, on Bedrock, Vertex AI and gateways."""
