"""The messages that pages of docs/use explain are those that the programs print: each piece of a
message, between the … and the names in capitals, stands in a source. Usage: messages_test.py"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADS = ("| message |", "| line | what to change |", "| line | what it means |", "| line | exit code |")
PAGES = {"faq.md": 5, "first_minutes.md": 5, "security.md": 8, "rendezvous.md": 3}  # with more than so many
# What a program puts in, and where it joins two texts.
PLACEHOLDER = re.compile(r"…|~/[^ ]*|\b(?:but )?rank \d+|\bnode\d:\d+|\bmessage\b|[:;] |"
                         r"\b[A-Z]{1,}(?::[A-Z]+)?\b(?!=)|'…'|\b\d+\b|\(…\)")


def rows(text):
    """First cells of the tables of messages."""
    taking = False
    for line in text.splitlines():
        if line.startswith(HEADS):
            taking = True
        elif not line.startswith("|"):
            taking = False
        elif taking and not line.startswith("|---"):
            yield from (each.replace("\\|", "|") for each in re.findall(r"`([^`]+)`", line.split(" | ")[0]))


def sources():
    """All literals of the sources, those that a line break splits joined."""
    texts = []
    for folder in ("launcher", "rendezvous", "src"):
        for path in (ROOT / folder).rglob("*.[ch]pp"):
            texts.append(re.sub(r'"\s*\n\s*"', "", path.read_text()))
    return "\n".join(texts).replace('\\"', '"')


def pieces(message):
    return [piece.strip(" :;,.'()") for piece in PLACEHOLDER.split(message) if len(piece.strip(" :;,.'()")) > 3]


class Messages(unittest.TestCase):
    def test_each_message_is_in_a_source(self):
        known = sources()
        for page, least in PAGES.items():
            messages = list(rows((ROOT / "docs/use" / page).read_text()))
            self.assertGreater(len(messages), least, page)
            for message in messages:
                for piece in pieces(message):
                    with self.subTest(page=page, message=message):
                        self.assertTrue(piece in known, f"nobody prints '{piece}'")

    def test_one_that_nobody_prints_is_found(self):
        self.assertFalse(all(piece in sources() for piece in pieces("cannot find the moon of …")))


if __name__ == "__main__":
    sys.exit(not unittest.main(exit=False).result.wasSuccessful())
