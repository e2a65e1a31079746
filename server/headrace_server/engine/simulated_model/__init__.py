"""The files that the simulated runner reports as its model directory."""
