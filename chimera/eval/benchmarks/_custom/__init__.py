"""What only custom tasks use."""
