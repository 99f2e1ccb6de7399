"""Embedders of vendors that have no chat models here: Cohere and Voyage. See README.md."""
