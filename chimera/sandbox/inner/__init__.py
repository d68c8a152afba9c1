"""What runs inside the sandbox. Standard library only: it is loaded by a bare interpreter there."""
