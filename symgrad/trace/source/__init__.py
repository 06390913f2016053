"""The user's code: which line is running, and who called."""
