"""Runs and batches that outlive a process, for tests: vendors in memory and over HTTP, and suites for providers."""
