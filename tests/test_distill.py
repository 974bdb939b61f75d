"""`distill` as its users meet it: teachers of every kind, students of every kind, resuming, bad input."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from card_checks import checked
from scipy.stats import ortho_group, spearmanr
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from rankencoder import RankEncoder, distill
from rankencoder.distillation import distillation_run as module
from rankencoder.distillation.agreement import gain_noise, held_out_rows, neighbor_recall
from rankencoder.distillation.distill_config import read_distillation
from rankencoder.distillation.teacher_space import fit_map, space_recall
from rankencoder.errors import InputError, TrainingWarning
from rankencoder.io.stored_vectors import StoredVectors
from rankencoder.model_card import short_name

pytestmark = pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
QUICK = {"batch_size": 64, "max_steps": 6, "progress": False, "device": "cpu"}


@pytest.fixture(scope="module")
def other_folder(tmp_path_factory, tiny_folder):
    """A second encoder: the tiny BERT with other weights."""
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("other") / "model"
    model.save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def better(tmp_path_factory, tiny_folder, other_folder, corpus_file):
    """A student taught by two teachers, itself among them."""
    out = tmp_path_factory.mktemp("better") / "out"
    teachers = [str(tiny_folder), str(other_folder)]
    settings = {**QUICK, "max_steps": 60, "learning_rate": 1e-3}
    return distill(corpus_file, out, teacher=teachers, student=other_folder, **settings)


def interrupted(*_, **__):
    raise KeyboardInterrupt


def weights(folder):
    model = SentenceTransformer(str(folder), device="cpu")
    return {name: value.clone() for name, value in model.state_dict().items()}


def test_a_student_comes_nearer_to_its_teachers(better):
    agreement = better.record["agreement"]
    assert better.is_nearer
    assert agreement["after"]["spearman"] > agreement["before"]["spearman"]
    assert sorted(path.name for path in better.folder.iterdir()) == [
        "distill.yaml",
        "encoder",
        "rankencoder-run.json",
    ]
    assert json.loads((better.folder / "rankencoder-run.json").read_text())["finished"] is True


def test_the_student_loads_without_our_code(better):
    code = (
        "import sys; sys.modules['rankencoder'] = None\n"
        "from sentence_transformers import SentenceTransformer\n"
        f"print(SentenceTransformer({str(better.encoder)!r}, device='cpu').encode(['The cat sees']).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1, 32)"


def test_the_card_names_teachers_text_and_figures(better, tiny_folder):
    card = checked(better.encoder).content
    assert f"`{short_name(str(tiny_folder))}`" in card
    assert "corpus.txt: 1,200 sentences" in card
    assert "nearer to its teachers by" in card
    assert "better" not in card.lower().split("## how it was made")[0]


def test_the_card_tells_weights_prompts_and_dimension(tmp_path, tiny_folder, other_folder, corpus_file):
    teachers = [f"{tiny_folder}?prompt=query: ", other_folder]
    run = distill(
        corpus_file, tmp_path / "out", teacher=teachers, weight=[3.0, 1.0], student=tiny_folder, **QUICK
    )
    card = (run.encoder / "README.md").read_text()
    names = short_name(str(tiny_folder)), short_name(str(other_folder))
    assert (
        f"| teachers | `{names[0]}` with the prompt `query: `, weight 0.75; `{names[1]}`, weight 0.25 |"
        in card
    )
    assert "| dimensions | 32 |" in card


def test_cosines_keep_their_scale(better, other_folder, sentences):
    """Old thresholds hold: mean and spread of the student's cosines are what they were."""

    def scale(folder):
        vectors = SentenceTransformer(str(folder), device="cpu").encode(
            sentences[::4], normalize_embeddings=True
        )
        cosines = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
        return cosines.mean(), cosines.std()

    (mean, deviation), (new_mean, new_deviation) = scale(other_folder), scale(better.encoder)
    assert abs(mean - new_mean) < 0.5 * deviation
    assert 0.5 < new_deviation / deviation < 2


@pytest.mark.parametrize("target", ["ranks", "cosine"])
def test_other_targets(target, tmp_path, tiny_folder, other_folder, corpus_file):
    run = distill(
        corpus_file,
        tmp_path / "out",
        teacher=[tiny_folder, other_folder],
        student=other_folder,
        target=target,
        weight=[3.0, 1.0],
        **QUICK,
    )
    assert run.record["config"]["target"] == target
    assert run.load().encode(["The cat"]).shape == (1, 32)


def test_teachers_of_every_kind(tmp_path, tiny_folder, tiny_saved, sentences, callable_encoder):
    """With a prompt, a RankEncoder's folder, an open RankEncoder, a callable, a model in memory."""
    teachers = [
        f"{tiny_folder}?prompt=the ",
        tiny_saved,
        RankEncoder(callable_encoder, sentences, form="linear", progress=False),
        callable_encoder,
        SentenceTransformer(str(tiny_folder), device="cpu"),
    ]
    run = distill(sentences, tmp_path / "out", teacher=teachers, student=tiny_folder, **QUICK)
    assert len(run.record["teachers"]) == 5
    assert run.record["teachers"][1]["dimension"] == RankEncoder.load(tiny_saved).dimension


def test_layers_of_an_encoder(tmp_path, tiny_folder, corpus_file):
    run = distill(corpus_file, tmp_path / "out", teacher=tiny_folder, student=tiny_folder, layers=1, **QUICK)
    model = run.load()
    assert model[0].auto_model.config.num_hidden_layers == len(model[0].auto_model.encoder.layer) == 1
    assert run.record["config"]["vector_weight"] > 0


def test_a_static_student(tmp_path, tiny_folder, corpus_file):
    run = distill(corpus_file, tmp_path / "out", teacher=tiny_folder, student="static", dim=16, **QUICK)
    model = run.load()
    assert type(model[0]).__name__ == "StaticEmbedding"
    assert model.encode(["The cat sees the dog", "never seen: xylophone"]).shape == (2, 16)
    assert run.record["sentences_per_second"] > 0


def test_a_static_student_keeps_the_tokens_of_a_rankencoders_tokenizer(
    tmp_path, tiny_folder, other_folder, tiny_saved, sentences
):
    fused = RankEncoder([str(tiny_folder), str(other_folder)], sentences, progress=False)
    tokens = SentenceTransformer(str(tiny_folder), device="cpu").tokenizer.get_vocab()
    for number, teacher in enumerate((tiny_saved, fused)):
        given = {"teacher": teacher, "student": "static", "dim": 16, **QUICK}
        run = distill(sentences[:300], tmp_path / str(number), **given)
        assert (
            tokens.keys() - {"[PAD]", "[CLS]", "[SEP]", "[MASK]"}
            <= run.load()[0].tokenizer.get_vocab().keys()
        )


def test_an_existing_static_encoder_has_the_static_recipe(tmp_path, tiny_folder, other_folder, corpus_file):
    first = distill(corpus_file, tmp_path / "a", teacher=tiny_folder, student="static", dim=16, **QUICK)
    settings = {"teacher": other_folder, "student": first.encoder, "progress": False, "device": "cpu"}
    again = distill(corpus_file, tmp_path / "b", **settings)
    assert again.record["student"]["kind"] == "static encoder"
    assert {name: again.record["config"][name] for name in ("learning_rate", "epochs", "batch_size")} == {
        "learning_rate": 2e-3,
        "epochs": 8,
        "batch_size": 512,
    }
    assert again.is_nearer
    with pytest.raises(InputError, match="is both the student and the only teacher"):
        distill(corpus_file, tmp_path / "c", **{**settings, "teacher": first.encoder})


def test_a_folder_called_static_is_not_the_static_student(tmp_path, monkeypatch):
    """Web projects have such a folder; as a path it can still be a student."""
    (tmp_path / "static").mkdir()
    monkeypatch.chdir(tmp_path)
    assert read_distillation({"student": "static"}).draft.student == "static"
    assert read_distillation({"student": "./static"}).draft.student == str(tmp_path / "static")


def test_a_plain_backbone_takes_its_teachers_scale(tmp_path, backbone, tiny_folder, corpus_file):
    run = distill(corpus_file, tmp_path / "out", teacher=tiny_folder, student=backbone, **QUICK)
    assert run.record["student"]["kind"] == "backbone"


def test_a_student_in_its_teachers_space(tmp_path, tiny_folder, corpus_file, sentences):
    """Documents indexed by the teacher are found by queries of the student."""
    run = distill(
        corpus_file,
        tmp_path / "out",
        teacher=tiny_folder,
        student="static",
        dim=24,
        space="teacher",
        **{**QUICK, "max_steps": 60},
    )
    teacher = SentenceTransformer(str(tiny_folder), device="cpu")
    documents = teacher.encode(sentences[:300], normalize_embeddings=True)
    queries = run.load().encode(sentences[:300], normalize_embeddings=True)
    assert queries.shape == documents.shape
    own = (queries * documents).sum(axis=1).mean()
    crossed = (queries * np.roll(documents, 7, axis=0)).sum(axis=1).mean()
    assert own > crossed
    held = [sentences[row] for row in held_out_rows(len(sentences), 42)]
    documents, queries = teacher.encode(held), run.load().encode(held)
    index = NearestNeighbors(metric="cosine").fit(documents)
    wanted = index.kneighbors(n_neighbors=10, return_distance=False)  # each document's, without itself
    found = index.kneighbors(queries, n_neighbors=11, return_distance=False)
    shared = [len({*near[near != i][:10]} & {*wanted[i]}) / 10 for i, near in enumerate(found)]
    assert run.record["space"]["recall"] == pytest.approx(np.mean(shared), abs=0.01)  # stored in float16


@pytest.mark.parametrize("rows", [250, 1000])
def test_a_map_of_few_sentences_keeps_their_neighbors(rows):
    """As many sentences as dimensions: least squares would follow the noise."""
    draw = np.random.default_rng(0)
    teacher = normalize(draw.normal(size=(rows + 400, 256)) * np.linspace(1, 0.05, 256))
    student = normalize(
        teacher @ ortho_group.rvs(256, random_state=0) + 0.02 * draw.normal(size=teacher.shape)
    )
    weight = fit_map(student[:rows], teacher[:rows])
    documents, queries = teacher[rows:], student[rows:]
    own = neighbor_recall(queries @ queries.T, documents @ documents.T)
    assert space_recall(normalize(queries @ weight.T), documents) > 0.9 * own
    alphas = np.logspace(-4, 2, 25) * np.trace(student[:rows].T @ student[:rows]) / 256
    expected = RidgeCV(alphas, fit_intercept=False).fit(student[:rows], teacher[:rows])
    assert weight == pytest.approx(expected.coef_, abs=1e-6)


def test_a_map_of_too_few_sentences_is_warned_of(tmp_path, tiny_folder, sentences):
    given = {"teacher": tiny_folder, "student": "static", "dim": 24, "space": "teacher", **QUICK}
    with pytest.warns(TrainingWarning, match="15 sentences are too few to fit a map of 24 dimensions"):
        distill(sentences[:20], tmp_path / "out", **{**given, "batch_size": 5})


def test_dev_pairs_give_the_gain_with_its_interval(
    tmp_path, tiny_folder, other_folder, corpus_file, sentences
):
    gold = SentenceTransformer(str(other_folder), device="cpu")
    a, b = sentences[:80], sentences[300:380]
    cosines = gold.similarity_pairwise(gold.encode(a), gold.encode(b)).numpy()
    dev = tmp_path / "dev.tsv"
    rows = (f"{score:.6f}\t{x}\t{y}\n" for score, x, y in zip(cosines, a, b, strict=True))
    dev.write_text("".join(rows))
    run = distill(
        corpus_file,
        tmp_path / "out",
        teacher=[tiny_folder, other_folder],
        student=tiny_folder,
        dev=[str(dev)],
        **{**QUICK, "learning_rate": 1e-3, "max_steps": 30},
    )
    found = run.record["dev"]
    for key, folder in (("before", tiny_folder), ("after", run.encoder)):
        model = SentenceTransformer(str(folder), device="cpu")
        own = model.similarity_pairwise(model.encode(a), model.encode(b)).numpy()
        assert found[key] == pytest.approx(spearmanr(cosines, own).statistic, abs=1e-4)
    assert found["interval"][0] <= found["gain"] <= found["interval"][1]
    assert found["after"] >= found["before"]  # the start is a candidate


# -- resuming


def test_a_killed_run_ends_as_an_undisturbed_one(tmp_path, tiny_folder, other_folder, corpus_file):
    """Killed at any moment, a resumed run has the same weights, bit for bit."""
    common = ["--teacher", tiny_folder, "--teacher", other_folder, "--student", tiny_folder]
    common += ["--batch-size", "64", "--max-steps", "30", "--device", "cpu", "--set", "save_steps=5"]
    command = [sys.executable, "-m", "rankencoder", "distill", corpus_file, *common]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*map(str, command), "-o", whole], check=True, env=environment, capture_output=True)
    process = subprocess.Popen([*map(str, command), "-o", cut], env=environment, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(cut.glob("work/checkpoints/checkpoint-*/manifest.json")):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (cut / "work").exists(), "it was killed too late to be resumed"
    again = [sys.executable, "-m", "rankencoder", "distill", "--resume", "-o", str(cut)]
    subprocess.run(again, check=True, env=environment, capture_output=True)
    expected, found = weights(whole / "encoder"), weights(cut / "encoder")
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_a_teacher_that_dies_is_not_asked_again_for_what_it_gave(
    tmp_path, tiny_folder, callable_encoder, monkeypatch
):
    from rankencoder.training.teaching import teachers as module

    monkeypatch.setattr(module, "_PART", 256)
    texts = [f"The cat number {n} sees" for n in range(1000)]
    seen, alive = [], [600]

    def mortal(batch):
        if len(seen) > alive[0]:
            raise InputError("the teacher is gone")
        seen.extend(batch)
        return callable_encoder(batch)

    out = tmp_path / "out"
    with pytest.raises(InputError, match="the teacher is gone"):
        distill(texts, out, teacher=[mortal, tiny_folder], student=tiny_folder, **QUICK)
    before, alive[0] = len(seen), 10**9
    distill(output=out, teacher=[mortal, tiny_folder], student=tiny_folder, resume=True, **QUICK)
    assert len(seen) - before < 700  # at least one part of 256 was kept


def test_a_run_killed_just_before_it_was_finished_can_be_resumed(
    tmp_path, tiny_folder, other_folder, sentences, monkeypatch
):
    def killed(folder, record):
        if record["finished"]:
            raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, "write_record", killed)
        given = {"teacher": other_folder, "student": tiny_folder, "keep_start": True, **QUICK}
        distill(sentences[:200], out, **given)
    assert distill(output=out, resume=True, progress=False).record["finished"]
    kept, before = weights(out / "start"), weights(tiny_folder)
    assert all(torch.equal(kept[name], before[name]) for name in before)


def test_ctrl_c_names_the_command_that_goes_on(run_cli, tmp_path, tiny_folder, other_folder, corpus_file):
    """The very line that is printed resumes the run, also where a settings file names the folder."""
    out, file = tmp_path / "an output", tmp_path / "settings.yaml"
    file.write_text(
        f"output: {out}\ncorpus: {corpus_file}\nteacher: {other_folder}\nstudent: {tiny_folder}\n"
    )
    arguments = ["--config", file, "--batch-size", 64, "--max-steps", 6, "--device", "cpu"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "train_stage", interrupted)
        code, _, err = run_cli("distill", *arguments)
    assert code == 130
    line = err.splitlines()[-1]
    command = line.removeprefix("error: interrupted; to resume, run ")
    assert command == f"rankencoder distill --resume -o '{out}'"
    code, _, err = run_cli(*shlex.split(command)[1:])
    assert code == 0, err
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "store_sentences", interrupted)
        code, _, err = run_cli("distill", *arguments, "-o", tmp_path / "other")
    assert err.splitlines()[-1] == "error: interrupted; nothing was written yet"
    assert not (tmp_path / "other").exists()


# -- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"teacher": None}, "no teacher"),
        ({"student": None}, "no student"),
        ({"student": "no/such-encoder"}, "no such folder"),
        ({"teacher": "no-such-file.npy"}, "no such file of vectors"),
        ({"weight": [1.0, 2.0]}, "`weight` has 2 values, and `teacher` 1"),
        ({"dim": 64}, "only a static student has a choice of `dim`"),
        ({"layers": 7}, "cannot keep 7 of 2 layers"),
        ({"student": "static", "layers": 1}, "no layers"),
        ({"batch_size": 5000}, "fewer than one batch"),
        ({"target": "rank"}, "did you mean 'ranks'"),
    ],
)
def test_bad_settings_are_one_clear_line(change, message, tmp_path, tiny_folder, other_folder, corpus_file):
    given = {"teacher": other_folder, "student": tiny_folder, **QUICK, **change}
    with pytest.raises(InputError, match=message):
        distill(corpus_file, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("folder", ["/proc/out", "file/out"])
def test_an_output_that_cannot_be_written(folder, tmp_path, tiny_folder, other_folder, corpus_file):
    (tmp_path / "file").touch()
    out = tmp_path / folder
    with pytest.raises(InputError, match=f"cannot write {out}: .*; choose another output folder"):
        distill(corpus_file, out, teacher=other_folder, student=tiny_folder, **QUICK)


def test_a_rankencoder_has_its_own_prompt(tmp_path, tiny_folder, tiny_saved, corpus_file):
    with pytest.raises(InputError, match=r"is a RankEncoder, which has its own prompt: leave \?prompt= out"):
        distill(
            corpus_file, tmp_path / "out", teacher=f"{tiny_saved}?prompt=a: ", student=tiny_folder, **QUICK
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [3, 11])
def test_too_few_sentences_to_measure_anything(number, tmp_path, tiny_folder, other_folder, sentences):
    settings = {"teacher": other_folder, "student": tiny_folder, **QUICK, "batch_size": 2}
    with pytest.raises(InputError, match=f"{number} sentences are too few"):
        distill(sentences[:number], tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_objects_of_one_type_are_teachers_of_their_own(tmp_path, tiny_folder, other_folder, sentences):
    teachers = [SentenceTransformer(str(folder), device="cpu") for folder in (tiny_folder, other_folder)]
    run = distill(sentences[:200], tmp_path / "out", teacher=teachers, student=tiny_folder, **QUICK)
    assert [about["name"] for about in run.record["teachers"]] == [
        "python:SentenceTransformer",
        "python:SentenceTransformer 2",
    ]
    assert len({about["fingerprint"] for about in run.record["teachers"]}) == 2


def test_an_encoder_does_not_learn_from_itself_alone(tmp_path, tiny_folder, corpus_file):
    with pytest.raises(InputError, match="is both the student and the only teacher"):
        distill(corpus_file, tmp_path / "out", teacher=tiny_folder, student=tiny_folder, **QUICK)


@pytest.mark.parametrize("fault", ["nan", "dimension", "rows"])
def test_teachers_at_fault(fault, tmp_path, tiny_folder, sentences, callable_encoder):
    mended = []

    def faulty(batch):
        rows = callable_encoder(batch)
        if not mended and any("paints" in text for text in batch):
            rows = {"nan": rows * np.nan, "dimension": rows[:, :-1], "rows": rows[:-1]}[fault]
        return rows

    expected = {
        "nan": "NaN or infinite",
        "dimension": "15 dimensions, but 16 before",
        "rows": "one row per sentence",
    }
    given = {"output": tmp_path / "out", "teacher": [faulty, tiny_folder], "student": tiny_folder, **QUICK}
    with pytest.raises(InputError, match=expected[fault]):
        distill(sentences, **given)
    mended.append(True)
    assert distill(resume=True, **given).record["finished"]


def test_a_teacher_may_raise_what_it_likes(tmp_path, tiny_folder, sentences):
    """A lost connection is an OSError, as a full disk is."""

    def lost(batch):
        raise ConnectionError("the teacher is gone")

    with pytest.raises(ConnectionError, match="^the teacher is gone$"):
        distill(sentences, tmp_path / "out", teacher=[tiny_folder, lost], student=tiny_folder, **QUICK)


@pytest.mark.parametrize("kilobytes", [20, 100, 250, 480, 900])  # for corpus, start, vectors, checkpoints
def test_a_full_disk(kilobytes, run_cli, tmp_path, tiny_folder, other_folder, corpus_file):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk]
    if sys.platform != "linux" or subprocess.run(mounting, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small disk")
    try:
        out = disk / "out"
        arguments = [corpus_file, "--teacher", other_folder, "--teacher", tiny_folder, "--student"]
        arguments += [tiny_folder, "--batch-size", 64, "--max-steps", 6, "--device", "cpu"]
        code, _, err = run_cli("distill", *arguments, "--set", "save_steps=2", "-o", out)
        assert code == 2
        (line,) = (line for line in err.splitlines() if line.startswith("error:"))
        assert re.search(f"cannot write {disk}/.*(No space left on device|is the disk full)", line)
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        again = ["--resume"] if out.exists() else arguments
        code, _, err = run_cli("distill", *again, "-o", out)
        assert code == 0, err
        assert (kilobytes <= 100) == (again is arguments)  # the folder appears once it can be resumed
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_tokenizer_that_knows_none_of_the_text(tmp_path, tiny_folder, callable_encoder):
    texts = [f"猫は{n}匹の犬を見る" for n in range(500)]
    with pytest.raises(InputError, match="does not know"):
        distill(texts, tmp_path / "out", teacher=callable_encoder, student=tiny_folder, **QUICK)
    assert not (tmp_path / "out").exists()


def test_a_dissenting_teacher_is_named(tmp_path, tiny_folder, sentences, callable_encoder):
    def noisy(batch):
        return callable_encoder(batch) + 0.1

    def stranger(batch):
        return np.random.default_rng(len(batch[0])).normal(size=(len(batch), 8))

    with pytest.warns(TrainingWarning, match="stranger disagrees with the rest"):
        run = distill(
            sentences,
            tmp_path / "out",
            teacher=[callable_encoder, noisy, stranger],
            student=tiny_folder,
            **QUICK,
        )
    assert "stranger" in run.record["dissent"]["name"]


def test_a_student_that_ends_no_nearer_is_told_and_strict_fails(
    run_cli, tmp_path, tiny_folder, other_folder, corpus_file
):
    arguments = [corpus_file, "--teacher", tiny_folder, "--teacher", other_folder, "--student", tiny_folder]
    arguments += ["--batch-size", 64, "--max-steps", 2, "--learning-rate", 5, "--device", "cpu", "--strict"]
    code, out, _ = run_cli("distill", *arguments, "-o", tmp_path / "out")
    told = re.search(r"further from its teachers by .* points, so the start is kept", out)
    assert told
    assert code == 1
    assert told[0] in (tmp_path / "out/encoder/README.md").read_text()
    before, after = weights(tiny_folder), weights(tmp_path / "out/encoder")
    assert all(torch.equal(before[name], after[name]) for name in before)
    agreement = json.loads((tmp_path / "out/rankencoder-run.json").read_text())["agreement"]
    assert agreement["after"] == agreement["before"] != agreement["taught"]


def test_the_noise_of_a_gain_is_what_other_sentences_would_bring():
    """The standard deviation over many draws of sentences, with scipy's Spearman."""
    draw = np.random.default_rng(0)
    pairs = np.triu_indices(60, k=1)

    def drawn():
        teacher = draw.normal(size=(60, 8)) + 2 * draw.normal(size=(5, 8))[draw.integers(5, size=60)]
        students = [teacher + scale * draw.normal(size=teacher.shape) for scale in (1.0, 0.8)]
        return [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (teacher, *students)]

    gains, noises = [], []
    for _ in range(200):
        teacher, before, after = drawn()
        targets = teacher @ teacher.T
        old, new = (spearmanr((rows @ rows.T)[pairs], targets[pairs]).statistic for rows in (before, after))
        gains.append(new - old)
        noises.append(gain_noise(before, after, targets))
    assert np.mean(noises) == pytest.approx(1.96 * np.std(gains), rel=0.25)
    assert gain_noise(before, before, targets) == pytest.approx(0, abs=1e-9)


def test_the_command_line_and_its_settings_file(run_cli, tmp_path, tiny_folder, other_folder, corpus_file):
    arguments = [corpus_file, "--teacher", other_folder, "--student", tiny_folder, "--batch-size", 64]
    arguments += ["--max-steps", 3, "--device", "cpu", "--json"]
    code, out, err = run_cli("distill", *arguments, "-o", tmp_path / "a")
    assert code == 0, err
    assert json.loads(out)["finished"] is True
    code, _, err = run_cli("distill", "--config", tmp_path / "a/distill.yaml", "-o", tmp_path / "b", "--json")
    assert code == 0, err
    first, second = (weights(Path(tmp_path, name, "encoder")) for name in "ab")
    assert all(torch.equal(first[name], second[name]) for name in first)
    code, _, err = run_cli("distill", "--resume", "-o", tmp_path / "a")
    assert code == 2
    assert "finished" in err


# -- teachers that are no models


def test_a_file_of_vectors_teaches_as_its_encoder_does(
    run_cli, tmp_path, tiny_folder, other_folder, corpus_file
):
    code, _, err = run_cli("encode", other_folder, corpus_file, "-o", tmp_path / "vectors.npy")
    assert code == 0, err
    settings = {**QUICK, "student": tiny_folder}
    from_file = distill(corpus_file, tmp_path / "file", teacher=tmp_path / "vectors.npy", **settings)
    from_encoder = distill(corpus_file, tmp_path / "encoder", teacher=other_folder, **settings)
    expected, found = weights(from_encoder.encoder), weights(from_file.encoder)
    assert all(torch.allclose(expected[name], found[name], atol=1e-4) for name in expected)
    with pytest.raises(InputError, match="needs a teacher that encodes words"):
        distill(corpus_file, tmp_path / "no", teacher=tmp_path / "vectors.npy", student="static", **QUICK)


def test_bad_files_of_vectors_are_refused_before_anything_is_written(
    run_cli, tmp_path, tiny_folder, sentences, corpus_file, callable_encoder
):
    code, _, err = run_cli("encode", tiny_folder, corpus_file, "-o", tmp_path / "vectors.npy")
    assert code == 0, err
    given = {"teacher": [callable_encoder, tmp_path / "vectors.npy"], "student": tiny_folder, **QUICK}
    with pytest.raises(InputError, match="a different text"):
        distill(sentences[::-1], tmp_path / "out", **given)
    with pytest.raises(InputError, match="1,200 vectors, and the corpus 1,199 usable lines"):
        distill(sentences[1:], tmp_path / "out", **given)
    vectors = np.load(tmp_path / "vectors.npy")
    vectors[700] = np.nan
    np.save(tmp_path / "vectors.npy", vectors)
    with pytest.raises(InputError, match="row 700 is a NaN or infinite vector"):
        distill(sentences, tmp_path / "out", **given)
    np.save(tmp_path / "vectors.npy", vectors[0])
    with pytest.raises(InputError, match="expected one row of floats per sentence"):
        distill("no-such-corpus.txt", tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_an_api_teaches_and_is_paid_once(run_cli, tmp_path, tiny_saved, corpus_file, monkeypatch):
    from live_server import WEB, serving

    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    arguments = [corpus_file, "--teacher", "openai:tiny", "--student", "static", "--dim", 16]
    arguments += ["--batch-size", 64, "--max-steps", 5, "--device", "cpu", "--api-price", 0.02]
    with serving(RankEncoder.load(tiny_saved), name="tiny") as url:
        arguments += ["--api-base", f"{url}/v1"]
        code, _, err = run_cli("distill", *arguments, "-o", tmp_path / "a")
        assert code == 2
        assert "1,309 sentences to send" in err  # 1,200 sentences, and the words of the static student
        assert "no terminal to confirm the cost: add --resume --yes to continue" in err
        code, _, err = run_cli("distill", *arguments, "-o", tmp_path / "a", "--yes")
        assert code == 2
        assert "unfinished run: use --resume, --overwrite or another folder" in err
        code, out, err = run_cli("distill", *arguments, "-o", tmp_path / "a", "--resume", "--yes")
        assert code == 0, err
        assert "nearer to its teachers" in out
        sent = WEB.get(f"{url}/metrics").text
        code, _, err = run_cli("distill", *arguments, "-o", tmp_path / "b", "--yes", "--seed", 2)
        assert code == 0, err
        assert "0 sentences to send" in err
        again = WEB.get(f"{url}/metrics").text
    count = [line for line in sent.splitlines() if "sentences" in line and not line.startswith("#")]
    assert count == [line for line in again.splitlines() if "sentences" in line and not line.startswith("#")]


def test_a_wrong_model_of_an_api_leaves_no_folder(run_cli, tmp_path, tiny_saved, corpus_file, monkeypatch):
    from live_server import serving

    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    with serving(RankEncoder.load(tiny_saved), name="tiny") as url:
        arguments = [
            corpus_file,
            "--teacher",
            "openai:tyni",
            "--student",
            "static",
            "--api-base",
            f"{url}/v1",
        ]
        code, _, err = run_cli("distill", *arguments, "-o", tmp_path / "out", "--yes")
    assert code == 2
    assert "HTTP 404" in err
    assert "check the name of the model" in err
    assert not (tmp_path / "out").exists()


def test_the_words_that_an_api_is_asked_for_are_those_estimated(tmp_path, tiny_saved, monkeypatch):
    from live_server import serving

    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    words = [a + b + c for a in "bdfgklm" for b in "aeiou" for c in "bdfgklmnprst"]
    corpus = [f"{a} {b}" for a, b in pairwise(words)]  # each word in two sentences
    asked = []
    with serving(RankEncoder.load(tiny_saved), name="tiny") as url:
        given = {"teacher": "openai:tiny", "api_base": f"{url}/v1", "student": "static", "dim": 16, **QUICK}
        for name in ("a", "b"):
            distill(corpus, tmp_path / name, confirm=lambda told: not asked.append(told), **given)
    assert len(asked) == 1, asked


@pytest.mark.parametrize("gone", ["teacher", "student"])
def test_a_resumed_run_names_what_is_gone(gone, tmp_path, tiny_folder, other_folder, sentences):
    folders = {"teacher": other_folder, "student": tiny_folder}
    folders[gone] = shutil.copytree(folders[gone], tmp_path / gone)
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(module, "train_stage", interrupted)
        distill(sentences, out, **folders, **QUICK)
    shutil.move(folders[gone], tmp_path / "moved")
    with pytest.raises(InputError, match=gone):
        distill(output=out, resume=True, progress=False)
    shutil.move(tmp_path / "moved", folders[gone])
    assert distill(output=out, resume=True, progress=False).record["finished"]


def test_an_api_is_opened_once(tmp_path, tiny_folder, tiny_saved, corpus_file, monkeypatch):
    from live_server import serving

    from rankencoder.distillation import api_encoder

    opened = []

    def stored(folder):
        opened.append(folder)
        return StoredVectors(folder)

    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(api_encoder, "StoredVectors", stored)
    out = tmp_path / "out"
    with serving(RankEncoder.load(tiny_saved), name="tiny") as url, monkeypatch.context() as patched:
        given = {"teacher": "openai:tiny", "api_base": f"{url}/v1", "student": "static", "dim": 16, **QUICK}
        patched.setattr(module, "train_stage", interrupted)
        with pytest.raises(KeyboardInterrupt):
            distill(corpus_file, out, **given)
    assert len(opened) == 1  # all of it is read to open it


def test_an_api_without_a_key_is_told_before_anything_is_read(run_cli, tmp_path, tiny_folder, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    code, _, err = run_cli(
        "distill",
        "no-such-corpus.txt",
        "--teacher",
        "openai:m",
        "--student",
        tiny_folder,
        "-o",
        tmp_path / "x",
    )
    assert code == 2
    assert "OPENAI_API_KEY" in err
