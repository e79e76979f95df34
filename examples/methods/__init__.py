"""Methods of the literature, each in one file that uses nothing but the public parts of the package."""

from examples.methods.feddr import FedDR
from examples.methods.momentum import MomentumRR
from examples.methods.nastya import Nastya
from examples.methods.proxskip import ProxSkip
from examples.methods.sarah import SarahRR
from examples.methods.scaffnew import Scaffnew
from examples.methods.scaffold import Scaffold
from examples.methods.svrg import SvrgRR

__all__ = [
    "FedDR",
    "MomentumRR",
    "Nastya",
    "ProxSkip",
    "SarahRR",
    "Scaffnew",
    "Scaffold",
    "SvrgRR",
]
