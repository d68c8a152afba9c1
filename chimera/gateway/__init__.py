"""A recording proxy for programs that talk to models: metered, bounded, and the keys stay here."""
