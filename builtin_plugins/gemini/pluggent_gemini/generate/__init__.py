"""generateContent: contents and parts."""
