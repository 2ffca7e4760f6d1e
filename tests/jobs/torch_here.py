"""For tests of jobs of PyTorch: imported first, it ends the script, skipped, where there is no PyTorch that can run them."""
import jobs

try:
    import torch.distributed
    if not torch.distributed.is_available():
        raise ImportError("torch was built without distributed")
except ImportError as missing:
    jobs.skip(f"{missing} (Debian: python3-torch)")
