"""A run over many machines: `fleet` decides, `node` works, `ray` carries between them."""
