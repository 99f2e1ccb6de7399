"""Tools that make images, speak, and write down what is said, at OpenAI and servers like it; see ``plugin``."""
