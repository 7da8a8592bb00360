"""Generated wire code; `make proto` writes it."""
