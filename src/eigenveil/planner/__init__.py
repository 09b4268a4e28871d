"""What a release will be like, from public numbers: its stages, its error, which mechanism."""
