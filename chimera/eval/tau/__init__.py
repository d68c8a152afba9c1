"""The worlds of tau-bench and tau2-bench: databases, tools, users, conversations, rewards.

`kernel` is what every domain shares; `airline`, `retail`, `telecom`, `banking` and `mock` are the
domains; `legacy` holds the two domains of the first tau-bench, whose texts and rules differ.
`conversation` runs a dialogue by the official turn rules and `rewards` decides what it is worth.
"""
