"""The hang that a script is told of: in generation N the Nth of its arguments, KIND:RANK:STEP, and none after the last.
Notes in $HUNG when it hangs. $STEPS: how many; $PAUSE: seconds in each."""
import os
import sys
import time

if os.environ.get("CXXRUN_PACKAGE"):
    sys.path.insert(0, os.environ["CXXRUN_PACKAGE"])
    import cxxrun
    cxxrun.install()

STEPS, PAUSE = int(os.environ.get("STEPS", "12")), float(os.environ.get("PAUSE", "0"))
kind, rank, step = (sys.argv + ["none:0:0"] * 9)[int(os.environ["CXXRUN_GENERATION"])].split(":")
MINE = kind if int(rank) == int(os.environ["RANK"]) else "none"
STEP = int(step)


def note():
    with open(os.environ["HUNG"], "a") as file:
        file.write(f"{os.environ['CXXRUN_GENERATION']} {time.time()}\n")


def for_ever():
    note()
    while True:
        time.sleep(1000)
