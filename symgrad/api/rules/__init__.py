"""Users' own derivatives and ops."""
