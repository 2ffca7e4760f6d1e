"""What tests/gpu/lease leaves behind, written as it goes."""
import json

MOST_SAID = 15 << 20
HEAD = "| row | what | result | s |\n|---|---|---|---|\n"


class Nothing:
    """Of a dry run."""

    def say(self, text):
        pass


class Told:
    """table.md, rows.json, said.txt and machine.txt in a folder."""

    def __init__(self, folder, about):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.rows, self.size = folder, [], 0
        (folder / "table.md").write_text(f"{about}\n\n{HEAD}")
        self.said = open(folder / "said.txt", "w", errors="replace")  # noqa: SIM115: as long as this
        print(f"{about}\n\n{HEAD}", end="", flush=True)

    def say(self, text):
        if self.size < MOST_SAID:
            self.said.write(text[:MOST_SAID - self.size] + "\n")
            self.said.flush()
        self.size += len(text)

    def row(self, name, title, text, well, seconds):
        """`well`: None where it was not run."""
        text = " ".join(text.replace("|", "/").split())
        self.rows.append({"row": name, "what": title, "result": text, "well": well, "seconds": round(seconds, 1)})
        line = f"| {name} | {title} | {text} | {seconds:.1f} |"
        with open(self.folder / "table.md", "a") as table:
            table.write(line + "\n")
        (self.folder / "rows.json").write_text(json.dumps(self.rows, indent=1) + "\n")
        self.say(f"==== {line}\n")
        print(line, flush=True)
