import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from rankencoder.training.loss_picture import draw_losses


def records(stage, losses, *, weight=0.05, dev_every=20):
    """Records as training logs them; the weighted rank loss is a fixed part of the contrastive one."""
    for step, loss in enumerate(losses):
        record = {"stage": stage, "step": 10 * step, "loss": loss, "contrastive": loss}
        if stage == 2:
            record |= {"rank": loss, "weighted_rank": weight * loss, "loss": (1 + weight) * loss}
        if step % dev_every == 0:
            record["dev"] = 80 + step / 100
        yield record


def curves(path):
    """The points of each curve of an .svg file, in pixels, by its id."""
    found = {}
    for group in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}g"):
        if re.match(r"stage\d-", name := group.get("id", "")):
            line = group.find("{http://www.w3.org/2000/svg}path").get("d")
            found[name] = np.array(re.findall(r"[ML] (\S+) (\S+)", line), dtype=float)
    return found


FALLING = np.exp(-np.arange(45) / 9)
NOISY = np.exp(np.random.default_rng(0).normal(size=400))


def test_two_stages(tmp_path):
    path = tmp_path / "new" / "losses.svg"
    draw_losses([*records(1, NOISY), *records(2, NOISY[::2])], path, title="A $title & <such>")
    found = curves(path)
    losses = {"stage1-contrastive", "stage2-contrastive", "stage2-weighted_rank"}
    assert set(found) == {*losses, "stage1-dev", "stage2-dev"}
    assert len(found["stage1-dev"]) == 20
    assert found["stage1-contrastive"][:, 0].max() < found["stage2-contrastive"][:, 0].min()
    assert [file.name for file in path.parent.iterdir()] == ["losses.svg"]


def test_losses_are_drawn_on_a_log_axis(tmp_path):
    path = tmp_path / "losses.svg"
    draw_losses(list(records(2, FALLING)), path, title="falling")
    found = curves(path)
    assert set(found) == {"stage2-contrastive", "stage2-weighted_rank", "stage2-dev"}
    x, y = found["stage2-contrastive"].T
    assert abs(np.corrcoef(x, y)[0, 1]) == pytest.approx(1, abs=1e-6)  # an exponential is a straight line
    assert found["stage2-weighted_rank"][:, 1].min() > y.min()  # lower in the picture


def test_zeros_make_the_axis_linear(tmp_path):
    path = tmp_path / "losses.svg"
    draw_losses(list(records(2, FALLING, weight=0)), path, title="zeros")
    found = curves(path)
    x, y = found["stage2-contrastive"].T
    expected = np.interp(x, np.linspace(x[0], x[-1], 45), FALLING)
    assert np.corrcoef(y, expected)[0, 1] == pytest.approx(-1, abs=1e-4)  # pixels count from above
    assert np.ptp(found["stage2-weighted_rank"][:, 1]) == 0


def test_same_losses_same_bytes(tmp_path):
    history = [{"stage": 1, "step": i, "contrastive": 1 / (1 + i), "dev": 80.0} for i in range(9)]
    code = f"""
import sys
from rankencoder.training.loss_picture import draw_losses
for path in sys.argv[1:]:
    draw_losses({history!r}, path, title="same")
sys.exit("matplotlib.pyplot" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "a.svg"], check=True)
    draw_losses(history, tmp_path / "b.svg", title="same")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_one_record_is_a_point(tmp_path):
    draw_losses([{"stage": 1, "step": 1, "contrastive": 0.5}], tmp_path / "a.svg", title="one")
    assert set(curves(tmp_path / "a.svg")) == {"stage1-contrastive"}
