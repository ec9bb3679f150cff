"""What the library says of its arguments, in the words of the command line."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from erlangen import cli
from erlangen.cli.audit import Audit
from erlangen.cli.check import Check
from erlangen.cli.fit import Fit
from erlangen.cli.refusal import in_words
from erlangen.cli.reproduce import Reproduce
from erlangen.cli.symmetries import Symmetries
from erlangen.train import alarm

COMMANDS = {
    **{"fit": Fit(), "audit": Audit("m", "d"), "check": Check(Path("a"), Path("b"))},
    **{"symmetries": Symmetries(), "reproduce": Reproduce()},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_fields_are_named_as_they_are_typed(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    said = capsys.readouterr().out
    for field in fields(COMMANDS[name]):
        if field.name != "show_list":  # --list, of which nothing can be wrong
            typed, _, rest = in_words(f"{field.name}: received 7", COMMANDS[name]).partition(": ")
            assert typed != field.name
            assert typed in said
            assert rest == "received 7."


LOST, ELSEWHERE = "There is no checkpoint.", "and another --output."
DIVERGED = alarm.DIVERGED.partition("{kept}")[2].join((LOST, ""))
EMPTY = alarm.EMPTY[alarm.EMPTY.index("Try a blur") :]


@pytest.mark.parametrize(
    ("name", "message", "said"),
    [
        ("fit", "steps, epochs: received 2 and 1", "--steps, --epochs: received 2 and 1."),
        ("fit", "run: received 'x', which does not exist", "--output: received 'x', which does not exist."),
        ("audit", "transforms['hue']: received [0]", "--transforms hue: received [0]."),
        (
            "symmetries",
            "path: received 'x'; leave them out with unreadable='skip'",
            "DATA: received 'x'; leave them out with --unreadable skip.",
        ),
        (
            "audit",
            "set size, channels, channels_last, range, mean and std",
            "set --size, --channels, --channels-last, --range, --mean and --std.",
        ),
        ("check", "files/new.json: damaged, steps: none", "files/new.json: damaged, steps: none."),
        ("check", "steps, rate: received 1 and 2", "steps, rate: received 1 and 2."),
        ("symmetries", DIVERGED, f"{LOST} Start again with another --seed, or a greater --batch-size, {ELSEWHERE}"),
        ("fit", DIVERGED, f"{LOST} Start again with a smaller --lr, or --precision 32-true, {ELSEWHERE}"),
        ("check", DIVERGED, DIVERGED),
        ("symmetries", EMPTY, f"Start again with narrower ranges in --transform, or another --seed, {ELSEWHERE}"),
        ("reproduce", "did you mean ltt/figure2?", "did you mean ltt/figure2?"),
    ],
)
def test_sentences(name, message, said):
    assert in_words(message, COMMANDS[name]) == said


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--transform", wrong) for wrong in ("warp", "TX", "tx:abc", "angle:0.5")),
        *(("--device", "abacus"), ("--size", "0"), ("--size", "4"), ("--batch-size", "0")),
    ],
)
def test_what_symmetries_cannot_do_is_a_sentence(option, value, tmp_path, capsys):
    np.savez(tmp_path / "data.npz", x=np.tile(255 * np.eye(8, dtype=np.uint8), (4, 1, 1)), y=np.zeros(4, int))
    arguments = ["symmetries", str(tmp_path / "data.npz"), "--output", str(tmp_path), "--steps", "1", "1"]
    assert cli.main([*arguments, option, value]) == 2
    assert capsys.readouterr().err.startswith(f"erlangen: {option}: received ")


@pytest.mark.parametrize(
    ("value", "has", "lacks"),
    [
        ("TX", "accepted are tx, ty, angle,", "crop"),
        ("tx:abc", "tx:0.2,ty or scale:-0.5:0.2", "angle:"),
        ("angle:0.5", "(-0.5° to 0.5°); accepted is angle without a range", "crop"),
    ],
)
def test_symmetries_hints_at_what_it_accepts(value, has, lacks, tmp_path, capsys):
    assert cli.main(["symmetries", "glyphs", "--transform", value, "--output", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert has in said
    assert lacks not in said.partition("accepted")[2]
