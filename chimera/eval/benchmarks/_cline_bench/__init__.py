"""What only the Cline Bench adapter uses."""
