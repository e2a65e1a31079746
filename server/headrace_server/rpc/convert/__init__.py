"""Between the contract and the front's own types, with every check that needs no model. Pure."""
