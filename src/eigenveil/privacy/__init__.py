"""What privacy means and costs. Scalars only; no array enters this layer."""
