"""The memory that cxxrun hands to the workers of a node. Usage: job_memory_test.py CXXRUN"""

import jobs
from jobs import JobCase

# fetch(key): a descriptor, or the text of a refusal; "" when the connection was closed.
FETCH = """import socket, struct, array
NAME = os.environ["CXXRUN_SEGMENT"]
def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(NAME)
    return s
def fetch(key):
    s = connect()
    s.send(struct.pack("8sQiI", b"CXXSEG\\0\\1", key, int(RANK), 0))
    text, ancillary, *_ = s.recvmsg(300, 64)
    if text[:1] != b"y":
        return text[1:].decode()
    return array.array("i", ancillary[0][2])[0]
"""


class Memory(JobCase):
    def program(self, body):
        return self.python_worker(FETCH + body)

    def run_ok(self, *arguments):
        self.run_job("--standalone", *arguments, code=0)
        return {rank: words for _, rank, *words in self.events()}

    def test_workers_of_a_node_share_what_has_the_same_key(self):
        said = self.run_ok("--nproc-per-node", "3", *self.program("note(*(os.fstat(fetch(k)).st_ino for k in (7, 8)))"))
        self.assertEqual(said[0], said[1])
        self.assertEqual(said[0], said[2])
        self.assertNotEqual(*said[0])

    def test_it_is_empty_grows_and_does_not_shrink(self):
        body = ("fd = fetch(1)\nbefore = os.fstat(fd).st_size\nos.ftruncate(fd, 4096)\n"
                "try: os.ftruncate(fd, 0)\nexcept PermissionError: note(before, 'kept')\n")
        self.assertEqual(self.run_ok(*self.program(body)), {0: ["0", "kept"]})

    def test_a_new_generation_has_a_new_socket_and_empty_memory(self):
        body = ("fd = fetch(1)\nnote('size', os.fstat(fd).st_size, NAME)\nos.ftruncate(fd, 4096)\n"
                "sys.exit(GENERATION == '1')\n")
        self.run_job("--standalone", "--max-restarts", "1", *self.program(body), code=0)
        first, second = self.events("size")
        self.assertEqual((first[3], second[3]), ("0", "0"))
        self.assertNotEqual(first[4], second[4])

    def test_only_the_newest_are_kept_and_an_older_one_is_never_made_twice(self):
        body = ("fds = [fetch(k) for k in range(20)]\nnote(*(type(fetch(k)).__name__ for k in (3, 4)))\n"
                "agent = f'/proc/{os.getppid()}/fd/'\n"
                "links = [os.readlink(agent + fd) for fd in os.listdir(agent)]\n"
                "note(sum('memfd:cxxrun' in link for link in links))\n"
                "note(fetch(3))\n")
        self.run_job("--standalone", *self.program(body), code=0)
        kinds, count, why = self.events()
        self.assertEqual(kinds[2:], ("str", "int"))
        self.assertEqual(count[2], "16")
        self.assertIn("newest 16 communicators", " ".join(why[2:]))

    def test_a_program_that_does_not_ask_makes_the_agent_hold_nothing(self):
        body = ("agent = f'/proc/{os.getppid()}/fd/'\n"
                "note(sum('memfd:cxxrun' in os.readlink(agent + fd) for fd in os.listdir(agent)))\n")
        self.assertEqual(self.run_ok(*self.python_worker(body)), {0: ["0"]})

    def test_strangers_silence_and_half_requests_are_no_harm(self):
        body = ("silent = [connect() for _ in range(300)]\n"
                "for junk in (b'CXXSEG', b'x' * 24, b'', b'z' * 5000):\n"
                "    s = connect()\n    s.send(junk)\n    assert s.recv(10) == b''\n"
                "note(type(fetch(1)).__name__)\n")
        self.assertEqual(self.run_ok("--nproc-per-node", "2", *self.program(body)), {0: ["int"], 1: ["int"]})

    def test_the_name_of_an_outer_cxxrun_is_replaced(self):
        self.run_job("--standalone", self.worker('note "$CXXRUN_SEGMENT"'), env={"CXXRUN_SEGMENT": "outer"}, code=0)
        (_, _, name), = self.events()
        self.assertRegex(name, r"/cxxrun-\d+-\w{6}/[0-9a-f]{16}$")


if __name__ == "__main__":
    jobs.main()
