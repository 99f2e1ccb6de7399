"""Values of the contract: as JSON and back, made of what tools return, asked of a person, without broken text."""
