"""Principal-component mechanisms."""
