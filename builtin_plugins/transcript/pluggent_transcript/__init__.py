"""What a session records: its entries, its approvals, their bytes, and the conversation rebuilt from them."""
