"""The configuration files of a test cluster, as text. Pure: nothing here touches the machine.

What each setting is for stands beside it; whatever a test passes as `config` replaces the line of the same key, and
None removes it."""

NETWORK = "10.9.0"
LOGIN = "login"
PARTITION = "all"


def node_names(count):
    return [f"node{number}" for number in range(1, count + 1)]


def address(machine):
    return f"{NETWORK}.{254 if machine == LOGIN else int(machine.removeprefix('node'))}"


def hosts(count):
    lines = ["127.0.0.1 localhost"]
    lines += [f"{address(machine)} {machine}" for machine in [LOGIN, *node_names(count)]]
    return "\n".join(lines) + "\n"


def settings(base, proctrack, unified):
    """Keys of slurm.conf and their values, in file order."""
    return {
        "ClusterName": "cxxrun",
        "SlurmctldHost": LOGIN,
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": "cred_expire=5",  # a requeued job waits this long and a second; the default is two minutes
        "StateSaveLocation": f"{base}/{LOGIN}/state",
        "SlurmdSpoolDir": f"{base}/%n/spool",
        "SlurmctldLogFile": f"{base}/{LOGIN}/slurmctld.log",
        "SlurmdLogFile": f"{base}/%n/slurmd.log",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "ProctrackType": f"proctrack/{proctrack}",
        "TaskPlugin": "task/cgroup,task/affinity" if proctrack == "cgroup" and unified else "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "SelectType": "select/cons_tres",  # GPUs are requested, so plain select/linear will not do
        "SelectTypeParameters": "CR_CPU",
        "SlurmdParameters": "config_overrides",  # the machine has fewer CPUs than its nodes declare together
        "GresTypes": "gpu",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "ReturnToService": "2",  # a node that comes back is used again without an operator
        "SlurmdTimeout": "10",  # a lost node is DOWN after 10 to 20 s; the default is 300 s
        "SlurmctldTimeout": "10",
        "MessageTimeout": "5",
        "KillWait": "5",  # from SIGTERM to SIGKILL; the default is 30 s
        "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1",
        "PropagateResourceLimits": "NONE",
    }


def slurm_conf(base, gpus, cpus, proctrack, unified, overrides):
    """gpus: how many each node has, one number per node; unified: control groups are of version 2 alone."""
    keys = settings(base, proctrack, unified)
    for key, value in overrides.items():
        known = next((name for name in keys if name.lower() == key.lower()), key)
        keys[known] = value
    lines = [f"{key}={value}" for key, value in keys.items() if value is not None]
    for node, count in zip(node_names(len(gpus)), gpus):
        lines.append(f"NodeName={node} CPUs={cpus} RealMemory=1000" + (f" Gres=gpu:{count}" if count else ""))
    lines.append(f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def gres_conf(base, gpus):
    lines = [f"NodeName={node} Name=gpu File={base}/dev/gpu[0-{count - 1}]" if count > 1 else
             f"NodeName={node} Name=gpu File={base}/dev/gpu0"
             for node, count in zip(node_names(len(gpus)), gpus) if count]
    return "".join(line + "\n" for line in lines)


def cgroup_conf(proctrack, unified):
    """None: there is no such file."""
    if proctrack != "cgroup":
        return "CgroupPlugin=disabled\n" if unified else None  # or slurmd looks for version 2, and wants systemd
    if unified:
        return ("CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nEnableControllers=yes\n"
                "ConstrainRAMSpace=yes\nConstrainDevices=yes\n")
    return "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/run/cgroup\nConstrainRAMSpace=yes\n"  # the last for task/cgroup
