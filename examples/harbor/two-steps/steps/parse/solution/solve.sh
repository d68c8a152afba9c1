#!/bin/bash
cat > /app/bill.py <<'END'
def items(text):
    pairs = (line.split(",") for line in text.splitlines())
    return [(name, int(price)) for name, price in pairs]
END
