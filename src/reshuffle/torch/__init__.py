"""PyTorch: an optimiser with one prox for many gradient steps, and a sampler with seeded, resumable orders."""

from reshuffle.errors import extra

with extra("torch", "torch", "reshuffle.torch"):
    from reshuffle.torch.channels import channels as channels
    from reshuffle.torch.optimizer import ProxRR as ProxRR
    from reshuffle.torch.sampler import OrderSampler as OrderSampler

__all__ = ["OrderSampler", "ProxRR", "channels"]
