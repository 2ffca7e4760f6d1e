"""The Python package src/runtime/python/cxxrun without torch and without a launcher."""
import array
import contextlib
import fractions
import io
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
PACKAGE = ROOT / "src/runtime/python"
sys.path.insert(0, str(PACKAGE))

import cxxrun
from cxxrun import _calls, _flight, _late, _page, _progress, _watch
from cxxrun._calls import Told
from cxxrun._judge import NOTHING, Judge, Shown
from cxxrun._page import GroupCount
from cxxrun._wanted import Requests, Saves, device_of

ALL_REDUCE = 0 | 0 << 8 | 255 << 16
BARRIER = 5 | 6 << 8 | 255 << 16


class JudgeTest(unittest.TestCase):
    """What is shown; None: as before."""

    def setUp(self):
        self.judge = Judge()

    def see(self, default, others=None, told=None, groups=()):
        return self.judge.see(default, list(groups), others or {}, told)

    def still(self, default, others=None, told=None, groups=()):
        """Looks until somebody is asked."""
        while not self.judge.wants_to_be_told():
            self.assertIsNone(self.see(default, others, None, groups))
        return self.see(default, others, told, groups)

    def test_every_movement_is_shown_and_standing_still_is_not(self):
        self.assertEqual(self.see(0), Shown(0, groups=[]))
        self.assertIsNone(self.see(0))
        self.assertEqual(self.see(7), Shown(7, groups=[]))
        self.assertIsNone(self.see(7))

    def test_what_is_told_of_one_that_stands_still_is_shown(self):
        self.see(7)
        self.assertEqual(self.still(7, told=Told(ALL_REDUCE, 25, True)), Shown(7, ALL_REDUCE, 25, []))
        done = Told(_page.BEGUN, _page.IS_DONE, True, True)
        self.assertEqual(self.still(7, told=done), Shown(7, _page.BEGUN, _page.IS_DONE, [], True))
        self.assertIsNone(self.still(7, told=done))
        self.assertEqual(self.see(8), Shown(8, groups=[]))

    def test_what_is_begun_in_other_groups_is_shown(self):
        one, two = [GroupCount(77, 1, 2)], [GroupCount(77, 2, 2)]
        self.assertEqual(self.see(7, groups=one), Shown(7, groups=one))
        self.assertIsNone(self.see(7, groups=one))
        self.assertEqual(self.see(7, groups=two), Shown(7, groups=two))

    def test_one_that_may_wait_in_a_group_that_is_not_counted_is_not_shown(self):
        self.see(7, {1: 0})
        self.assertIs(self.see(7, {1: 1}), NOTHING)
        self.assertEqual(self.see(8, {1: 1}), Shown(8, groups=[]))
        self.assertIs(self.see(9, {1: 2}), NOTHING)
        self.assertIsNone(self.still(9, {1: 2}, Told()))
        self.assertEqual(self.still(9, {1: 2}, Told(ALL_REDUCE, 25, True)), Shown(9, ALL_REDUCE, 25, []))
        self.assertEqual(self.still(9, {1: 2}, Told()), Shown(9, groups=[]))  # nobody knows better meanwhile
        self.assertIs(self.still(9, {1: 2}, Told(here=False)), NOTHING)

    def test_a_default_group_that_cannot_be_compared_is_not_shown(self):
        self.assertIs(self.see(None), NOTHING)
        self.assertIsNone(self.still(None, told=Told(ALL_REDUCE, 25, True)))
        self.assertEqual(self.see(3), Shown(3, groups=[]))

    def test_a_group_that_is_made_or_ends_is_no_collective(self):
        self.see(7)
        self.assertIsNone(self.see(7, {1: 0}))
        self.assertIsNone(self.see(7))


def recorded(group="0", number=7, retired=False, name="gloo:all_reduce", size=((5, 5),), dtypes=("Float",)):
    return {"process_group": [group, "default_pg"], "collective_seq_id": number, "retired": retired,
            "profiling_name": name, "input_sizes": [list(each) for each in size], "input_dtypes": list(dtypes)}


class FlightTest(unittest.TestCase):
    @staticmethod
    def told(*entries, number=7):
        return _flight.told([json.dumps({"entries": entries})], "0", number, ["2"])

    def test_the_oldest_that_is_under_way_is_told(self):
        self.assertEqual(self.told(recorded()), Told(ALL_REDUCE, 25, True))
        self.assertEqual(self.told(recorded(), recorded(number=6)), Told(_page.UNKNOWN, 0, True))
        self.assertEqual(self.told(recorded(), recorded("1", 3)), Told(ALL_REDUCE, 25, True))
        self.assertEqual(self.told(recorded(name="gloo:barrier", size=(), dtypes=())), Told(BARRIER, 0, True))
        self.assertEqual(self.told(recorded(name="gloo:gather")), Told(_page.UNKNOWN, 25, True))

    def test_none_under_way_means_done_or_elsewhere(self):
        done = recorded(retired=True)
        self.assertEqual(self.told(done), Told(_page.BEGUN, _page.IS_DONE, True, True))
        self.assertEqual(self.told(done, recorded("1", 3)), Told(_page.BEGUN, _page.IS_DONE, False))
        self.assertEqual(self.told(done, recorded("2", 3)), Told(_page.BEGUN, _page.IS_DONE, True))  # which is counted
        self.assertEqual(self.told(done, {**recorded("2", 3), "is_p2p": True}), Told(_page.BEGUN, _page.IS_DONE, False))

    def test_a_default_group_without_collectives_is_done(self):
        self.assertEqual(self.told(recorded("2", 3), number=None), Told(_page.BEGUN, _page.IS_DONE, True))
        self.assertEqual(self.told(recorded("2", 3, True), number=None), Told(_page.BEGUN, _page.IS_DONE, True, True))
        self.assertIsNone(self.told(number=None))

    def test_a_recorder_that_is_off_or_unknown_tells_nothing(self):
        for text in ("", "[]", "{}", '{"entries": 3}', '{"entries": [3]}', '{"entries": [{}]}', "null"):
            self.assertIsNone(_flight.told([text], "0", 7), text)
        self.assertIsNone(self.told(recorded("1")))

    def test_the_recorder_of_nccl_is_turned_on_by_the_name_that_torch_reads(self):
        c10d = types.ModuleType("torch._C._distributed_c10d")
        new, old = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"
        with unittest.mock.patch.dict(sys.modules, {c10d.__name__: c10d}):
            for version, given, expected in (
                    ("2.9.1", {}, {}),  # without NCCL
                    ("2.7.1+cu126", {}, {old: "2000"}), ("2.8.0a0", {}, {new: "2000"}), ("2.10.0", {}, {new: "2000"}),
                    ("2.9.1", {old: "0"}, {old: "0"}), ("2.5.0", {new: "7"}, {new: "7"})):
                with self.subTest(version), unittest.mock.patch.dict(os.environ, given, clear=True):
                    _flight.turn_on(version)
                    self.assertEqual(dict(os.environ), expected)
                c10d._dump_nccl_trace_json = None

    def test_the_recorder_of_nccl_is_asked_as_well(self):
        """Planted: it has not been asked on a GPU."""
        c10d = types.ModuleType("torch._C._distributed_c10d")
        with unittest.mock.patch.dict(sys.modules, {c10d.__name__: c10d}):
            self.assertIsNone(_flight.recorder())
            entry = recorded(name="nccl:all_reduce")
            c10d._dump_nccl_trace_json = lambda collectives, active: json.dumps({"entries": [entry]}).encode()
            self.assertEqual(_flight.told(_flight.recorder()(), "0", 7), Told(ALL_REDUCE, 25, True))
            for other in ("", "{}", json.dumps({"entries": [recorded("1", retired=True)]})):
                c10d._dump_fr_trace_json = lambda collectives, active: other  # noqa: B023
                self.assertEqual(_flight.told(_flight.recorder()(), "0", 7), Told(ALL_REDUCE, 25, True), other)


class Tensor:
    dtype = "torch.float32"

    @staticmethod
    def numel():
        return 64


def frame_in(path, name, inner=None, **variables):
    """The innermost frame of a call of NAME that lies in PATH, in which `inner` is called."""
    keep = {}
    source = "def " + name + "(" + ", ".join(["inner", *variables]) + "):\n  inner()\n"
    exec(compile(source, path, "exec"), keep)

    def stop():
        keep["frame"] = sys._getframe(1 if inner is None else 0)
        if inner is not None:
            keep["frame"] = inner()

    keep[name](stop, *variables.values())
    return keep["frame"]


class CallsTest(unittest.TestCase):
    C10D = "/usr/lib/torch/distributed/distributed_c10d.py"

    def told(self, *arguments, **variables):
        return _calls.told(frame_in(*arguments, **variables), lambda group: group == "default",
                           lambda group: group == "counted")

    def test_a_call_of_the_default_group_is_told_with_its_size(self):
        self.assertEqual(self.told(self.C10D, "all_reduce", tensor=Tensor, group=None), Told(ALL_REDUCE, 64, True))
        self.assertEqual(self.told(self.C10D, "all_reduce", tensor=Tensor, group="default"), Told(ALL_REDUCE, 64, True))
        self.assertEqual(self.told(self.C10D, "barrier", group=None), Told(BARRIER, 0, True))

    def test_a_call_of_a_group_that_is_not_counted_or_of_one_peer_is_elsewhere(self):
        self.assertEqual(self.told(self.C10D, "all_reduce", tensor=Tensor, group="tp"), Told(here=False))
        self.assertEqual(self.told(self.C10D, "all_reduce", tensor=Tensor, group="counted"), Told(here=True))
        self.assertEqual(self.told(self.C10D, "recv", tensor=Tensor, group=None), Told(here=False))

    def test_a_backward_pass_is_told_and_anything_else_is_not(self):
        backward = "/usr/lib/torch/autograd/__init__.py"
        self.assertEqual(self.told(backward, "backward"), Told(_page.BEGUN, _page.IN_BACKWARD))
        self.assertEqual(self.told("/home/me/train.py", "all_reduce", tensor=Tensor, group=None), Told())
        self.assertEqual(_calls.told(None, bool, bool), Told())


class RequestsTest(unittest.TestCase):
    """Ranks whose calls each take the maximum of what was said in the calls before."""

    def setUp(self):
        self.ranks = [Requests(), Requests()]
        self.said = [0, 0]

    def call(self, *asked):
        """`asked`: (requests so far, whether told to end) of each rank; the answer of all."""
        agreed = max(self.said)
        self.said = [rank.answer(agreed, *each) for rank, each in zip(self.ranks, asked)]
        return agreed

    def test_one_rank_that_is_asked_is_enough_and_once(self):
        quiet, asked = (0, False), (1, False)
        self.assertEqual([self.call(quiet, asked), self.call(quiet, asked), self.call(asked, asked)], [0, 1, 0])
        self.assertEqual([self.call(asked, asked) for _ in range(3)], [0, 0, 0])  # the other was asked a call later
        self.assertEqual([self.call((1, False), (2, False)) for _ in range(3)], [0, 1, 0])

    def test_the_end_of_the_job_is_answered_on_its_own(self):
        self.call((1, False), (0, False))
        self.assertEqual([self.call((1, False), (1, True)), self.call((1, True), (1, True))], [1, 2])
        self.assertEqual([self.call((1, True), (1, True)) for _ in range(3)], [0, 0, 0])


class SavesTest(unittest.TestCase):
    def test_a_checkpoint_is_complete_when_all_ranks_have_made_the_next_call_and_as_old_as_its_state(self):
        saves = Saves()
        self.assertEqual(saves.call(10), 0)
        saves.written()
        self.assertEqual(saves.call(20), 0)  # by this rank
        saves.written()
        self.assertEqual([saves.call(30), saves.call(40), saves.call(50)], [10, 20, 0])

    def test_one_that_is_written_before_the_first_call_is_of_no_known_instant(self):
        saves = Saves()
        saves.written()
        self.assertEqual([saves.call(10), saves.call(20)], [0, 0])


class DeviceTest(unittest.TestCase):
    def test_a_request_is_where_the_group_can_take_it(self):
        torch = types.SimpleNamespace(device=lambda kind, index=None: types.SimpleNamespace(type=kind, index=index),
                                      cuda=types.SimpleNamespace(current_device=lambda: 3))
        with unittest.mock.patch.dict(sys.modules, torch=torch):
            of_1 = types.SimpleNamespace()
            self.assertEqual(device_of(of_1, "gloo"), "cpu")
            self.assertEqual(device_of(of_1, "nccl").index, 3)
            for backend in ("undefined", "cuda:nccl", "nccl"):
                its = device_of(types.SimpleNamespace(_device_types=[torch.device("cuda")]), backend)
                self.assertEqual((its.type, its.index), ("cuda", 3))
            both = types.SimpleNamespace(_device_types=[torch.device("cuda"), torch.device("cpu")])
            self.assertEqual(device_of(both, "cpu:gloo,cuda:nccl"), "cpu")


class Agent:
    """Answers one registration: with a page, or as told."""

    def __init__(self, answer=b"CXXWORK\x01" + bytes([65]), layout=_page.LAYOUT, gives_memory=True):
        self.memory, self.gives_memory = os.memfd_create("page"), gives_memory
        os.ftruncate(self.memory, 4096)
        os.pwrite(self.memory, struct.pack("=Q", layout), 0)
        self.name = f"@cxxrun-test-{os.getpid()}-{time.monotonic_ns()}"
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind("\0" + self.name[1:])
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, args=(answer,))
        self.thread.start()

    def serve(self, answer):
        link, _ = self.listener.accept()
        self.asked = link.recv(100)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self.memory]))] if self.gives_memory else []
        if answer and self.asked:
            link.sendmsg([answer], rights)
        link.close()

    def word(self, at):
        return struct.unpack("=Q", os.pread(self.memory, 8, at))[0]

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:  # nobody may have called
            link.connect("\0" + self.name[1:])
        self.thread.join()
        self.listener.close()
        os.close(self.memory)


class PageTest(unittest.TestCase):
    def connect(self, agent, **more):
        variables = {"CXXRUN_AGENT": agent.name, "LOCAL_RANK": "2", "CXXRUN_GENERATION": "3", **more}
        self.addCleanup(agent.close)
        with unittest.mock.patch.dict(os.environ, variables):
            page = _page.connect()
        self.addCleanup(page.close)
        return page

    def test_a_page_shows_nothing_until_it_is_told_to(self):
        agent = Agent()
        page = self.connect(agent)
        self.assertEqual(agent.asked, b"CXXWORK\x01" + struct.pack("=BQIB", 1, 3, 2, 0))
        self.assertEqual((agent.word(_page.GENERATION), agent.word(_page.ELSEWHERE)), (3, 1))
        page.show(66, ALL_REDUCE, 25)
        self.assertEqual([agent.word(each) for each in (_page.ENTERED, _page.DONE, _page.ELSEWHERE)], [66, 65, 0])
        entry = _page.RING + _page.ENTRY * 2
        began = agent.word(entry + 8)
        self.assertEqual([agent.word(entry), *[agent.word(entry + each) for each in (16, 24)]], [66, 0, 25])
        page.show(66, _page.BEGUN, _page.IS_DONE)
        self.assertEqual(agent.word(entry + 8), began)  # it did not begin again
        page.show_nothing()
        self.assertEqual(agent.word(_page.ELSEWHERE), 1)
        page.show(0)
        self.assertEqual((agent.word(_page.ENTERED), agent.word(_page.DONE)), (0, 0))

    def test_groups_are_shown_and_go_when_they_are_gone(self):
        agent = Agent()
        page = self.connect(agent)

        def words(place):
            return tuple(agent.word(_page.GROUP_WORDS + 24 * place + 8 * each) for each in range(3))

        page.show(1, groups=[GroupCount(77, 5, 2), GroupCount(78, 6, 4)], idle=True)
        self.assertEqual([words(0), words(1), agent.word(_page.IDLE)], [(77, 5, 2), (78, 6, 4), 1])
        page.show(1, groups=[GroupCount(78, 7, 4)])
        self.assertEqual([words(0), words(1), agent.word(_page.IDLE)], [(78, 7, 4), (0, 0, 0), 0])

    def test_steps_are_told_with_their_times(self):
        agent = Agent()
        page = self.connect(agent)
        page.step(1)
        first = agent.word(_page.FIRST_STEP)
        page.step(2)
        self.assertEqual((agent.word(_page.STEP), agent.word(_page.FIRST_STEP)), (2, first))
        self.assertGreaterEqual(agent.word(_page.LAST_STEP), first)

    def test_looks_are_summed_and_a_sample_is_there_when_its_number_is(self):
        agent = Agent()
        page = self.connect(agent)
        began = _page.now() // 1_000_000
        page.look(7)
        page.look(9)
        self.assertEqual((agent.word(_page.LOOKS), agent.word(_page.LOOKED_BEGUN)), (2, 16))
        self.assertGreaterEqual(agent.word(_page.LOOKED_AT), 2 * began)
        page.fed(5)
        page.fed(6)
        self.assertEqual(agent.word(_page.FED), 11)
        page.saved(12)
        self.assertEqual(agent.word(_page.SAVED), 12)
        page.sample(300, 74, 147, 167)
        self.assertEqual([agent.word(at) for at in (_page.DDP_SAMPLE, _page.DDP_FORWARD, _page.DDP_BACKWARD, _page.DDP_REDUCING)],
                         [300, 74, 147, 167])

    def test_a_launcher_of_another_version_or_that_refuses_or_is_gone_is_said_in_a_line(self):
        magic = b"CXXWORK\x01"
        for agent, expected in (
                (Agent(layout=_page.LAYOUT + 1), "its page has another layout"),
                (Agent(answer=b"CXXWORK\x02" + bytes([65])), "its answer has another form"),
                (Agent(answer=magic + bytes([66]) + struct.pack("=I", 7) + b"not you"), "refuses this process: not you"),
                (Agent(gives_memory=False), "cannot be told: IndexError"),
                (Agent(answer=b""), "its answer has another form")):
            with self.subTest(expected), self.assertRaisesRegex(_page.Refused, expected):
                self.connect(agent)
        with unittest.mock.patch.dict(os.environ, {"CXXRUN_AGENT": "@cxxrun-test-nobody"}):
            with self.assertRaisesRegex(_page.Refused, "cannot be told: ConnectionRefusedError"):
                _page.connect()


class LateTest(unittest.TestCase):
    LOG = {"iteration": 20, "forward_compute_time": 74, "backward_compute_time": 147, "backward_comm_time": 167, "world_size": 8}

    class Model:
        def __init__(self, log, size=8):
            self.log, self.process_group = log, types.SimpleNamespace(size=lambda: size)

        def _get_ddp_logging_data(self):
            return self.log

    def shown(self, *models):
        page, complaint = unittest.mock.Mock(), io.StringIO()
        for model in models:
            _late.add(model, None)
        with unittest.mock.patch.dict(os.environ, WORLD_SIZE="8"), contextlib.redirect_stderr(complaint):
            _late.show(page)
            _late.show(page)  # too soon
        return [call.args for call in page.sample.call_args_list], complaint.getvalue()

    def setUp(self):
        _late._models.clear()
        _late._again = 0.0

    def test_the_newest_sample_of_a_model_of_all_ranks_is_shown(self):
        self.assertEqual(self.shown(), ([], ""))
        small, model = self.Model({}, 2), self.Model(self.LOG)
        self.assertEqual(self.shown(small, model), ([(20, 74, 147, 167)], ""))
        del model
        _late._again = 0.0
        self.assertEqual(self.shown(), ([], ""))

    def test_a_log_without_a_sample_is_not_shown(self):
        model = self.Model({"iteration": 0, "world_size": 8})
        self.assertEqual(self.shown(model), ([], ""))

    def test_a_log_of_another_form_ends_this_and_is_said_once(self):
        model = self.Model({"forward_compute_time": 1, "backward_compute_time": 1, "backward_comm_time": 1})
        self.assertEqual(self.shown(model), ([], "cxxrun: the log of DistributedDataParallel is not used: KeyError: 'iteration'\n"))
        self.assertEqual(_late._again, float("inf"))

    def test_the_time_that_a_loader_takes_is_summed_whatever_it_gives(self):
        class Iterator:
            left = 2

            def __next__(self):
                self.left -= 1
                if self.left < 0:
                    raise StopIteration
                return self.left

            def __iter__(self):
                return self

        page = unittest.mock.Mock()
        _late.time_loader(types.SimpleNamespace(_BaseDataLoaderIter=Iterator), page)
        self.assertEqual(list(Iterator()), [1, 0])
        self.assertEqual(page.fed.call_count, 3)
        self.assertGreaterEqual(min(call.args[0] for call in page.fed.call_args_list), 0)
        for module in (None, types.SimpleNamespace()):
            _late.time_loader(module, page)


class WatchTest(unittest.TestCase):
    def setUp(self):
        self.agent = Agent()
        self.addCleanup(self.agent.close)
        with unittest.mock.patch.dict(os.environ, CXXRUN_AGENT=self.agent.name, LOCAL_RANK="1", CXXRUN_GENERATION="7"):
            page = _page.connect()
        self.addCleanup(page.close)
        group = unittest.mock.Mock(_get_sequence_number_for_group=lambda: 3)
        self.watch = _watch.Watch(page, types.SimpleNamespace(GroupMember=types.SimpleNamespace(WORLD=group)))

    def elsewhere(self):
        return self.agent.word(_page.ELSEWHERE)

    def test_nothing_is_shown_of_a_script_that_has_ended(self):
        self.watch.begin()
        self.assertEqual(self.elsewhere(), 0)
        self.watch.stop()
        self.watch.join()
        self.assertEqual(self.elsewhere(), 1)

    def test_what_the_default_group_has_begun_is_summed_unless_only_two_ranks_count_it(self):
        group = self.watch._c10d.GroupMember.WORLD
        self.watch.begin()
        self.watch.stop()
        self.watch._bases[id(group)] = 1
        before = self.agent.word(_page.LOOKS)
        self.watch._sum()
        self.assertEqual((self.agent.word(_page.LOOKS), self.agent.word(_page.LOOKED_BEGUN)), (before + 1, 2))
        self.watch.between_two(group)
        self.watch._sum()
        self.assertEqual(self.agent.word(_page.LOOKS), before + 1)

    def test_a_groups_number_begins_at_what_it_was_when_the_group_was_made(self):
        number = [1804289383]
        group = unittest.mock.Mock(_get_sequence_number_for_group=lambda: number[0])
        self.watch._c10d._pg_map, self.watch._c10d._pg_names = {group: None}, {group: "pairs"}
        self.watch._c10d._pg_group_ranks = {group: {0: 0, 1: 1}}
        self.watch.begin_group(group)
        for begun in (0, 2):
            number[0] = 1804289383 + begun
            counted, _ = self.watch._count(None)
            self.assertEqual(counted["pairs"].begun, begun)

    def test_a_forked_child_that_ends_leaves_its_parents_page_alone(self):
        self.watch.begin()
        with unittest.mock.patch.object(os, "getpid", return_value=1):
            self.watch.stop()
        self.assertEqual(self.elsewhere(), 0)
        self.watch.stop()

    def test_a_pytorch_that_cannot_be_looked_at_is_left_alone_with_a_line(self):
        complaint = io.StringIO()
        with unittest.mock.patch.object(self.watch, "_look", side_effect=KeyError("entries")), \
                contextlib.redirect_stderr(complaint):
            self.watch.begin()
        self.assertFalse(self.watch.is_alive())
        self.assertEqual((self.elsewhere(), complaint.getvalue()),
                         (1, "cxxrun: install(): hangs are not named any more: KeyError: 'entries'\n"))


def run(code, **variables):
    """A Python of its own; (what it writes, its complaints)."""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True,
                          universal_newlines=True, env={"PYTHONPATH": str(PACKAGE), **variables})
    return done.stdout, done.stderr


class ScriptTest(unittest.TestCase):
    def test_without_a_launcher_one_rank_says_a_line_once(self):
        code = "import cxxrun\nprint(cxxrun.install(), cxxrun.install())\ncxxrun.step(1)"
        said, complaints = run(code)
        self.assertEqual(said, "False False\n")
        self.assertRegex(complaints, r"\Acxxrun: install\(\): CXXRUN_AGENT is not set.*\n\Z")
        self.assertEqual(run(code, RANK="3"), (said, ""))

    def test_a_warm_python_that_was_told_of_no_launcher_is_seen_in_its_workers(self):
        code = ("import cxxrun, os, sys\nfirst = cxxrun.install()\n"
                "os.environ['CXXRUN_AGENT'] = '@cxxrun-test-nobody'\n"
                "print(first, cxxrun.install(), any('cxxrun' in type(its).__module__ for its in sys.meta_path))")
        self.assertEqual(run(code)[0], "False True True\n")

    def test_torch_is_not_imported_and_no_thread_is_started(self):
        code = ("import cxxrun, sys, threading\ncxxrun.install()\n"
                "print('torch' in sys.modules, threading.active_count())")
        self.assertEqual(run(code, CXXRUN_AGENT="@cxxrun-test-nobody"), ("False 1\n", ""))

    def test_the_stacks_come_on_the_signal_in_the_files_name(self):
        code = """
import cxxrun, os, re, signal
cxxrun.install()
name = next(each for each in map(lambda fd: f"/proc/self/fd/{fd}", os.listdir("/proc/self/fd"))
            if os.path.exists(each) and "cxxrun-stacks-" in os.readlink(each))
os.kill(os.getpid(), int(re.search(r"stacks-(\\d+)", os.readlink(name))[1]))
print(open(name).read())
"""
        self.assertIn('File "<string>", line 6 in <module>', run(code, CXXRUN_AGENT="@cxxrun-test-nobody")[0])

    def test_a_signal_that_the_program_uses_stays_its_own(self):
        code = """
import cxxrun, os, signal
signal.signal(signal.SIGRTMIN + 13, lambda *_: print("mine"))
cxxrun.install()
os.kill(os.getpid(), signal.SIGRTMIN + 13)
"""
        self.assertEqual(run(code, CXXRUN_AGENT="@cxxrun-test-nobody")[0], "mine\n")

    def test_a_forked_child_has_no_page(self):
        agent = Agent()
        self.addCleanup(agent.close)
        code = """
import os
from cxxrun import _process
assert _process.page() is not None
if os.fork() == 0:
    print(_process.page(), _process.why_not(), flush=True)
    os._exit(0)
os.wait()
print(_process.page() is not None)
"""
        self.assertEqual(run(code, CXXRUN_AGENT=agent.name, LOCAL_RANK="0", CXXRUN_GENERATION="1")[0],
                         "None this process is a helper of a worker\nTrue\n")

    def test_a_helper_that_imports_the_script_has_no_page(self):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "script.py")
            with open(script, "w") as file:
                file.write("""
import multiprocessing, cxxrun
from cxxrun import _process
cxxrun.install()
def helper():
    cxxrun.step(1)
    print(_process.page(), _process.why_not(), flush=True)
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=helper)
    process.start()
    process.join()
""")
            done = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, check=True, universal_newlines=True,
                                  env={"PYTHONPATH": str(PACKAGE), "CXXRUN_AGENT": "@cxxrun-test-nobody"})
        self.assertEqual(done.stdout, "None this process is a helper of a worker\n")


    def test_a_forked_helper_ends_of_the_signal_that_its_parent_only_notes(self):
        code = """
import cxxrun, os, signal
def helpers():
    child = os.fork()
    if child == 0:
        os._exit(signal.getsignal(signal.SIGTERM) != signal.SIG_DFL)
    return os.waitpid(child, 0)[1] >> 8
cxxrun.checkpoint_wanted()
print(helpers(), signal.getsignal(signal.SIGTERM) != signal.SIG_DFL)
signal.signal(signal.SIGTERM, print)
print(helpers())
"""
        self.assertEqual(run(code)[0], "0 True\n1\n")

    def test_a_rank_alone_is_told_to_end_without_a_launcher_too(self):
        code = """
import cxxrun, os, signal
print(cxxrun.checkpoint_wanted(), cxxrun.job_ends())
os.kill(os.getpid(), signal.SIGTERM)
print(cxxrun.checkpoint_wanted(), cxxrun.job_ends())
print(cxxrun.checkpoint_wanted(), cxxrun.job_ends())
"""
        self.assertEqual(run(code), ("False False\nTrue True\nFalse False\n", ""))


class ProgressTest(unittest.TestCase):
    def test_a_line_is_json_whatever_the_scalars_are(self):
        class Tensor:
            def __float__(self):
                return float("inf")

        def refuse(word):
            raise AssertionError(f"{word} is not JSON")

        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.dict(os.environ, TORCHELASTIC_ERROR_FILE=os.path.join(folder, "error.json")):
            for odd in ({("a", 1): 2}, fractions.Fraction(10 ** 400), 1e400):
                _progress._write({"odd": odd})
        for scalars, wanted in (({"loss": 0.5}, {"loss": 0.5}), ({"loss": float("nan")}, {"loss": None}),
                                ({"loss": Tensor(), "each": [1, -float("inf")]}, {"loss": None, "each": [1, None]}),
                                ({"loss": float("nan"), "why": "NaN"}, {"loss": None, "why": "NaN"})):
            self.assertEqual(json.loads(_progress._text(scalars), parse_constant=refuse), wanted)


class PackageTest(unittest.TestCase):
    def test_whatever_is_public_has_its_types_and_tools_are_told_so(self):
        import ast
        for path in (PACKAGE / "cxxrun").rglob("*.py"):
            tree = ast.parse(path.read_text())
            for each in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
                for its in each.body:
                    if isinstance(its, ast.FunctionDef) and not its.name.startswith("_"):
                        of = its.args
                        named = [arg for arg in (*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg) if arg]
                        bare = [arg.arg for arg in named if arg.annotation is None and arg.arg not in ("self", "cls")]
                        self.assertEqual((bare, its.returns is None), ([], False), f"{path}: {its.name}")
        self.assertTrue((PACKAGE / "cxxrun/py.typed").exists())

    def test_its_version_is_the_launchers(self):
        header = (ROOT / "include/cxxrun/version.hpp").read_text()
        numbers = [re.search(rf"VERSION_{each} (\d+)", header)[1] for each in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(cxxrun.__version__, ".".join(numbers))
        for page, says, many in (("README.md", r"cxxrun-([0-9.]+)-linux", 3), ("README.md", r"It is version ([0-9.]+),", 3),
                                 ("CHANGELOG.md", r"\A(?:.*\n)*?## (?:Unreleased: )?([0-9.]+)", 3),
                                 ("docs/use/cxxrun.1", r'"cxxrun ([0-9.]+)"', 2),
                                 ("docs/use/cxxrun-rendezvous.1", r'"cxxrun ([0-9.]+)"', 2),
                                 ("docs/use/cxxrun-store.1", r'"cxxrun ([0-9.]+)"', 2)):
            self.assertEqual(set(re.findall(says, (ROOT / page).read_text())), {".".join(numbers[:many])}, page)

    def test_the_wheel_for_pip_works_where_nothing_else_is(self):
        with tempfile.TemporaryDirectory() as directory:
            made = subprocess.run([sys.executable, "-c", f"import cxxrun_wheel; print(cxxrun_wheel.build_wheel({directory!r}))"],
                                  cwd=PACKAGE, stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout.strip()
            self.assertEqual(made, f"cxxrun-{cxxrun.__version__}-py3-none-any.whl")
            self.assertIn("cxxrun/py.typed", zipfile.ZipFile(os.path.join(directory, made)).namelist())
            done = subprocess.run([sys.executable, "-S", "-m", "cxxrun.selftest"], stdout=subprocess.PIPE, check=True,
                                  env={"PYTHONPATH": os.path.join(directory, made)}, universal_newlines=True)
        self.assertRegex(done.stdout, r"ok +package: .*\nok +stacks: .*\nskipped +torch: .*\nskipped +library: .*\nskipped +launcher: ")

    def test_it_is_written_for_python_3_8(self):
        import ast
        for path in (*PACKAGE.rglob("*.py"), ROOT / "launcher/warm/zygote.py"):
            ast.parse(path.read_text(), str(path), feature_version=(3, 8))


if __name__ == "__main__":
    unittest.main()
