"""What is read of attention, against the weights that torch itself gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from isometer.doctor import diagnose, probe
from isometer.doctor.probe._attention import AttentionReading

SAMPLES, HEADS, TOKENS, WIDTH = 3, 2, 7, 8
Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
CAUSAL = torch.ones(TOKENS, TOKENS).tril().bool()


class Attention(nn.Module):
    """Heads of queries and keys, and a function that attends."""

    def __init__(self, attend: Attend, scale: float = 3.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attend = attend
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        nn.init.normal_(self.project.weight, 0.0, scale / math.sqrt(WIDTH))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return self.project(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.heads(x)
        return self.attend(q, k, v).transpose(1, 2).flatten(2)


def draw(samples: int = SAMPLES, tokens: int = TOKENS) -> torch.Tensor:
    return torch.randn(samples, tokens, WIDTH, generator=torch.Generator().manual_seed(1))


def relative_entropy(weights: torch.Tensor, allowed: torch.Tensor) -> float:
    """Row by row, in plain arithmetic."""
    found = []
    for row, mask in zip(weights.flatten(0, -2).double(), allowed.expand(weights.shape).flatten(0, -2), strict=True):
        p = row[mask]
        if len(p) > 1:
            p = p[p > 0]
            found.append(float(-(p * p.log()).sum()) / math.log(int(mask.sum())))
    return float(np.mean(found))


def reading(model: nn.Module, batch: Any) -> AttentionReading:
    (found,) = [site.attention for site in probe(model, batch).sites if site.attention is not None]
    return found


def written(mask: torch.Tensor | None, fill: float) -> Attend:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, fill)
        return torch.softmax(scores, dim=-1) @ v

    return attend


def added(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """As GPT-2 and BERT wrote it: a product of matrices folded over heads, and a mask of −10⁴."""
    n, h, t, d = q.shape
    scores = torch.bmm(q.reshape(n * h, t, d), k.reshape(n * h, t, d).transpose(1, 2)) * d**-0.5
    scores = scores + (~CAUSAL).float() * -1e4
    return (functional.softmax(scores, -1) @ v.reshape(n * h, t, d)).reshape(n, h, t, d)


FORMS: dict[str, tuple[Attend, torch.Tensor | None]] = {
    "fused": (functional.scaled_dot_product_attention, None),
    "fused, causal": (lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), CAUSAL),
    "fused, boolean mask": (lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=CAUSAL), CAUSAL),
    "fused, added mask": (
        lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, -math.inf)
        ),
        CAUSAL,
    ),
    "written out": (written(None, 0.0), None),
    "written out, masked with -inf": (written(CAUSAL, -math.inf), CAUSAL),
    "written out, masked with a large number": (written(CAUSAL, -1e9), CAUSAL),
    "written out, folded": (added, CAUSAL),
}


@pytest.mark.parametrize("form", FORMS)
def test_entropy_and_scores_are_those_of_the_weights(form: str) -> None:
    attend, mask = FORMS[form]
    model, x = Attention(attend), draw()
    allowed = torch.ones(TOKENS, TOKENS).bool() if mask is None else mask
    with torch.no_grad():
        q, k, _ = model.heads(x)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~allowed, -math.inf).softmax(-1)
    found = reading(model, x)
    assert (found.heads, found.keys) == (HEADS, TOKENS)
    assert found.entropy == pytest.approx(relative_entropy(weights, allowed), rel=1e-5)
    kept = scores.masked_fill(~allowed, math.nan)
    assert found.score_largest == pytest.approx(float(kept.abs().nan_to_num().max()), rel=1e-5)
    rows = [row[~row.isnan()] for row in kept.flatten(0, 2)]
    variances = [float(row.var(correction=0)) for row in rows if len(row) > 1]
    assert found.score_std == pytest.approx(math.sqrt(np.mean(variances)), rel=1e-4)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masked", ["", "causal", "padding", "both"])
@pytest.mark.parametrize("separate", [False, True])
def test_multi_head_attention_of_torch(batch_first: bool, masked: str, separate: bool) -> None:
    torch.manual_seed(0)
    sizes = {"kdim": 5, "vdim": 5} if separate else {}
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **sizes)
    nn.init.normal_(attention.in_proj_bias)
    if not separate:
        nn.init.normal_(attention.in_proj_weight, 0.0, 1.0)
    padding = torch.zeros(SAMPLES, TOKENS).bool()
    padding[1, 4:] = True
    masks = {
        "attn_mask": ~CAUSAL if masked in ("causal", "both") else None,
        "key_padding_mask": padding if masked in ("padding", "both") else None,
    }
    x = draw()
    keys = torch.randn(SAMPLES, TOKENS, 5, generator=torch.Generator().manual_seed(2)) if separate else x
    given = [one if batch_first else one.transpose(0, 1) for one in (x, keys, keys)]
    _, weights = attention(*given, average_attn_weights=False, need_weights=True, **masks)
    allowed = torch.ones(SAMPLES, HEADS, TOKENS, TOKENS).bool()
    allowed &= CAUSAL if masks["attn_mask"] is not None else True
    allowed &= ~padding[:, None, None, :] if masks["key_padding_mask"] is not None else True
    found = reading(attention, {"query": given[0], "key": given[1], "value": given[2], **masks})
    assert found.entropy == pytest.approx(relative_entropy(weights.detach(), allowed), rel=1e-5)


def test_saturated_and_uniform_heads() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        factors = torch.tensor([0.0, 100.0]).view(1, 2, 1, 1)
        return functional.scaled_dot_product_attention(q * factors, k, v)

    found = reading(Attention(attend), draw())
    assert (found.saturated_heads, found.uniform_heads) == (0.5, 0.5)


def test_grouped_queries_share_keys() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True)

    def repeated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k[:, [0, 0]], v[:, [0, 0]])

    assert reading(Attention(attend), draw()) == reading(Attention(repeated), draw())


def test_at_most_64_queries_of_8_samples_are_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    from isometer.doctor.probe import _attention

    shapes = []
    of_scores = _attention.reading_of_scores
    monkeypatch.setattr(
        _attention, "reading_of_scores", lambda s, a, n: (shapes.append(tuple(s.shape)), of_scores(s, a, n))[1]
    )
    probe(Attention(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True)), draw(20, 150))
    probe(Attention(written(None, 0.0)), draw(20, 150))
    assert shapes == [(7, HEADS, 50, 150)] * 2


def test_a_softmax_over_classes_is_no_attention() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 5), nn.Softmax(-1))
    assert [site.attention for site in probe(model, draw()).sites] == [None, None, None]


class Hidden(nn.Module):
    """Attention in a module without parameters, which is one site."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return written(None, 0.0)(q, k, v)


def test_modules_written_out_have_the_reading() -> None:
    plain, hidden = reading(Attention(written(None, 0.0)), draw()), Attention(Hidden())
    assert reading(hidden, draw()) == plain
    assert probe(hidden, draw()).sites[-1].op == "Hidden"


def test_it_is_in_the_report_and_what_cannot_be_scored_is_unseen() -> None:
    rows = diagnose(Attention(FORMS["fused"][0]), draw(), stress=False).to_dict()["layers"]
    (row,) = [row for row in rows if row["attention"]]
    assert row["op"] == "scaled_dot_product_attention"
    assert 0 < row["attention"]["entropy"] < 1
    odd = nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True, batch_first=True)
    found = probe(odd, (draw(), draw(), draw()))
    assert ["not calculated again" in one.why for one in found.unseen] == [True]
