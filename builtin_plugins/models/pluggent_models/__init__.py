"""What is known of models before one is asked: prices, windows, modalities, efforts, API. See README.md."""
