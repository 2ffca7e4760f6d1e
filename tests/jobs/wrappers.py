"""What users put between the launcher and their program, as words in front of the program's. Apptainer, and conda, are
not in Debian 12: there are stand-ins for what a launcher can notice of them."""
import os
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))

SHELL = ["sh", "-c", '"$@"; exit $?', "sh"]  # not in its last command: that one a shell executes in its own place
OWN_PIDS = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork", "--mount-proc"]
APPTAINER = ["/usr/bin/python3", os.path.join(HERE, "../slurm/fake_apptainer"), "exec"]
CONTAINER = [*APPTAINER, "--pid", HERE] if os.geteuid() == 0 else OWN_PIDS
NUMACTL = ["numactl", "--localalloc"] if shutil.which("numactl") else []

# conda run: Python runs a script that it has written, which sets variables and then calls the program.
CONDA = ["/usr/bin/python3", "-c", """import os, shlex, subprocess, sys
script = os.environ["DIR"] + f"/conda.{os.getpid()}"
with open(script, "w") as f:
    f.write("export CONDA_DEFAULT_ENV=train\\n" + shlex.join(sys.argv[1:]) + "\\n")
sys.exit(subprocess.Popen(["bash", script]).wait())"""]

ALL = [words for words in (SHELL, CONDA, OWN_PIDS, CONTAINER, NUMACTL) if words]
