"""Chat completions: a conversation becomes messages of a request, an answer or its stream becomes a reply."""
