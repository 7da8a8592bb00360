"""Opens a directory of dumps in verl's own text viewer (scripts/rollout_viewer.py), without a terminal.

python viewer.py DIR: loads it as the viewer does, walks through its samples and sort orders, and checks what is shown.
"""

import asyncio
import json
import sys
from pathlib import Path

from scripts.rollout_viewer import JsonLineViewer, load_dir
from textual.widgets import ProgressBar, Select


def check(condition: bool, what: object) -> None:
    if not condition:
        raise SystemExit(f"verl's viewer: {what}")


async def view(directory: Path) -> str:
    data: dict[int, dict] = {}
    steps = sorted(directory.glob("*.jsonl"), key=lambda p: int(p.stem))
    bar = ProgressBar(total=len(steps), name="data load progress")
    await load_dir(directory, data, bar)
    wrote = [json.loads(line) for line in steps[0].read_text("utf-8").splitlines()]
    check(len(data) == len(steps), f"{len(data)} of {len(steps)} steps were loaded")
    check(len(data[0]["samples"]) == len(wrote), "samples are missing")
    app = JsonLineViewer(step_num=len(steps), data=data, pbar=bar)
    async with app.run_test(size=(160, 60)) as pilot:
        await pilot.pause()
        for n, sample in enumerate(wrote):
            shown = str(app.content_display.renderable)
            check("in update_content" not in shown, shown)
            for key in ("input", "output"):
                check(sample[key] in shown, f"sample {n} is shown without its {key}")
            for key in sample:
                check(f" {key} " in shown, f"sample {n} is shown without {key}")
            await app.action_next_sample()
            await pilot.pause()
        await pilot.press("s")  # as a table
        for order in (1, 2):
            app.query_one("#sample-sort", Select).value = order
            await pilot.pause()
        check("in update_content" not in str(app.content_display.renderable), "sorting failed")
    return f"verl's viewer shows {len(steps)} step with {len(wrote)} samples of {len(wrote[0])} keys"


if __name__ == "__main__":
    print(asyncio.run(view(Path(sys.argv[1]))))
