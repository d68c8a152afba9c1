"""The worlds of tau-bench and tau2-bench: databases, tools, users, conversations, rewards.

`kernel` is what every domain shares; `airline`, `retail`, `telecom` (with `phone`), `banking` (with
`bank…` and `knowledge`) and `mock` are the domains; `legacy` states what differs in the first
tau-bench. `environment` runs a dialogue by the official turn rules, `rewards` and `submissions`
decide what it is worth, and `benchmark` is what both adapters share.
"""
