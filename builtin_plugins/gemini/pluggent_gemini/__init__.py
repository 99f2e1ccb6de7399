"""Google's Gemini models through generateContent, by key or at Vertex AI, as a pluggent provider; see ``plugin``."""
