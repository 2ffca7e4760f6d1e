"""Which node is set aside for its failures, and which is not. Usage: bad_nodes_test.py CXXRUN"""
import jobs
from jobs import JobCase, count_reports


class BadNodes(JobCase):
    """Three agents, a, b and c, of a job that goes on with two; workers are killed as DIE says: "NODE GENERATION" words.
    All of a generation have begun before one dies."""

    BODY = """note start $NODE
while test "$(grep -c "^$CXXRUN_GENERATION .* start" "$DIR/events")" -lt "$WORLD_SIZE"; do :; done
case " $DIE " in *" $NODE$CXXRUN_GENERATION "*) kill -BUS $$;; esac
test $CXXRUN_GENERATION = $LAST || gate never"""

    def run_three(self, die, last, *options, nnodes="2:3"):
        program = self.worker(self.BODY)
        agents = []
        for rank, node in enumerate("abc"):
            agents.append(self.start_node("--node-rank", str(rank), "--join-window", "60", "--restart-delay", "0", "--max-restarts", "9", *options,
                                          program, nnodes=nnodes, env={"NODE": node, "DIE": die, "LAST": str(last)}))
        return agents

    def nodes_of(self, generation):
        return sorted(event[3] for event in self.events("start") if event[0] == generation)

    def test_the_second_time_a_node_is_set_aside_and_the_others_go_on(self):
        agents = self.run_three("b1 b2", 3)
        self.assert_codes([0, 0, 0], *agents)
        self.assertEqual([self.nodes_of(n) for n in (1, 2, 3)], [["a", "b", "c"], ["a", "b", "c"], ["a", "c"]])
        self.assertEqual(agents[0].stderr.count(": first to fail twice running, as rank 1"), 1)
        for agent in agents[1:]:
            self.assertNotIn("excluded", agent.stderr)

    def test_what_kills_the_next_node_as_well_brings_the_first_one_back(self):
        agents = self.run_three("c1 c2 b3", 4)
        self.assert_codes([0, 0, 0], *agents)
        self.assertEqual(self.nodes_of(3), ["a", "b"])
        self.assertEqual(self.nodes_of(4), ["a", "b", "c"])
        self.assertEqual(agents[0].stderr.count("the same failure on "), 1)

    def test_of_three_nodes_that_are_all_needed_none_is_set_aside(self):
        agents = self.run_three("b1 b2", 3, nnodes="3")
        self.assert_codes([0, 0, 0], *agents)
        self.assertEqual(self.nodes_of(3), ["a", "b", "c"])

    def test_a_node_whose_failure_is_reported_stays_silent_and_so_do_healthy_ones(self):
        agents = self.run_three("b1", 9, "--max-restarts", "0", "--log-level", "warn")
        self.assert_codes([135, 135, 135], *agents)
        self.assertEqual(count_reports(*agents), 1)
        for agent in agents[1:]:
            self.assertEqual([line for line in agent.stderr.splitlines() if "cxxrun" in line], [])


if __name__ == "__main__":
    jobs.main()
