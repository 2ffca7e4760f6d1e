"""What a launcher's own words are worth to somebody who has to find the cause. Pure: text in, judgement out."""
import dataclasses
import re

RULE = "=" * 72
BOX = re.compile(r"^=+$")
YES, NO, NONE = "yes", "no", "–"


@dataclasses.dataclass(frozen=True)
class Judgement:
    who: str = NONE
    cause: str = NONE
    log: str = NONE
    lacks: tuple = ()  # key words that are not there
    sentences: tuple = ()  # those that have a key word

    @property
    def failed(self):
        return [name for name in ("who", "cause", "log") if getattr(self, name) == NO]


def report(lines):
    """What stands between the last two rules: the report of either launcher. Without one, all lines."""
    rules = [i for i, line in enumerate(lines) if BOX.match(line)]
    return lines[rules[-2] + 1:rules[-1]] if len(rules) >= 2 else lines


def first_rank(text):
    """Whom a report calls the first to fail: both launchers say `rank N`, one of them behind the victims."""
    behind = text.partition("Root Cause")[2] or text
    found = re.search(r"\brank\s*:?\s+(\d+)\b", behind)
    return int(found[1]) if found else None


def judge(row, own, log_files):
    """`own`: the launcher's own lines. `log_files`: paths of the files of the worker that failed, as on disk."""
    said = report(own)
    text = "\n".join(said)
    lacks = tuple(word for word in row.cause if not re.search(word, text))
    sentences = tuple(line.strip() for line in said if any(re.search(word, line) for word in row.cause))
    who = NONE
    if row.culprit is not None:
        who = YES if first_rank(text) == row.culprit else NO
    elif row.who:
        who = YES if re.search(row.who, text) else NO
    log = (YES if any(path in text for path in log_files) else NO) if row.log else NONE
    return Judgement(who, NO if lacks else YES, log, lacks, tuple(dict.fromkeys(sentences)))


def shortened(lines, most=18, width=200):
    """The head and the end, for what matters stands there."""
    lines = [line if len(line) <= width else line[:width] + " …" for line in lines]
    if len(lines) <= most:
        return lines
    head = most // 2
    return [*lines[:head], f"… {len(lines) - most} lines …", *lines[head - most:]]


def wrong(row, own, found):
    """What cxxrun's report lacks that it should have, in words, or ""."""
    lacking = [name for name in found.failed if name not in row.shortfall.split()]
    text = f"does not name: {', '.join(lacking)}" if lacking else ""
    if row.most_lines and len(own) > row.most_lines and "lines" not in row.shortfall.split():
        text += f"; {len(own)} lines, more than {row.most_lines}"
    return text.removeprefix("; ")
