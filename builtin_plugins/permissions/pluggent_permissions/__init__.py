"""What agents may do, written as rules: deny, ask, allow."""
