"""Series of the archives and of the user: lengths, gaps, labels, formats."""

import numpy as np
import pytest
import torch

from erlangen.data import DataUnavailableError, load, read_series, stack_series, ucr, warped_bumps

NAN = np.nan


def test_equal_series_are_stacked_as_they_are():
    x = np.random.default_rng(0).normal(size=(4, 2, 5))
    found = stack_series(list(x), dtype=torch.float64)
    assert torch.equal(found.x, torch.from_numpy(x))
    assert found.kept.tolist() == [0, 1, 2, 3]
    assert stack_series([np.arange(3)]).x.tolist() == [[[0.0, 1.0, 2.0]]]


def test_gaps_are_lines_and_ends_are_held():
    one = np.array([[NAN, 1.0, NAN, NAN, 4.0], [0.0, 0.0, 2.0, NAN, NAN]])
    found = stack_series([one], missing="interpolate").x[0].tolist()
    assert found == [[1.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 2.0, 2.0, 2.0]]
    whole = np.ones((2, 5))
    assert stack_series([one, whole], missing="drop").kept.tolist() == [1]


def test_lengths():
    short, long = np.array([0.0, 2.0]), np.array([0.0, 1.0, 2.0])
    assert stack_series([short, long], unequal="pad").x[0, 0].tolist() == [0.0, 2.0, 2.0]
    assert stack_series([short, long], unequal="resample").x[0, 0].tolist() == [0.0, 1.0, 2.0]
    assert stack_series([long, long], unequal="resample", length=2).x[:, 0].tolist() == [[0.0, 2.0]] * 2
    padded = np.array([0.0, 2.0, NAN])  # as the archives write a shorter one
    assert stack_series([padded, long], unequal="resample").x[0, 0].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        (
            [[1.0, NAN, 2.0]],
            {},
            r"series\[0\]: received 1 missing values .* of 3; accepted are none, or missing='interpolate' \(stack_ser",
        ),
        ([[1.0, 2.0], [1.0]], {}, "unequal: received series of lengths from 1 to 2 .*unequal='resample'"),
        ([[1.0, 2.0]], {"length": 3}, "unequal: received series of length 2 for the length 3"),
        ([[1.0, 2.0]], {"length": 1, "unequal": "pad"}, "length: received 1 for a series of 2.*accepted is at least 2"),
        ([[NAN, NAN]], {"missing": "drop"}, r"series\[0\]: received no values at all"),
        ([[1.0, np.inf]], {"missing": "drop"}, r"series\[0\]: received infinite values"),
        ([np.ones((2, 3)), np.ones((1, 3))], {}, r"series\[1\]: received 1 channels; accepted is 2"),
        ([[[1.0, 2.0], [NAN, NAN]]], {"missing": "interpolate"}, "a channel without any value"),
        ([[NAN, 1.0]], {"missing": "drop"}, "1 series, all with missing values"),
        ([], {}, "received no series"),
        ([["a", "b"]], {}, r"series\[0\]: received <U1 of shape \(2,\)"),
        ([[1.0, 2.0], [1e39, 1.0]], {}, r"series\[1\]: received values up to 1e\+39 .* float32 can hold; rescale them"),
        ([[NAN, 1.0], [1e-50, 0.0]], {"missing": "drop"}, r"series\[1\]: received values up to 1e-50 in size"),
        ([[1.0]], {"missing": "zero"}, "missing: received 'zero'; accepted is one of 'raise', 'interpolate', 'drop'"),
        ([[1.0]], {"unequal": "cut"}, "unequal: received 'cut'"),
    ],
)
def test_what_is_refused(series, options, message):
    with pytest.raises(ValueError, match=message):
        stack_series([np.array(one) for one in series], **options)


# The archives


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


TS = """#A comment
@problemName Toy
@timeStamps false
@univariate false
@classLabel true 10 2
@data
1,2,3:4,5,6:10
1,?,3:4,5,6:2
"""


def test_tsv(root):
    write(root / "UCRArchive_2018/Toy/Toy_TRAIN.tsv", "-1\t0.5\t1.5\n1\t2.5\t3.5\n")
    write(root / "UCRArchive_2018/Toy/Toy_TEST.tsv", "10.0\t7\t8\n-1\t9\t9\n")
    data = load("ucr/Toy")
    assert data.x.tolist() == [[[0.5, 1.5]], [[2.5, 3.5]]]
    assert data.classes == load("ucr/Toy", "test").classes == ("-1", "1", "10")
    assert ucr("Toy", "test").y.tolist() == [2, 0]
    assert data.name == "ucr/Toy"


@pytest.mark.parametrize("ending", ["tsv", "npz"])
def test_parts_are_brought_to_the_length_of_the_training_part(tmp_path, ending):
    train, test = "1\t0\t1\t2\t3\n2\t4\t6\n", "1\t0\t3\n2\t8\t9\n"
    path = tmp_path / f"Toy_TRAIN.{ending}"
    if ending == "tsv":
        write(path, train)
        write(tmp_path / "Toy_TEST.tsv", test)
    else:
        parts = {"x_train": np.array([[0.0, 1, 2, 3], [4, 6, NAN, NAN]]), "x_test": np.array([[0.0, 3], [8, 9]])}
        np.savez(path, **parts, y_train=np.array([1, 2]), y_test=np.array([1, 2]))
    assert read_series(path, split="test", unequal="pad").x.tolist() == [[[0, 3, 3, 3]], [[8, 9, 9, 9]]]
    assert read_series(path, split="test", unequal="resample").x[0].tolist() == [[0, 1, 2, 3]]
    assert read_series(path, unequal="pad").x.shape == (2, 1, 4)
    assert read_series(path, split="test").x.shape == (2, 1, 2)  # of one length, as they are


def test_a_test_part_that_is_longer_is_not_cut(tmp_path):
    write(tmp_path / "Toy_TRAIN.tsv", "1\t0\t4\n2\t4\n")
    write(tmp_path / "Toy_TEST.tsv", "1\t0\t1\t2\n")
    with pytest.raises(ValueError, match=r"Toy_TEST.tsv: length: received 2 for a series of 3, of which 'pad' cuts"):
        read_series(tmp_path / "Toy_TRAIN.tsv", split="test", unequal="pad")
    assert read_series(tmp_path / "Toy_TRAIN.tsv", split="test", unequal="resample").x.tolist() == [[[0, 2]]]


def test_ts(root):
    write(root / "Multivariate_ts/Toy/Toy_TRAIN.ts", TS)
    with pytest.raises(ValueError, match=r"Toy_TRAIN.ts: series\[1\]: received 1 missing values"):
        ucr("Toy")
    data = ucr("Toy", missing="interpolate")
    assert data.x.tolist() == [[[1, 2, 3], [4, 5, 6]]] * 2
    assert data.classes == ("10", "2")  # as the file lists them
    assert data.y.tolist() == [0, 1]
    assert ucr("Toy", missing="drop").y.tolist() == [0]
    with pytest.raises(ValueError, match=r"split: received 'test', but .*accepted is Toy_TEST.ts beside it"):
        ucr("Toy", "test")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TS.replace("timeStamps false", "timeStamps true"), "time stamps"),
        (TS.replace("@classLabel true 10 2", ""), "no class labels"),
        (TS.replace("4,5,6:2", "4,5:2"), "line 8: received channels of different lengths"),
        (TS.replace("1,2,3", "1,two,3"), "line 7: could not convert string to float: 'two'; accepted are numbers"),
        (TS.replace("6:10", "6:11"), "received the label '11'; accepted are those that @classLabel lists"),
        (TS.partition("@data")[0], "received no line @data"),
    ],
)
def test_broken_ts_files_are_named(root, text, message):
    write(root / "ucr/Toy_TRAIN.ts", text)
    with pytest.raises(ValueError, match=f"Toy_TRAIN.ts: .*{message}"):
        ucr("Toy", missing="interpolate")


def test_a_word_without_a_value_in_a_ts_file_is_false(root):
    write(root / "ucr/Toy_TRAIN.ts", TS.replace("@timeStamps false", "@timeStamps"))
    assert len(ucr("Toy", missing="drop")) == 1


def test_nothing_between_two_tabs_is_a_missing_value(tmp_path):
    """And not a shorter series, whose values would move to other moments."""
    write(tmp_path / "mine.tsv", "1\t0.5\t\t0.7\n2\t1\t2\t3\n")
    with pytest.raises(ValueError, match=r"mine.tsv: series\[0\]: received 1 missing values"):
        read_series(tmp_path / "mine.tsv", unequal="pad")
    write(tmp_path / "blanks.tsv", "  1   0.5  0.6\n  2   1    2\n")
    assert read_series(tmp_path / "blanks.tsv").x.tolist() == [[[0.5, pytest.approx(0.6)]], [[1, 2]]]
    write(tmp_path / "named.tsv", "label\tt0\n1\t0.5\n")
    with pytest.raises(ValueError, match=r"line 1: could not convert string to float: 't0'.*a \.csv"):
        read_series(tmp_path / "named.tsv")
    write(tmp_path / "bare.tsv", "1\t0.5\n\t0.5\n")
    with pytest.raises(ValueError, match="line 2: received no label"):
        read_series(tmp_path / "bare.tsv")


def test_compact_files(root):
    x, y = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.array([3, -1, 3], np.int8)
    (root / "ucr").mkdir()
    np.savez(root / "ucr/Toy_trainonly.npz", x_train=x, y_train=y)
    assert load("ucr/Toy").classes == ("-1", "3")
    assert torch.equal(load("ucr/Toy").x[:, 0], torch.from_numpy(x))
    with pytest.raises(DataUnavailableError, match=r"Toy_trainonly.npz has no test part"):
        load("ucr/Toy", "test")
    with pytest.raises(DataUnavailableError, match="the series 'None' are not at hand"):
        load("ucr/None")
    with pytest.raises(ValueError, match="size: received for the file or set 'ucr/Toy'"):
        load("ucr/Toy", size=3)


REAL = {
    ("FaceAll", "test"): (131, [72, 138, 136, 131, 136, 147, 109, 233, 100, 95, 8, 66, 287, 32]),
    ("TwoPatterns", "train"): (128, [271, 237, 250, 242]),
    ("Wafer", "test"): (152, [665, 5499]),
    ("PhalangesOutlinesCorrect", "train"): (80, [628, 1172]),
}


@pytest.mark.parametrize(("name", "split"), REAL)
def test_real_sets(real, name, split):
    try:
        data = load(f"ucr/{name}", split)
    except DataUnavailableError as error:
        pytest.skip(f"real data: {error}")
    length, counts = REAL[name, split]
    assert data.x.shape[1:] == (1, length)
    assert data.counts() == counts
    assert data.x.mean(-1).abs().max() < 1e-4  # as published, normalised


# The user's own


def test_a_table_with_a_series_to_a_row(tmp_path):
    write(tmp_path / "mine.csv", "label,t0,t1\nup,0,1\ndown,1,0\nup,0,2\n")
    data = load(tmp_path / "mine.csv")
    assert data.x.tolist() == [[[0, 1]], [[1, 0]], [[0, 2]]]
    assert data.classes == ("down", "up")
    assert data.y.tolist() == [1, 0, 1]
    write(tmp_path / "bare.csv", "10;0.5;1\n2;1;\n")
    bare = read_series(tmp_path / "bare.csv", unequal="pad")
    assert bare.classes == ("2", "10")
    assert bare.x.tolist() == [[[0.5, 1]], [[1, 1]]]
    assert read_series(tmp_path / "bare.csv", label=None, unequal="pad").x[0, 0].tolist() == [10, 0.5, 1]


def test_a_table_with_a_moment_to_a_row(tmp_path):
    rows = ["trial,x,label,y", "a,1,on,10", "b,5,off,50", "a,2,on,20", "b,6,off,60", "b,7,off,"]
    write(tmp_path / "long.csv", "\n".join(rows))
    with pytest.raises(ValueError, match=r"long.csv: series\[1\]: received 1 missing values \(NaN\) of 6"):
        read_series(tmp_path / "long.csv", series="trial")
    with pytest.raises(ValueError, match=r"long.csv: unequal: received series of lengths from 2 to 3"):
        read_series(tmp_path / "long.csv", series="trial", missing="interpolate")
    data = read_series(tmp_path / "long.csv", series="trial", missing="interpolate", unequal="pad")
    assert data.x.tolist() == [[[1, 2, 2], [10, 20, 20]], [[5, 6, 7], [50, 60, 60]]]
    assert data.classes == ("off", "on")
    assert data.y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "mine.csv: it is empty"),
        ("kind,t0\nx,1", {}, "label='label', but the columns are kind, t0;"),
        ("up,1\ndown,2", {"label": "kind"}, "label='kind', but there is no line of names"),
        (",label,t0\n0,up,1", {}, "received a first column without a name, such as an index"),
        ("t0,label\n1,up\n\n2", {}, "line 4 has 1 cells, not at least 2"),
        ("label,t0\nup,1\n,2", {}, "line 3: received no label"),
        ("id,label\n1,a", {"series": "id"}, "received the columns id, label; accepted is one more, with values"),
        ("id,label,t,x\n1,a,0,2\n1,a,1,2\n1,a,3,2", {"series": "id", "time": "t"}, "the series '1' .* from 1 to 2;"),
        ("id,label,t,x\n1,a,0,2\n1,a,0,2", {"series": "id", "time": "t"}, "time: received the series '1'"),
        ("id,label,t,x\n1,a,0,2\n1,a,,2", {"series": "id", "time": "t"}, "time: received the series '1'"),
        ("label,t0\na,1", {"time": "t"}, "time: received 't' without series"),
        ("5,2\n3,4", {"series": "id"}, "series='id', but there is no line of names"),
        ("0,1,2\n3,4,5", {}, "label='label', but the columns are 0, 1, 2;"),
        (",0,1,2\n0,3,4,5", {"label": None}, "received a first column without a name, such as an index"),
        ("label,t,label\na,1,b", {}, "label='label', but 2 columns have this name; one is needed"),
        ("id,id,label,x\n1,1,a,2", {"series": "id"}, "series='id', but 2 columns have this name"),
        ("s,t,x\n1,1,2", {"series": "s,id", "label": None}, "series='id', but the columns are s, t, x; series names"),
        ("s,id,x\n1,1,2\n1,,2", {"series": "s,id", "label": None}, "line 3: received no 'id'; accepted is one for"),
        ("id,label,x\n1,a,2\n ,a,3", {"series": "id"}, "line 3: received no 'id'; accepted is one for each moment"),
        ("label\tt0\na\t1", {}, r"line 1: received one cell, 'label\\tt0'; accepted are cells between commas or semic"),
        ("1 0.5 2", {}, "line 1: received one cell, '1 0.5 2'; accepted are cells between commas or semicolons"),
        ("id,label,x\n1,a,2\n1,b,3", {"series": "id"}, "the series '1' has the labels a, b"),
        ("id,label,x\n1,a,2\n1,a", {"series": "id"}, "line 3 has 2 cells, not 3"),
        ("label,t0\na,1\n\na,one", {}, "line 4, column 't0': received 'one'; accepted is a number"),
        ("a,0.5\nb,0;5", {}, "line 2, column 2: received '0;5'"),
        ("label,t0\na,1", {"split": "test"}, "split: received 'test'"),
        ("id,label,t0,t1\n17,a,1,2", {}, "received the columns id beside t0, t1; accepted are moments and labels"),
        ("Unnamed: 0,label,0,1\n0,a,1,2", {}, "received the columns Unnamed: 0 beside 0, 1"),
        ("time,s1,s2\n0,1,2\n1,2,3", {"label": None}, "received the columns time beside s1, s2"),
        ("label,x1,x2,y1,y2\na,1,2,3,4", {}, "the columns x1, x2 and y1, y2; accepted are moments of one channel;"),
        ("label,1_x,1_y,2_x,2_y,id\na,1,2,3,4,5", {}, "received the columns 1_x, 2_x and 1_y, 2_y; accepted are"),
        ("label,x1,x10,x2\na,1,2,3", {}, "received the column x2 after x10; accepted are moments of one channel in"),
        ("label,0,1,0,1\na,1,2,3,4", {}, "received the column 0 after 1; accepted are moments of one channel in"),
        ("label,x1,x1\na,1,2", {}, "received the column x1 after x1"),
        ("label,Apr 2020,Aug 2020,Feb 2020\na,1,2,3", {}, "received the column Feb 2020 after Aug 2020; accepted are"),
        ("label,x Jan 2020,x Feb 2020,y Jan 2020,y Feb 2020\na,1,2,3,4", {}, "x Feb 2020 and y Jan 2020, y Feb 2020;"),
        ("label,am1,am2,pm1,pm2\na,1,2,3,4", {}, "received the columns am1, am2 and pm1, pm2; accepted are moments of"),
        ("label,mark 2020,mark 2021,mayor 2020,mayor 2021\na,1,2,3,4", {}, "mark 2021 and mayor 2020, mayor 2021;"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, options, message):
    write(tmp_path / "mine.csv", text)
    with pytest.raises(ValueError, match=message):
        read_series(tmp_path / "mine.csv", **options)


def test_names_of_columns_may_be_numbers(tmp_path):
    """As a table of an array has them."""
    write(tmp_path / "mine.csv", "label,0,1\nup,5,6\n,,\n")
    assert read_series(tmp_path / "mine.csv").x.tolist() == [[[5, 6]]]
    write(tmp_path / "mine.csv", "kind,0,1\nup,5,6\n")
    assert read_series(tmp_path / "mine.csv", label="kind").classes == ("up",)
    for head in ("0,1,2", "1,2,3"):
        write(tmp_path / "mine.csv", f"{head}\n5,6,7\n8,9,8\n")
        assert read_series(tmp_path / "mine.csv", label=None).x.tolist() == [[[5, 6, 7]], [[8, 9, 8]]]
    write(tmp_path / "mine.csv", "0,1,3\n5,6,7\n")  # values
    assert read_series(tmp_path / "mine.csv", label=None).x.tolist() == [[[0, 1, 3]], [[5, 6, 7]]]


@pytest.mark.parametrize(
    "names",
    [
        *("a,b,c", "t,t1,t2", "before,after,t1", "0.5,1.0,10", "v,v,v", "t1,t2,,"),
        *("2020-01-31,2020-02-01", "2020-01-31T23:00,2020-02-01T00:00", "09:45,10:00,10:15", "x.9,x.10", "t2,t1,t0"),
        *("Nov 2020,Dec 2020,Jan 2021", "2020-Sep,2020-Oct", "March 2020,April 2020", "30 Jan 2020,2 Feb 2020"),
        *("11 AM,12 PM,1 PM", "11:45 a.m.,12:00 p.m.", "x Jan 2020,x Feb 2020"),
        *("-0.2,-0.1,0.0,0.1,0.2", "t-2,t-1,t0,t1,t2", "0.0,9e-05,0.0001,0.00011"),
    ],
)
def test_moments_may_have_any_names(tmp_path, names):
    """Unless all but a few of them count; what has no name has no values."""
    n = len(names.rstrip(",").split(","))
    write(tmp_path / "mine.csv", f"label,{names}\nup,{','.join(map(str, range(n)))}\n")
    assert read_series(tmp_path / "mine.csv").x.tolist() == [[list(range(n))]]


@pytest.mark.parametrize(("names", "said"), [("trial,ms,v", True), ("t0,t1,t2", False), ("10ms,20ms,30ms", False)])
def test_columns_whose_names_do_not_count_are_mentioned(tmp_path, caplog, names, said):
    """They may be a number, a time and a value: a moment to a row."""
    write(tmp_path / "mine.csv", f"label,{names}\na,1,0,5\na,1,1,6\n")
    assert read_series(tmp_path / "mine.csv").x.tolist() == [[[1, 0, 5]], [[1, 1, 6]]]
    told = f"{tmp_path / 'mine.csv'}: the columns trial, ms, v are read as moments, a series to a row; "
    assert [record.getMessage().startswith(told) for record in caplog.records] == [True] * said


@pytest.mark.parametrize(("classes", "rows", "said"), [(10, 10, True), (9, 9, False), (10, 11, False)])
def test_classes_of_a_series_each_are_mentioned(tmp_path, caplog, classes, rows, said):
    """They may be numbers of series, or the first moments of a table without names or labels."""
    write(tmp_path / "mine.csv", "\n".join(f"{k % classes},5,{k + 0.5}" for k in range(rows)))
    assert len(read_series(tmp_path / "mine.csv").classes) == classes
    told = f"each of {rows} series has a class of its own, 0, 1, 2, 3, …; `label` names the column of classes"
    assert (told in caplog.text) == said == bool(caplog.records)


@pytest.mark.parametrize(("names", "said"), [("1,2,4", "2 and 4"), ("t9,t3,t2", "t9 and t3"), ("0,0.1,0.21", None)])
def test_moments_at_uneven_steps_are_mentioned(tmp_path, caplog, names, said):
    """A column that was left out makes a step twice as long."""
    write(tmp_path / "mine.csv", f"label,{names}\na,1,0,5\n")
    assert read_series(tmp_path / "mine.csv").x.tolist() == [[[1, 0, 5]]]
    told = [] if said is None else [f"moments at even steps, but {said} are further apart than others."]
    assert [record.getMessage().split("are read as ")[1] for record in caplog.records] == told


def test_several_columns_may_tell_series_apart(tmp_path, caplog):
    """Trials are counted anew for each subject; values that hold the comma of names do not join two series."""
    rows = ["1,1,a,5", "1,1,a,6", "1,2,a,7", "1,2,a,8", "2,1,b,9", "2,1,b,3", "2,2.0,b,4", "2,2,b,1"]
    write(tmp_path / "long.csv", "\n".join(["subject,trial,label,v", *rows]))
    for names in ("subject,trial", " trial , subject"):
        data = read_series(tmp_path / "long.csv", series=names)
        assert data.x.tolist() == [[[5, 6]], [[7, 8]], [[9, 3]], [[4, 1]]]
        assert data.y.tolist() == [0, 0, 1, 1]
    assert not caplog.records
    write(tmp_path / "long.csv", 'a,b,v\n"x, y",z,1\nx,"y, z",2\n"x, y",z,3\nx,"y, z",4\n')
    assert read_series(tmp_path / "long.csv", series="a,b", label=None).x.tolist() == [[[1, 3]], [[2, 4]]]
    write(tmp_path / "long.csv", '"a,b",v\n1,1\n2,2\n1,3\n2,4\n')  # a column of that name
    assert read_series(tmp_path / "long.csv", series="a,b", label=None).x.tolist() == [[[1, 3]], [[2, 4]]]


@pytest.mark.parametrize(
    ("trials", "options", "said"),
    [
        ("112211", {}, "1 series, such as '1', stand"),
        ("11221122", {}, "2 series, such as '1', stand"),
        ("112211", {"time": "ms"}, None),  # whose times go on
        ("111222", {}, None),
        ("121212", {}, None),  # moments in turns
        ("12112", {}, None),  # of which one lacks
    ],
)
def test_series_of_rows_at_several_places_are_mentioned(tmp_path, caplog, trials, options, said):
    """Trials may be counted anew for each subject, and would be one series."""
    rows = [f"{trial},{trials[:k].count(trial)},{(k * k) % 7}" for k, trial in enumerate(trials)]
    write(tmp_path / "long.csv", "\n".join(["trial,ms,v", *rows]))
    data = read_series(
        tmp_path / "long.csv", series="trial", label=None, unequal="pad", missing="interpolate", **options
    )
    assert len(data) == 2
    told = [each.getMessage() for each in caplog.records if "at several places" in each.getMessage()]
    assert [said in one for one in told] == ([] if said is None else [True])


def test_channels_that_may_be_none_are_mentioned(tmp_path, caplog):
    """A time that nobody has named, and what is the same all along."""
    rows = ["a,0.1,on,5,1", "a,0.2,on,5,3", "a,0.3,on,5,2", "b,0,on,6,1", "b,0.11,on,6,2", "b,0.2,on,6,3"]
    write(tmp_path / "long.csv", "\n".join(["trial,s,label,age,v", *rows]))
    said = f"{tmp_path / 'long.csv'}: the column %s is read as a channel, which is constant or rises evenly in every"
    for options, named in (({}, ["s", "age"]), ({"time": "s"}, ["age"])):
        caplog.clear()
        assert read_series(tmp_path / "long.csv", series="trial", **options).x.shape == (2, len(named) + 1, 3)
        assert [each.getMessage().split(" series;")[0] for each in caplog.records] == [said % name for name in named]


def test_labels_that_are_numbers_are_compared_by_value(tmp_path):
    for ending, cut in (("csv", ","), ("tsv", "\t")):
        rows = ["1,5,6", "1.0,7,8", "2,3,4", "90071992547409931,3,4", "90071992547409932,3,4", "1.5,1,2"]
        write(tmp_path / f"mine.{ending}", "\n".join(rows).replace(",", cut))
        data = read_series(tmp_path / f"mine.{ending}")
        assert set(data.classes) == {"1", "1.5", "2", "90071992547409931", "90071992547409932"}
        assert data.y[0] == data.y[1]


def test_numbers_of_series_are_compared_by_value(tmp_path):
    """As labels are: tables that were joined have 1 and 1.0."""
    write(tmp_path / "long.csv", "trial,label,v\n1,a,5\n1.0,a,6\n2.0,a,7\n2,a,9\n")
    assert read_series(tmp_path / "long.csv", series="trial").x.tolist() == [[[5, 6]], [[7, 9]]]


def test_moments_are_put_in_the_order_of_their_times(tmp_path):
    rows = ["trial,ms,x", "a,20.1,3", "a,0,1", "b,5,7", "a,10,2", "b,15,8", "b,25,9"]
    write(tmp_path / "long.csv", "\n".join(rows))
    data = load(tmp_path / "long.csv", series="trial", time="ms", label=None)
    assert data.x.tolist() == [[[1, 2, 3]], [[7, 8, 9]]]


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
def test_times_may_be_dates(tmp_path, zone):
    """Also in steps of a microsecond, of which seconds since 1970 lose a fifth in double precision."""
    rows = [f"a,2025-03-31 23:59:59.{at}{zone},{at - 999_994}" for at in (999_998, 999_995, 999_997, 999_996)]
    write(tmp_path / "long.csv", "\n".join(["trial,when,x", *rows]))
    assert load(tmp_path / "long.csv", series="trial", time="when", label=None).x.tolist() == [[[1, 2, 3, 4]]]
    write(tmp_path / "long.csv", f"trial,when,x\na,2025-03-31 23:59:59{zone},1\na,31.3.2025,2")
    with pytest.raises(ValueError, match=r"line 3, column 'when': received '31.3.2025'; accepted is a number, or a d"):
        load(tmp_path / "long.csv", series="trial", time="when", label=None)
    rows = [f"a,2025-03-31 23:5{at}{zone},1" for at in ("7:00", "7:01.5", "9:00")]
    write(tmp_path / "long.csv", "\n".join(["trial,when,x", *rows]))
    with pytest.raises(ValueError, match=r"the series 'a' with steps of time from 1\.5 to 118\.5; accepted"):
        load(tmp_path / "long.csv", series="trial", time="when", label=None)


@pytest.mark.parametrize(
    "content", [b"label,t0\nup,\xff1", b"label,t0\n" + b"x" * 200_000], ids=["bytes", "a huge cell"]
)
def test_what_is_no_table_is_refused(tmp_path, content):
    (tmp_path / "mine.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"mine.csv: received .*; accepted (is text in UTF-8|are cells)"):
        read_series(tmp_path / "mine.csv")


@pytest.mark.parametrize("option", [{"label": "kind"}, {"series": "trial"}, {"time": "ms"}])
def test_names_of_columns_are_refused_where_there_are_none(tmp_path, option):
    write(tmp_path / "mine.tsv", "1\t2\n2\t3\n")
    with pytest.raises(
        ValueError, match=f"{next(iter(option))}: received .* for .*mine.tsv'; accepted for the columns"
    ):
        read_series(tmp_path / "mine.tsv", **option)


def test_capitals_in_the_ending_of_a_file_are_the_same(tmp_path):
    write(tmp_path / "MINE.CSV", "up,1,2\ndown,2,3\n")
    write(tmp_path / "MINE.TS", TS)
    assert load(tmp_path / "MINE.CSV").classes == ("down", "up")
    assert len(load(tmp_path / "MINE.TS", missing="drop")) == 1


def test_counts_are_series(tmp_path):
    for dtype in (np.int16, np.uint8):
        np.savez(tmp_path / "mine.npz", x=np.array([[1, 2, 3]], dtype), y=np.array(["a"]))
        assert load(tmp_path / "mine.npz").x.tolist() == [[[1.0, 2.0, 3.0]]]


def test_what_is_masked_is_missing():
    hidden = np.ma.masked_greater(np.array([1, 99, 3]), 50)
    assert stack_series([hidden], missing="interpolate").x.tolist() == [[[1, 2, 3]]]
    with pytest.raises(ValueError, match="1 missing values"):
        stack_series([hidden])


def test_values_that_single_precision_cannot_hold(tmp_path):
    x = np.array([[1e39, 1.0], [0.0, 0.0]])
    assert torch.equal(stack_series(list(x), dtype=torch.float64).x[:, 0], torch.from_numpy(x))
    np.savez(tmp_path / "mine.npz", x=x, y=np.array(["b", "a"]))
    with pytest.raises(ValueError, match=r"mine.npz: series\[0\]: received values up to 1e\+39"):
        load(tmp_path / "mine.npz")


def test_npz_with_gaps(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.array([[1, NAN, 3], [1, 2, NAN]]), y=np.array(["b", "a"]))
    with pytest.raises(ValueError, match=r"mine.npz: series\[0\]: received 1 missing"):
        load(tmp_path / "mine.npz")
    data = load(tmp_path / "mine.npz", missing="interpolate", unequal="pad")
    assert data.x.tolist() == [[[1, 2, 3]], [[1, 2, 2]]]
    assert read_series(tmp_path / "mine.npz", missing="drop").y.tolist() == [0]
    with pytest.raises(ValueError, match=r"path: received 'nowhere.csv', which does not exist; accepted is a file"):
        read_series("nowhere.csv")


def test_bumps_are_drawn_in_code():
    still = warped_bumps(3, 64, noise=0, warp=0).x
    assert torch.equal(still[0], still[2])
    assert still.argmax(-1).flatten().tolist() in ([31] * 3, [32] * 3)
    moved = warped_bumps(200, 64, noise=0)
    assert moved.x.argmax(-1).double().std() > 5
    assert torch.equal(moved.x, warped_bumps(200, 64, noise=0).x)
    assert (warped_bumps(400, 64, warp=0).x - still[0]).std() == pytest.approx(0.1, rel=0.05)
    with pytest.raises(ValueError, match="noise: received int -1"):
        warped_bumps(noise=-1)


def table(tmp_path, text, name="mine.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (("1_12", "11_2", "c"), ("11_2", "1_12", "c")),
        (("01", "1", "001"), ("001", "01", "1")),
        (("1", "1.0", "1.0000e+00"), ("1",)),
        (("٣", "3", "3.0"), ("3", "٣")),  # a digit of another script
        (("-1", "1", "1.5"), ("-1", "1", "1.5")),
    ],
)
def test_codes_are_different_classes_and_numbers_that_are_equal_are_not(tmp_path, labels, classes):
    text = "label,t0,t1\n" + "".join(f"{label},1,{k}\n" for k, label in enumerate(labels))
    assert set(read_series(table(tmp_path, text)).classes) == set(classes)
    lines = "\n".join(f"{label}\t1\t{k}" for k, label in enumerate(labels))
    assert set(read_series(table(tmp_path, lines, "mine_TRAIN.tsv")).classes) == set(classes)


def test_numbers_of_programs_are_no_numbers_of_tables(tmp_path):
    with pytest.raises(ValueError, match="received '1_000'; accepted is a number"):
        read_series(table(tmp_path, "label,t0,t1\na,1_000,2\nb,3,4\n"))
    with pytest.raises(ValueError, match="line 1: could not convert string to float: '1_000'"):
        read_series(table(tmp_path, "1\t1_000\t2\n", "mine_TRAIN.tsv"))


def test_a_label_that_stands_for_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="line 3: received the label 'nan', which stands for none"):
        read_series(table(tmp_path, "label,t0,t1\na,1,2\nnan,3,4\n"))


def test_rows_that_are_longer_than_the_line_of_names_are_refused(tmp_path):
    """As R writes them, with names of rows and no name for these."""
    with pytest.raises(ValueError, match="line 2 has 4 cells, more than the 3 names of columns"):
        read_series(table(tmp_path, "label,t0,t1\n1,2,5,6\n2,3,7,8\n"))
    assert read_series(table(tmp_path, "label,t0,t1\na,5,6,\nb,7,8,\n")).x.shape == (2, 1, 2)  # a comma at the end


def test_columns_without_a_name_have_no_values(tmp_path):
    """As spreadsheets leave them; values in them were moments, and gaps were channels."""
    assert read_series(table(tmp_path, "label,t0,,t1,\na,5,,6,\nb,7,,8,\n")).x.tolist() == [[[5, 6]], [[7, 8]]]
    long = "id,label,v,\n1,a,5,\n1,a,6,\n"
    assert read_series(table(tmp_path, long), series="id").x.tolist() == [[[5, 6]]]
    with pytest.raises(ValueError, match="line 2: received '9' in a column without a name; accepted"):
        read_series(table(tmp_path, "label,t0,t1,\na,5,6,9\n"))
    with pytest.raises(ValueError, match="line 3: received '9' in a column without a name; accepted"):
        read_series(table(tmp_path, long.replace("6,", "6,9")), series="id")


def test_decimal_commas_between_semicolons_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"line 1, column 2: received '1,5'; accepted is a number such as 1.5"):
        read_series(table(tmp_path, "1;1,5;2,5;3,5\n"))


def test_a_level_beside_which_values_cannot_be_told_apart_is_refused(tmp_path):
    wave = np.sin(np.arange(20.0) + np.arange(4)[:, None])
    np.savez(tmp_path / "mine.npz", x=1e9 + wave, y=[0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"mine.npz: series\[0\]: .* differ by 1.991; float32 cannot tell"):
        read_series(tmp_path / "mine.npz")
    x = stack_series(list(1e4 + wave)).x.double().squeeze(1) - 1e4
    assert (x - torch.from_numpy(wave)).abs().max() < 1e-3
    assert torch.equal(stack_series([1e9 + wave[0]], dtype=torch.float64).x[0, 0], torch.from_numpy(1e9 + wave[0]))
    constant = np.full(20, 0.1) + 1e-16 * np.arange(20)
    assert stack_series([constant]).x.unique().numel() == 1  # rounding is no signal
    single = np.float32(0.1) + np.spacing(np.float32(0.1)) * np.arange(20, dtype=np.float32)
    assert stack_series([single]).x[0, 0].tolist() == single.tolist()  # as it came, whatever it means
    with pytest.raises(ValueError, match=r"values up to 1e\+09 in size that differ by 1.991"):
        stack_series([np.stack((1e12 * wave[0], 1e9 + wave[0]))])


def test_what_lacks_at_the_end_of_arrays_of_one_length_is_missing():
    x = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, NAN]])
    assert stack_series(list(x), missing="interpolate").x.tolist() == [[[0, 1, 2]], [[3, 4, 4]]]
    assert stack_series(list(x), missing="drop").kept.tolist() == [0]
    with pytest.raises(ValueError, match="unequal: received series of lengths from 2 to 3"):
        stack_series(list(x))
    with pytest.raises(ValueError, match="unequal: received series of lengths from 2 to 3"):
        stack_series([x[0], x[1, :2]], missing="interpolate")  # which ends there
    both = np.array([[0.0, 1.0, NAN], [NAN, 4.0, NAN]])
    assert stack_series(list(both), missing="interpolate").x.tolist() == [[[0, 1]], [[4, 4]]]
    # Alone, or beside others: the length that is asked for is the same.
    assert stack_series([x[1]], missing="interpolate", length=3).x.tolist() == [[[3, 4, 4]]]
    with pytest.raises(ValueError, match="received series of length 3 for the length 2"):
        stack_series([x[0]], missing="interpolate", length=2)
    with pytest.raises(ValueError, match="received series of length 2 for the length 4"):
        stack_series([x[1]], missing="interpolate", length=4)


def test_what_is_dropped_for_a_gap_does_not_come_back_without_its_end():
    x = np.array([[0.0, 1.0, NAN, NAN, NAN], [0.0, 1.0, 2.0, NAN, NAN], [0.0, 1.0, 2.0, NAN, 4.0]])
    assert stack_series(list(x), missing="drop").kept.tolist() == [1]


def test_moments_are_not_taken_for_classes(tmp_path):
    """Without a line of names the first column has the classes, which 1.5 is not."""
    path = tmp_path / "bare.csv"
    path.write_text("1.5,2.5,3.5\n4,5.5,6.5\n0.5,1,2\n")
    with pytest.raises(ValueError, match=r"line 1: received '1.5' for a class.*label=None where there are none"):
        read_series(path)
    assert read_series(path, label=None).x.shape == (3, 1, 3)
    path.write_text("1.0,2.5,3.5\n2,5.5,6.5\n")
    assert read_series(path).classes == ("1", "2")
    with pytest.raises(ValueError, match=r"which does not exist; accepted is a file with series"):
        read_series(tmp_path / "gone.csv")


@pytest.mark.parametrize("axis", ["400.0,401.93,403.86,405.79,407.71,409.64,411.57,413.5", "8,7,6,5,4,3,2,1"])
def test_an_axis_in_the_first_line_is_no_series(tmp_path, axis):
    rows = ["1.5,2,0,1,3,2,2,7", "0,0,0,0,0,0,0,0", axis]
    path = tmp_path / "spectra.csv"
    path.write_text("\n".join([axis, *rows[:2]]))
    with pytest.raises(ValueError, match=r"line 1: received .*, evenly spaced as no other line is"):
        read_series(path, label=None)
    path.write_text("\n".join([f"class,{axis}", f"a,{rows[0]}", f"b,{rows[1]}"]))
    with pytest.raises(ValueError, match=r"line 1: received class, .*the column of labels that `label` says"):
        read_series(path)
    assert read_series(path, label="class").classes == ("a", "b")
    for series in ([axis, *rows], [axis], rows):  # where others are so too, or it is not the first, it is one of them
        path.write_text("\n".join(series))
        assert len(read_series(path, label=None)) == len(series)


def test_series_in_unlike_steps_of_time_are_no_set_unless_resampled(tmp_path):
    """Of a second in ten moments and one in five, the latter end in the midst of the former."""
    path = tmp_path / "rates.csv"
    path.write_text("trial,ms,v\n" + "".join(f"a,{t},1\n" for t in (0, 1, 2)) + "".join(f"b,{t},2\n" for t in (9, 11)))
    for unequal in ("raise", "pad"):
        with pytest.raises(ValueError, match="time: received steps of 2 in the series 'b' and of 1 in 'a'; accepted"):
            read_series(path, label=None, series="trial", time="ms", unequal=unequal)
    assert read_series(path, label=None, series="trial", time="ms", unequal="resample").x.shape == (2, 1, 3)
    assert read_series(path, label=None, series="trial", unequal="pad").x.shape == (2, 2, 3)


def test_a_test_part_that_ends_sooner_is_filled_in_to_the_length_of_the_training_part(tmp_path):
    train, test = np.array([[0.0, 1.0, 2.0], [1.0, NAN, 3.0]]), np.array([[4.0, 5.0, NAN]])
    np.savez(tmp_path / "both.npz", x_train=train, y_train=[0, 1], x_test=test, y_test=[0])
    for part, x in (("TRAIN", train), ("TEST", test)):
        (tmp_path / f"both_{part}.tsv").write_text("\n".join("\t".join(map(str, [k, *row])) for k, row in enumerate(x)))
    for name in ("both.npz", "both_TRAIN.tsv"):
        found = load(tmp_path / name, "test", missing="interpolate")
        assert found.x.tolist() == [[[4.0, 5.0, 5.0]]]
