"""What every environment must hold to, as functions that raise when it does not."""
