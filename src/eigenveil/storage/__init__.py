"""Durable files: what must survive a crash, and be one thing under all its names."""
