"""What Amazon's services need beside plain HTTP: signed requests, credentials, event streams."""
