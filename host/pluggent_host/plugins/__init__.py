"""What is installed, what of it may run, and loading it. Imports only packages to its left: common."""
