"""Arrays and arithmetic; nothing here knows about privacy."""
