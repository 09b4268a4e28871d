"""Components and covariances of tables whose owners never pool them."""
