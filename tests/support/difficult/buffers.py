"""Models whose buffers grow, move, vanish or are written to."""

from __future__ import annotations

import torch
from torch import nn

from support.difficult.subject import WIDTH, Part, Subject, Tensor, part, step, trait

B = "buffers"


@step(B)
def buffer_counts(p: Part, h: Tensor) -> None:
    p.buffer += 1


@step(B)
def buffer_grows(p: Part, h: Tensor) -> None:
    p.buffer = torch.cat([p.buffer, p.buffer[:1]])


@step(B)
def buffer_resized(p: Part, h: Tensor) -> None:
    p.buffer.resize_(p.buffer.numel() + 4).fill_(1.0)


@step(B)
def buffer_shrunk(p: Part, h: Tensor) -> None:
    p.buffer.resize_(max(2, p.buffer.numel() - 1))


@step(B)
def buffer_storage_emptied(p: Part, h: Tensor) -> None:
    p.buffer.untyped_storage().resize_(0)
    p.buffer.untyped_storage().resize_(WIDTH * p.buffer.element_size())
    p.buffer.zero_()


@step(B)
def buffer_registered_again(p: Part, h: Tensor) -> None:
    p.register_buffer("buffer", p.buffer * 0.5, persistent=False)


@step(B)
def buffer_deleted(p: Part, h: Tensor) -> None:
    if "buffer" in p._buffers:
        del p.buffer


@step(B)
def buffer_to_none(p: Part, h: Tensor) -> None:
    p.buffer = None


@step(B)
def buffer_registered_late(p: Part, h: Tensor) -> None:
    if not hasattr(p, "late"):
        p.register_buffer("late", torch.ones(3))


@step(B)
def buffer_becomes_attribute(p: Part, h: Tensor) -> None:
    value = p._buffers.pop("buffer", None)
    if value is not None:
        p.__dict__["buffer"] = value


@step(B)
def buffer_of_other_dtype(p: Part, h: Tensor) -> None:
    p.buffer.data = p.buffer.data.double() * 0.5


@step(B)
def buffer_set(p: Part, h: Tensor) -> None:
    p.buffer.set_(torch.zeros(3, dtype=p.buffer.dtype))


@step(B)
def buffer_with_history(p: Part, h: Tensor) -> None:
    p.buffer = 0.9 * p.buffer.detach() + 0.1 * h.mean(0)


@step(B)
def buffer_strided_anew(p: Part, h: Tensor) -> None:
    p.buffer.as_strided_((2, 4), (1, 2))


@step(B)
def buffer_transposed(p: Part, h: Tensor) -> None:
    p.buffer.unsqueeze_(0)


@step(B)
def buffers_of_persistence(p: Part, h: Tensor) -> None:
    p._non_persistent_buffers_set.add("buffer")


class _Normalised(nn.Module):
    def __init__(self, norm: nn.Module, spatial: bool = False) -> None:
        super().__init__()
        self.norm, self.spatial = norm, spatial

    def forward(self, h: Tensor) -> Tensor:
        return h + (self.norm(h[:, :, None].expand(-1, -1, 3))[:, :, 0] if self.spatial else self.norm(h))


@part(B)
def batch_norm() -> nn.Module:
    return _Normalised(nn.BatchNorm1d(WIDTH))


@part(B)
def batch_norm_cumulative() -> nn.Module:
    return _Normalised(nn.BatchNorm1d(WIDTH, momentum=None))


@part(B, changes=False)
def batch_norm_untracked() -> nn.Module:
    return _Normalised(nn.BatchNorm1d(WIDTH, track_running_stats=False, affine=False))


@part(B)
def instance_norm_tracked() -> nn.Module:
    return _Normalised(nn.InstanceNorm1d(WIDTH, track_running_stats=True, affine=True), spatial=True)


@part(B)
def batch_norm_without_counter() -> nn.Module:
    norm = nn.BatchNorm1d(WIDTH)
    norm.num_batches_tracked = None
    return _Normalised(norm)


@part(B)
def batch_norm_as_views() -> nn.Module:
    norm, flat = nn.BatchNorm1d(WIDTH), torch.zeros(2 * WIDTH)
    norm.running_mean, norm.running_var = flat[:WIDTH], flat[WIDTH:].fill_(1)
    norm.flat = flat
    return _Normalised(norm)


@trait(B)
def batch_norm_shared(subject: Subject) -> None:
    norm = _Normalised(nn.BatchNorm1d(WIDTH))
    subject.model.parts.extend([norm, norm])
    subject.outside["statistics"] = norm.norm.running_mean


@part(B)
def observed() -> nn.Module:
    from torch.ao.quantization import HistogramObserver, MinMaxObserver

    class Observed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = MinMaxObserver(), HistogramObserver(bins=16)

        def forward(self, h: Tensor) -> Tensor:
            return self.other(self.one(h.float())).to(h.dtype)

    return Observed()


@part(B)
def fake_quantised() -> nn.Module:
    from torch.ao.quantization import FakeQuantize

    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fake = FakeQuantize()

        def forward(self, h: Tensor) -> Tensor:
            return h + self.fake(h.float()).to(h.dtype)

    return Quantised()
