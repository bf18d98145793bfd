"""What a person types first works the first time, and shows something that fits a screen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import isometer
from isometer import IsometerError, Report, Spec

WIDTH, CLASSES, SAMPLES = 16, 3, 48
LINES, COLUMNS = 24, 80
"""A screen."""


def mlp(depth: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [part for _ in range(depth) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*blocks, nn.Linear(WIDTH, CLASSES))


def convnet() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES))


def look(model: nn.Module, *given: object, **options: object) -> Report:
    """A diagnosis without its stress test: what is tested is what it is given."""
    return isometer.diagnose(model, *given, stress=False, **options)  # type: ignore[arg-type]


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.normal(size=(SAMPLES, WIDTH)), np.arange(SAMPLES) % CLASSES


@pytest.fixture
def data(arrays: tuple[np.ndarray, np.ndarray]) -> TensorDataset:
    inputs, labels = arrays
    return TensorDataset(torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels))


# --- diagnose ---------------------------------------------------------------------------------------------------------


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.read = nn.Embedding(11, WIDTH), nn.Linear(WIDTH, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.read(self.embed(tokens).mean(1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (mlp, "32 Gaussian inputs of shape (16,)"),
        (convnet, "32 Gaussian inputs of shape (3, 32, 32)"),
        (Tokens, "32 rows of 16 random tokens"),
        (lambda: nn.LSTM(5, 7, batch_first=True), "32 Gaussian inputs of shape (16, 5)"),
    ],
)
def test_a_model_alone(make: type[nn.Module], words: str) -> None:
    report = look(make())
    assert report.batch == f"made for this model: {words}"
    assert report.examination.samples == 32
    assert words in report.to_html()


def test_a_model_alone_is_judged_by_training() -> None:
    report = isometer.diagnose(mlp(1), budget=10.0)
    assert report.healthy is True
    assert set(report.trains) == {"adam", "sgd"}


def test_a_model_that_does_not_tell_its_input() -> None:
    with pytest.raises(IsometerError, match=r"do not determine the shape .* — pass the shape of one sample"):
        look(nn.ReLU())


@pytest.mark.parametrize("kind", ["gpt2", "bert", "vit", "t5"])
def test_a_model_of_transformers_alone(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    small = {"vocab_size": 13, "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 32}
    heads = {"num_attention_heads": 2}
    made = {
        "gpt2": lambda: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=13, n_positions=8, n_embd=16, n_layer=2, n_head=2)
        ),
        "bert": lambda: transformers.BertModel(
            transformers.BertConfig(**small, **heads, max_position_embeddings=12, type_vocab_size=2)
        ),
        "vit": lambda: transformers.ViTModel(
            transformers.ViTConfig(
                hidden_size=16, num_hidden_layers=2, intermediate_size=32, **heads, image_size=12, patch_size=4
            )
        ),
        "t5": lambda: transformers.T5Model(
            transformers.T5Config(
                vocab_size=13, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
            )
        ),
    }
    words = {
        "gpt2": "32 rows of 8 random tokens",
        "bert": "32 rows of 12 random tokens",
        "vit": "32 Gaussian inputs of shape (3, 12, 12)",
        "t5": "32 rows of 16 random tokens",
    }
    torch.manual_seed(0)
    assert look(made[kind](), predict=False).batch == f"made for this model: {words[kind]}"


def test_numpy_arrays(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    inputs, labels = arrays
    as_tensors = look(mlp(), torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels))
    for given in ((inputs, labels), (inputs.tolist(), labels), ((inputs, labels),), ([inputs, labels],)):
        report = look(mlp(), *given)
        assert report.examination.loss.value == as_tensors.examination.loss.value
    alone = look(mlp(), inputs.astype("float32"))
    assert np.array_equal(alone.examination.values["rms"], as_tensors.examination.values["rms"])


def test_a_tensor_of_another_precision(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    report = look(mlp(), torch.from_numpy(arrays[0]))
    assert {site.dtype for site in report.examination.sites} == {"float32"}


def test_images_as_bytes() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(8, 3, 12, 12), dtype=np.uint8)
    assert look(convnet(), images).examination.samples == 8


def test_a_shape() -> None:
    assert look(convnet(), (3, 20, 20)).batch.endswith("32 Gaussian inputs of shape (3, 20, 20)")
    assert look(convnet(), (5, 3, 20, 20)).batch.endswith("5 Gaussian inputs of shape (3, 20, 20)")
    assert look(mlp(), torch.Size([WIDTH])).batch.endswith("32 Gaussian inputs of shape (16,)")


def test_a_loader_a_data_set_and_an_iterable(data: TensorDataset, arrays: tuple[np.ndarray, np.ndarray]) -> None:
    inputs, labels = arrays
    loader = DataLoader(data, batch_size=12)
    pairs = [(inputs[k : k + 12], labels[k : k + 12]) for k in range(0, SAMPLES, 12)]
    reports = [look(mlp(), given) for given in (loader, pairs, iter(pairs), next(iter(loader)))]
    assert {report.examination.samples for report in reports} == {12}
    assert len({report.examination.loss.value for report in reports}) == 1
    assert look(mlp(), data).examination.samples == 32


def test_two_tensors_for_a_model_of_two_arguments() -> None:
    report = look(nn.Bilinear(2, 3, 4), (torch.randn(6, 2), torch.randn(6, 3)))
    assert report.examination.samples == 6


def test_a_class_and_a_spec_get_the_right_advice() -> None:
    with pytest.raises(IsometerError, match=r"model is a type; .* — pass Linear\(…\)"):
        look(nn.Linear)  # type: ignore[arg-type]
    with pytest.raises(IsometerError, match=r"build it with isometer.nn.build\(spec\)"):
        look(Spec(width=8, depth=2))  # type: ignore[arg-type]
    assert look(isometer.nn.build(Spec(width=8, depth=2))).healthy in (True, False)


def test_words_instead_of_numbers_are_refused() -> None:
    with pytest.raises(IsometerError, match="expected numbers"):
        look(mlp(), np.array(["a", "b"]))


def test_probe_takes_what_diagnose_takes(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    assert isometer.probe(mlp()).samples == 32
    assert isometer.probe(mlp(), arrays[0]).samples == SAMPLES
    assert isometer.probe(mlp(), arrays).samples == SAMPLES
    assert len(repr(isometer.probe(mlp()))) < COLUMNS


# --- treat ------------------------------------------------------------------------------------------------------------


def faint() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(part for _ in range(12) for part in (nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU())))


def test_treat_remembers_the_batch_of_the_report(arrays: tuple[np.ndarray, np.ndarray]) -> None:
    model = faint()
    report = look(model, arrays[0])
    treatment = isometer.treat(model, report, stress=False)
    again = isometer.treat(model, report, batch=torch.tensor(arrays[0], dtype=torch.float32), stress=False)
    assert treatment.cured
    assert treatment.after.examination.samples == SAMPLES
    assert treatment.code == again.code
    changed = zip(treatment.model.parameters(), again.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in changed)


def test_treat_without_a_report() -> None:
    treatment = isometer.treat(faint(), stress=False)
    assert treatment.cured
    assert treatment.before.batch.startswith("made for this model")


# --- theory and simulation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ReLU", "relu", "RELU", "nn.ReLU", "torch.nn.ReLU"])
def test_names_of_activations_in_any_case(name: str) -> None:
    assert isometer.activation(name).gain_forward == isometer.activation("relu").gain_forward
    assert Spec(width=8, depth=2, activation=name) == Spec(width=8, depth=2, activation="relu")


@pytest.mark.parametrize(
    ("name", "meant"), [("BatchNorm1d", "batch"), ("LayerNorm", "layer"), ("RMSNorm", "rms"), ("Batch", "batch")]
)
def test_names_of_norms_in_any_case(name: str, meant: str) -> None:
    assert Spec(width=8, depth=2, norm=name) == Spec(width=8, depth=2, norm=meant)


def test_simulate_and_predict_a_spec_alone() -> None:
    spec = Spec(width=64, depth=6, activation="ReLU")
    for found in (isometer.simulate(spec, runs=4), isometer.predict(spec)):
        assert found.sizes["layer"] == 7
        assert isinstance(found, xarray.Dataset)
        assert float(found["rank"][0, 0]) == 10.0
    named = isometer.predict(spec, "correlated:0.9", metrics=["mean_cosine"])
    assert float(named["mean_cosine"][0, 0]) == pytest.approx(0.9)
    images = Spec("input(3, 8) > conv(3, channels=4) > act('relu')")
    assert isometer.simulate(images, runs=2).sizes["layer"] == isometer.predict(images).sizes["layer"]


def test_simulate_is_the_function_whatever_was_imported() -> None:
    code = "import isometer.simulate, isometer; from isometer.simulate import simulate; "
    code += "assert isometer.simulate is simulate, isometer.simulate"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_edge_of_chaos() -> None:
    assert isometer.phase_diagram("Tanh", points=5).chi.shape == (5, 5)


def test_the_names_that_a_person_sees() -> None:
    seen = [name for name in dir(isometer) if not name.startswith("__")]
    verbs = {"activation", "diagnose", "explain", "kernel_map", "phase_diagram", "predict", "probe", "simulate"}
    verbs |= {"empirical_kernel", "jacobian_spectrum", "partial_jacobian_norms", "scaling_check"}
    verbs |= {"solve", "summarize", "treat"}
    rooms = {"data", "doctor", "init", "metrics", "nn", "theory"}
    errors = {"ActivationError", "InfiniteMomentError", "IsometerError", "ModelChangedError"}
    values = {
        "Activation",
        "EmpiricalJacobian",
        "EmpiricalKernel",
        "Examination",
        "Explanation",
        "KernelMap",
        "Report",
        "SignalMonitor",
    }
    values |= {"ScalingCheck", "Spec", "Treatment"}
    assert set(seen) == verbs | rooms | errors | values
    assert all(getattr(isometer, name).__doc__ for name in seen)


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_reprs_fit_a_screen() -> None:
    report = look(faint())
    shown = [report, isometer.treat(faint(), report, stress=False), report.examination]
    shown += [isometer.explain("relu"), isometer.phase_diagram("tanh", points=5), isometer.activation("relu")]
    for value in shown:
        lines = repr(value).splitlines()
        assert len(lines) <= LINES, repr(value)
        if value in shown[:3]:
            assert max(map(len, lines)) <= COLUMNS, repr(value)
    assert "activation-vanishing" in repr(report)


def test_what_can_be_drawn(tmp_path: Path) -> None:
    spec = Spec(width=24, depth=4, activation="tanh")
    drawn = {
        "simulation": isometer.simulate(spec, runs=2, metrics=["rank", "mean_cosine"]),
        "prediction": isometer.predict(spec, metrics=["mean_cosine"]),
        "kernel map": isometer.kernel_map("relu", norm="layer", norm_position="post"),
        "activation": isometer.activation("gelu"),
        "explanation": isometer.explain("tanh"),
        "phases": isometer.phase_diagram("tanh", points=5),
        "report": look(mlp()),
        "treatment": isometer.treat(faint(), stress=False),
        "kernel": isometer.theory.kernels.kernel_matrix("relu", np.eye(3), 2),
    }
    for name, value in drawn.items():
        value.plot(tmp_path / f"{name}.png")  # type: ignore[attr-defined]
        assert (tmp_path / f"{name}.png").stat().st_size > 5000, name
    figure = drawn["prediction"].plot()  # type: ignore[attr-defined]
    assert figure._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(IsometerError, match=r"\.png, \.pdf, \.svg"):
        drawn["report"].plot(tmp_path / "picture.docx")  # type: ignore[attr-defined]


def test_a_part_of_a_trajectory() -> None:
    data = isometer.simulate(Spec(width=24, depth=4), runs=2, metrics=["rank"])
    with pytest.raises(IsometerError, match="expected run and layer"):
        data.isel(run=0).plot()
    assert "<div" in data.isel(run=0)._repr_html_()
    assert callable(data.plot.scatter)  # xarray's own are there
