"""What becomes of a document: its kind and characters, the Markdown of a page, and the frame around it."""
