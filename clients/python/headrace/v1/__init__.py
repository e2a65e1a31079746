"""The generated code of the contract, package headrace.v1."""
