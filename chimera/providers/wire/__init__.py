"""The four wire formats, as plain functions: what providers send and read, and a gateway reads.

Each module writes a request's body (`request_body`), reads an answer (`read_reply`) and reads the
conversation of somebody else's request (`read_conversation`). None of them talks to anyone.
"""
