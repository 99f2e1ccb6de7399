"""The catalog of models on the command line: what is known without asking a provider."""
