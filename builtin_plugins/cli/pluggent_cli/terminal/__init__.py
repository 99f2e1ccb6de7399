"""What a terminal shows and reads: streams, Markdown, lines drawn in place, prompts."""
