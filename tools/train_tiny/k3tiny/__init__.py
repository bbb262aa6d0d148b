"""Training of a very small model of Kimi K3's architecture on two English books."""
