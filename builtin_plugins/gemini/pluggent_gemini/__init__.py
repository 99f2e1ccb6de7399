"""Google's Gemini models through generateContent or Interactions, as a pluggent provider; see ``plugin``."""
