"""The description of the HTTP API for programs, made from the tables that the API is made of."""
