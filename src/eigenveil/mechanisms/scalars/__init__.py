"""Private numbers that other mechanisms are built on."""
