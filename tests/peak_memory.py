"""Code for processes of which a test wants to know how much memory they took."""

PEAK = """
import resource
def peak():
    try:  # unlike ru_maxrss, it does not begin with what the parent had when it started this process
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
"""Defines ``peak()``: kilobytes that this process has had in memory at most."""
