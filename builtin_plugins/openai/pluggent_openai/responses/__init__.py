"""OpenAI's Responses API: a conversation becomes input items, output items or their stream become a reply."""
