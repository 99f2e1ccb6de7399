"""The cases that WireConformance is made of."""
