"""What a script is likely to need, imported before it is there. Only imports may stand here, see preload.py.

The first DistributedDataParallel of a process imports torch._dynamo, some 800 modules and 2 s of work: it is here too.
"""

import numpy  # noqa: F401
import psutil  # noqa: F401
import torch._dynamo  # noqa: F401
import torch.distributed  # noqa: F401
import torch.nn.parallel.distributed  # noqa: F401
import torch.utils.data.distributed  # noqa: F401

from ..teaching import data  # noqa: F401
