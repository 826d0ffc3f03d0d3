"""The default: what is trained, on which rows, and how members are combined."""
