"""The broker process: its application, forwarding, membership."""
