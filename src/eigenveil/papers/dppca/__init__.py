"""Liu, Kong, Jain, Oh 2022 [DPPCA]: DP-PCA for one component."""
