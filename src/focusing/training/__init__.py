"""How a network is trained, measured, stopped and resumed."""
