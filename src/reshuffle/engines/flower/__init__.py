"""Clients behind a Flower Grid: nodes of a SuperLink, simulated or on machines of their own."""

from reshuffle.engines.flower.nodes import Node, Nodes
from reshuffle.engines.flower.session import Flower, FlowerSession

__all__ = ["Flower", "FlowerSession", "Node", "Nodes"]
