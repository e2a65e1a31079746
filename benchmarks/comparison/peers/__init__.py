"""What is compared: Headrace, and the rivals that are installed on this machine."""
