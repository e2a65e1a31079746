"""What the gateway tells Prometheus."""
