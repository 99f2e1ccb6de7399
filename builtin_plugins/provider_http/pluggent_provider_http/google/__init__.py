"""What Google's services need besides plain HTTP: access tokens, and the addresses of Vertex AI."""
