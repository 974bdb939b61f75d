"""Transfer tasks: files against known counts, classifiers against torch.optim, scores against SentEval."""

import json
import zlib
from functools import cache

import numpy as np
import pytest
import senteval_classifier as classifier
import senteval_scores as transfer
import torch
from senteval_classifier import L2_WEIGHTS, Fold, fit_classifiers
from senteval_scores import score_transfer
from senteval_tasks import TRANSFER_TASKS, Split, TransferTask, read_transfer_task
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

from rankencoder.errors import InputError

# --------------------------------------------------------------------------------------------------- files

COUNTS = {
    "MR": {"all": [5331, 5331]},
    "CR": {"all": [1368, 2407]},
    "SUBJ": {"all": [5000, 5000]},
    "MPQA": {"all": [7294, 3312]},
    "SST-2": {"train": [29780, 37569], "dev": [428, 444], "test": [912, 909]},
    "TREC": {"train": [86, 1162, 1250, 1223, 835, 896], "test": [9, 138, 94, 65, 81, 113]},
    "MRPC": {"train": [1323, 2753], "test": [578, 1147]},
}


@pytest.fixture(scope="module")
def tasks(shared):
    return cache(lambda name: read_transfer_task(shared / "data/senteval", name))


@pytest.mark.parametrize("name", TRANSFER_TASKS)
def test_published_counts(tasks, name):
    task = tasks(name)
    assert {split: np.bincount(rows.labels).tolist() for split, rows in task.splits.items()} == COUNTS[name]
    assert task.classes == len(next(iter(COUNTS[name].values())))
    assert task.warnings == ()
    for rows in task.splits.values():
        assert len(rows.first) == len(rows.labels)
        assert len(rows.second) == (len(rows.labels) if name == "MRPC" else 0)
    assert all(text and text == " ".join(text.split()) for text in task.sentences)
    assert len(set(task.sentences)) == len(task.sentences)


def labels_of(split, start):
    return [label for text, label in zip(split.first, split.labels, strict=True) if text.startswith(start)]


def test_spot_checks(tasks):
    assert labels_of(tasks("MR").splits["all"], "effective but too-tepid biopic") == [1]
    assert labels_of(tasks("CR").splits["all"], "many of our disney movies do n 't play on this dvd") == [0]
    assert labels_of(tasks("SST-2").splits["train"], "hide new secretions from the parental units") == [0]
    assert labels_of(tasks("TREC").splits["train"], "What films featured the character Popeye Doyle ?") == [2]
    pairs = tasks("MRPC").splits["train"]
    (i,) = (i for i, text in enumerate(pairs.first) if text.startswith("Amrozi accused his brother , whom"))
    assert pairs.labels[i] == 1
    assert pairs.second[i].startswith('Referring to him as only " the witness "')


def test_latin_1_and_the_byte_order_mark(tasks):
    assert any("sisterðcity" in text for text in tasks("TREC").sentences)
    assert not any("\ufeff" in text or "Ã" in text for text in tasks("MRPC").sentences)


def test_senteval_order_and_empty_lines(tasks):
    for name in ("CR", "TREC"):
        for rows in tasks(name).splits.values():
            order = [
                (0 if text == "." else len(text.split()), label)
                for text, label in zip(rows.first, rows.labels, strict=True)
            ]
            assert order == sorted(order)
    assert tasks("CR").splits["all"].first[:5].count(".") == 4


def test_fingerprint_is_of_the_content(tasks):
    task = tasks("TREC")
    train = task.splits["train"]
    flipped = Split(train.first, (*train.labels[:-1], (train.labels[-1] + 1) % 6))
    assert len(task.fingerprint) == 64
    assert TransferTask("TREC", 6, {**task.splits, "train": flipped}).fingerprint != task.fingerprint
    assert TransferTask("TREC", 6, dict(task.splits), ("a warning",)).fingerprint == task.fingerprint


HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
FILES = {
    "TREC/train_5500.label": "DESC:manner How  did\tit end ?\nNUM:date When ?\n",
    "TREC/TREC_10.label": "LOC:city Where is Orl\xe9ans ?\n",
    "SST/binary/sentiment-train": "so good \t1\nbad\t0\n",
    "SST/binary/sentiment-dev": "fine\t1\n",
    "SST/binary/sentiment-test": "dull\t0\n",
    "MRPC/msr_paraphrase_train.txt": f'\ufeff{HEADER}1\t5\t6\tA "cat .\tCat"\n',
    "MRPC/msr_paraphrase_test.txt": f"\ufeff{HEADER}0\t5\t6\tOne\tTwo\n",
    "CR/custrev.pos": "good\r\n\r\nit is good\n",
    "CR/custrev.neg": "bad",
}


def write(folder, changes=()):
    for name, text in {**FILES, **dict(changes)}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            latin = name.startswith(("TREC", "CR"))
            path.write_bytes(
                text if isinstance(text, bytes) else text.encode("latin-1" if latin else "utf-8")
            )
    return folder


@pytest.mark.parametrize(("place", "given"), [("", ""), ("downstream", ""), ("downstream", "downstream")])
def test_layouts_and_small_files(tmp_path, place, given):
    write(tmp_path / place)
    trec = read_transfer_task(tmp_path / given, "TREC")
    assert trec.splits["train"] == Split(("When ?", "How did it end ?"), (5, 1))
    assert trec.splits["test"].first == ("Where is Orléans ?",)
    assert len(trec.warnings) == 2
    assert "train_5500.label has 2 rows, the published file 5452" in trec.warnings[0]
    assert read_transfer_task(tmp_path / given, "SST-2").splits["train"] == Split(("bad", "so good"), (0, 1))
    assert read_transfer_task(tmp_path / given, "MRPC").splits["train"] == Split(
        ('A "cat .',), (1,), ('Cat"',)
    )
    assert read_transfer_task(tmp_path / given, "CR").splits["all"] == Split(
        (".", "bad", "good", "it is good"), (1, 0, 1, 1)
    )


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        (
            "TREC",
            "TREC/TREC_10.label",
            None,
            "no such file: .*TREC_10.label; set `data`",
        ),
        ("TREC", "TREC/train_5500.label", "", "train_5500.label is empty"),
        (
            "TREC",
            "TREC/train_5500.label",
            "NUM:date When ?\nWhen ?\n",
            "train_5500.label, line 2: no row of TREC: b'When",
        ),
        ("TREC", "TREC/train_5500.label", "NUM:date\n", "train_5500.label, line 1: no row of TREC"),
        (
            "TREC",
            "TREC/train_5500.label",
            "NUN:date When ?\n",
            "line 1: no row of TREC: b'NUN:date",
        ),
        (
            "SST-2",
            "SST/binary/sentiment-dev",
            "a\t1\nb c\n",
            "sentiment-dev, line 2: no row of SST-2",
        ),
        (
            "SST-2",
            "SST/binary/sentiment-dev",
            "a\t1\tb\n",
            "sentiment-dev, line 1: no row of SST-2",
        ),
        ("SST-2", "SST/binary/sentiment-dev", "a\t1\nb\tgood\n", "line 2: no row of SST-2"),
        ("SST-2", "SST/binary/sentiment-dev", "a\t4\n", "line 1: no row of SST-2"),
        ("SST-2", "SST/binary/sentiment-dev", b"a\t1\n\xff\t1\n", "sentiment-dev, line 2: no row of SST-2"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", FILES["MRPC/msr_paraphrase_test.txt"] + "1\t2\n", "line 3"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", HEADER, "is empty"),
        ("MR", "CR/custrev.pos", "good", "no MR in .*: it holds no folder MR of SentEval's; set `data`"),
        ("SST2", "CR/custrev.pos", "good", "did you mean 'SST-2'"),
    ],
)
def test_wrong_files(tmp_path, name, file, text, message):
    write(tmp_path, {file: text})
    with pytest.raises(InputError, match=message):
        read_transfer_task(tmp_path, name)


# --------------------------------------------------------------------------------------------- classifiers


def one_by_one(features, labels, fold, l2, *, classes, seed=1111):
    """A logistic regression trained with torch.optim, the plain way; and the score after each round."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    model = torch.nn.Linear(features.shape[1], classes)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=l2)
    train, held_out = fold
    if held_out is None:
        order = np.random.permutation(len(train))
        size = int(0.05 * len(train))
        train, held_out = train[order[size:]], train[order[:size]]
    x, y = features[train], torch.as_tensor(labels[train])
    scores, best, misses, passes = [], None, 0, 0
    while misses <= classifier._TENACITY and passes <= classifier._MAX_PASSES:
        for _ in range(classifier._PASSES):
            for rows in torch.as_tensor(np.random.permutation(len(train))).split(classifier._BATCH_SIZE):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
        passes += classifier._PASSES
        with torch.no_grad():
            right = model(features[held_out]).argmax(dim=1).numpy() == labels[held_out]
        if not scores or right.mean() > max(scores):
            best = {name: value.clone() for name, value in model.state_dict().items()}
        else:
            misses += 1
        scores.append(right.mean())
    return best, scores


@pytest.fixture(scope="module")
def blobs():
    """Three overlapping classes in twelve dimensions."""
    random = np.random.default_rng(5)
    labels = random.integers(0, 3, 330)
    features = random.normal(size=(330, 12)) + random.normal(size=(3, 12))[labels] * 0.5
    return torch.from_numpy(features.astype(np.float32)), labels


def uneven_folds(labels):
    """Folds of different sizes: three of cross-validation, three more of a part, three to hold out from."""
    found = []
    for rows in (np.arange(len(labels)), np.arange(301)):
        split = StratifiedKFold(3, shuffle=True, random_state=1111).split(rows, labels[rows])
        found += [Fold(rows[train], rows[aside]) for train, aside in split]
    return [*found, Fold(np.arange(330)), Fold(np.arange(329)), Fold(np.arange(1, 330))]


def set_training(monkeypatch, **constants):
    for name, value in constants.items():
        monkeypatch.setattr(classifier, f"_{name.upper()}", value)


@pytest.mark.parametrize(
    "constants", [{}, {"batch_size": 50, "passes": 1, "tenacity": 0}, {"max_passes": 7}], ids=str
)
def test_each_is_as_trained_with_torch_optim(blobs, constants, monkeypatch):
    set_training(monkeypatch, **constants)
    features, labels = blobs
    folds = uneven_folds(labels)
    found = fit_classifiers(features, labels, folds, [L2_WEIGHTS] * 9, classes=3)
    for i in (4, 7):
        for j, l2 in enumerate(L2_WEIGHTS):
            best, scores = one_by_one(features, labels, folds[i], l2, classes=3)
            assert found.rounds[i, j] == len(scores)
            assert found.accuracy[i, j] == pytest.approx(max(scores), abs=1e-12)
            torch.testing.assert_close(found.weights[i, j], best["weight"], rtol=0, atol=2e-5)
            torch.testing.assert_close(found.biases[i, j], best["bias"], rtol=0, atol=2e-5)
    expected = (features @ found.weights[8, 2].T + found.biases[8, 2]).argmax(dim=1).numpy()
    assert (found.predict(features, 8, 2) == expected).all()


@pytest.fixture(scope="module")
def alone(blobs):
    """Classifiers that were trained one by one."""
    return [fit_classifiers(*blobs, [fold], [[1e-4]], classes=3) for fold in uneven_folds(blobs[1])]


@pytest.mark.parametrize(("threads", "group"), [(1, 1), (3, 2), (3, 16)])
def test_together_or_alone(blobs, alone, monkeypatch, threads, group):
    features, labels = blobs
    folds = uneven_folds(labels)
    monkeypatch.setattr(classifier, "_GROUP", group)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = fit_classifiers(features, labels, folds, [[1e-2, 1e-4, 1.0]] * 9, classes=3)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for i, one in enumerate(alone):
        assert found.accuracy[i, 1] == one.accuracy[0, 0]
        assert found.rounds[i, 1] == one.rounds[0, 0]
        torch.testing.assert_close(found.weights[i, 1], one.weights[0, 0], rtol=0, atol=1e-5)


def test_misses_are_counted_in_all_not_in_a_row(blobs, monkeypatch):
    set_training(monkeypatch, batch_size=16, passes=1)
    features, labels = blobs
    fold = uneven_folds(labels)[0]
    _, scores = one_by_one(features, labels, fold, 1e-5, classes=3)
    misses = [score <= max(scores[:i]) for i, score in enumerate(scores) if i]
    assert sum(misses) == 6
    assert not all(misses[-6:]), "a run of six misses would not tell the two apart"
    found = fit_classifiers(features, labels, [fold], [[1e-5]], classes=3)
    assert found.rounds[0, 0] == len(scores)


def test_at_most_51_rounds(monkeypatch):
    set_training(monkeypatch, tenacity=10**6)
    # one class is out of reach for long: with tiny features, the score rises or stays for ever
    features = torch.eye(4).repeat(12, 1) * 1e-6
    labels = np.tile([0, 1, 0, 1], 12)
    fold = Fold(np.arange(40), np.arange(40, 48))
    found = fit_classifiers(features, labels, [fold], [[0.0]], classes=2)
    assert found.rounds[0, 0] == 51


def test_seeds_and_global_state(blobs):
    features, labels = blobs
    folds = uneven_folds(labels)[:2]
    torch.manual_seed(3)
    np.random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    found = [
        fit_classifiers(features, labels, folds, [[1e-4]] * 2, classes=3, seed=seed) for seed in (7, 7, 8)
    ]
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all()
    assert torch.equal(found[0].weights, found[1].weights)
    assert not torch.equal(found[0].weights, found[2].weights)


def test_as_good_as_scikit_learn():
    random = np.random.default_rng(0)
    direction = random.normal(size=40)
    features = random.normal(size=(3000, 40)).astype(np.float32)
    labels = (features @ direction + random.normal(size=3000) * 4 > 0).astype(int)
    train, test = np.arange(2000), np.arange(2000, 3000)
    found = fit_classifiers(torch.from_numpy(features), labels, [Fold(train)], [[1e-4]], classes=2)
    accuracy = (found.predict(torch.from_numpy(features[test]), 0) == labels[test]).mean()
    oracle = LogisticRegression().fit(features[train], labels[train]).score(features[test], labels[test])
    assert accuracy == pytest.approx(oracle, abs=0.015)


# -------------------------------------------------------------------------------------------------- scores


@cache
def word_vector(word):
    return np.random.default_rng(zlib.crc32(word.encode())).normal(size=16)


def bag(texts):
    return np.array([sum(map(word_vector, text.lower().split())) for text in texts], dtype=np.float32)


# what SentEval's own code says of bag()
SENTEVAL = {
    "TREC": {"accuracy": 41.2, "dev_accuracy": 40.65},
    "MRPC": {"accuracy": 68.12, "dev_accuracy": 69.9, "f1": 78.63},
}


@pytest.mark.parametrize("name", SENTEVAL)
def test_as_senteval_has_it(tasks, name):
    found = score_transfer(tasks(name), bag)
    expected = SENTEVAL[name]
    # equal where it was written; rounding differs between processors and libraries
    assert {key: found[key] for key in expected} == pytest.approx(expected, abs=0.5)
    assert len(found["folds"]) == len(found["l2"]) == 1


def small_task(name, sizes, classes=2, pairs=False):
    random = np.random.default_rng(1)
    splits = {}
    for split, size in sizes.items():
        labels = tuple(i % classes for i in range(size))
        texts = [tuple(f"{split} {column} {i} {label}" for i, label in enumerate(labels)) for column in "ab"]
        splits[split] = Split(texts[0], labels, texts[1] if pairs else ())
    vectors = {}
    for split in splits.values():
        for text in (*split.first, *split.second):
            vectors[text] = random.normal(size=6) + int(text.split()[-1]) * (0.3 + ("b" in text) * pairs)
    return TransferTask(name, classes, splits), vectors


def encoder(vectors):
    return lambda texts: np.array([vectors[text] for text in texts], dtype=np.float32)


def choose(features, labels, folds):
    """The weight of L2 with the best mean accuracy on held-out rows, first of equals, and its accuracy."""
    means = []
    for l2 in L2_WEIGHTS:
        fits = [one_by_one(features, labels, Fold(*fold), l2, classes=2) for fold in folds]
        means.append(round(100 * np.mean([max(scores) for _, scores in fits]), 2))
    return L2_WEIGHTS[np.argmax(means)], max(means)


def refit(features, labels, train, l2):
    best, _ = one_by_one(features, labels, Fold(train), l2, classes=2)
    return lambda rows: (rows @ best["weight"].T + best["bias"]).argmax(dim=1).numpy()


def test_nested_folds_one_by_one(monkeypatch):
    monkeypatch.setattr(transfer, "_FOLDS", 3)
    task, vectors = small_task("MR", {"all": 90})
    split = task.splits["all"]
    features, labels = torch.from_numpy(encoder(vectors)(split.first)), np.array(split.labels)
    folds = StratifiedKFold(3, shuffle=True, random_state=1111)
    l2s, devs, tests = [], [], []
    for train, test in folds.split(features, labels):
        inner = [(train[a], train[b]) for a, b in folds.split(features[train], labels[train])]
        l2, dev = choose(features, labels, inner)
        predict = refit(features, labels, train, l2)
        l2s.append(l2)
        devs.append(dev)
        tests.append(round(100 * (predict(features[test]) == labels[test]).mean(), 2))
    found = score_transfer(task, encoder(vectors))
    assert found["l2"] == l2s
    assert found["folds"] == tests
    assert found["accuracy"] == round(np.mean(tests), 2)
    assert found["dev_accuracy"] == round(np.mean(devs), 2)
    assert found["n"] == {"all": 90}
    assert json.loads(json.dumps(found)) == found


def test_pairs_one_by_one(monkeypatch):
    monkeypatch.setattr(transfer, "_FOLDS", 3)
    task, vectors = small_task("MRPC", {"train": 90, "test": 40}, pairs=True)
    encode = encoder(vectors)
    u, v = encode(task.splits["train"].first), encode(task.splits["train"].second)
    features = torch.from_numpy(np.hstack([np.abs(u - v), u * v]))
    labels = np.array(task.splits["train"].labels)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=1111).split(features, labels))
    l2, dev = choose(features, labels, folds)
    u, v = encode(task.splits["test"].first), encode(task.splits["test"].second)
    predict = refit(features, labels, np.arange(90), l2)
    predicted = predict(torch.from_numpy(np.hstack([np.abs(u - v), u * v])))
    truth = np.array(task.splits["test"].labels)
    found = score_transfer(task, encode)
    assert found["l2"] == [l2]
    assert found["dev_accuracy"] == dev
    assert found["accuracy"] == round(100 * (predicted == truth).mean(), 2)
    assert found["f1"] == round(100 * f1_score(truth, predicted), 2)
    turned = {name: Split(split.second, split.labels, split.first) for name, split in task.splits.items()}
    assert score_transfer(TransferTask("MRPC", 2, turned), encode) == found


def test_a_dev_split_chooses():
    task, vectors = small_task("SST-2", {"train": 200, "dev": 50, "test": 60})
    rows = {name: torch.from_numpy(encoder(vectors)(split.first)) for name, split in task.splits.items()}
    labels = {name: np.array(split.labels) for name, split in task.splits.items()}
    both, truth = torch.cat([rows["train"], rows["dev"]]), np.hstack([labels["train"], labels["dev"]])
    fold = Fold(np.arange(200), np.arange(200, 250))
    l2, dev = choose(both, truth, [fold])
    best, _ = one_by_one(both, truth, fold, l2, classes=2)
    predicted = (rows["test"] @ best["weight"].T + best["bias"]).argmax(dim=1).numpy()
    found = score_transfer(task, encoder(vectors))
    assert (found["l2"], found["dev_accuracy"]) == ([l2], dev)
    assert found["accuracy"] == round(100 * (predicted == labels["test"]).mean(), 2)
    assert "f1" not in found


def test_each_sentence_is_encoded_once_and_as_any_array():
    task, vectors = small_task("SST-2", {"train": 60, "dev": 20, "test": 20})
    asked = []

    def encode(texts):
        asked.extend(texts)
        return encoder(vectors)(texts)

    found = score_transfer(task, encode)
    assert asked == task.sentences
    doubled = score_transfer(task, lambda texts: encode(texts).astype(np.float64).tolist())
    assert (
        found == doubled == score_transfer(task, lambda texts: torch.from_numpy(encode(texts)), device="cpu")
    )
    assert found["seed"] == 1111


def test_wrong_vectors():
    task, vectors = small_task("SST-2", {"train": 60, "dev": 20, "test": 20})
    for bad in (np.nan, np.inf):
        spoilt = {**vectors, "dev a 3 1": np.array([0, 1, bad, 0, 0, 0])}
        with pytest.raises(InputError, match=r"NaN or infinite vector for 'dev a 3 1' \(1 of 100 sentences"):
            score_transfer(task, encoder(spoilt))
    with pytest.raises(InputError, match=r"100 sentences and returned an array of shape \[99, 6\]"):
        score_transfer(task, lambda texts: encoder(vectors)(texts[1:]))
    with pytest.raises(InputError, match=r"shape \[100\]"):
        score_transfer(task, lambda texts: np.ones(len(texts)))
    with pytest.raises(InputError, match="not return an array of numbers"):
        score_transfer(task, lambda texts: ["x"] * len(texts))
