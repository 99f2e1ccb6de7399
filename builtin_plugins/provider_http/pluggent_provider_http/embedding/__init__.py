"""What every embedder over HTTP needs: texts in batches that the vendor takes, vectors out of answers."""
