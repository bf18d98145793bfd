"""Pictures and notebook cards of values (`isometer._display` finds them here)."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from isometer.errors import IsometerError
from isometer.report._pictures import save_figure

if TYPE_CHECKING:
    from os import PathLike

    from matplotlib.figure import Figure

_COLUMNS = 100
_PRE = (
    "<pre style=\"font-family: 'DejaVu Sans Mono', Menlo, Consolas, monospace; line-height: 1.25; overflow-x: auto; "
    'margin: 0.3em 0">{code}</pre>'
)


def picture(value: Any, path: str | PathLike[str] | None = None) -> Figure:
    """The picture of a value, also written to `path` if given.

    Example:
        >>> from isometer import kernel_map
        >>> len(picture(kernel_map("relu")).axes)
        3
    """
    figure: Figure = _of(value, _PICTURES)(value)
    if path is not None:
        save_figure(figure, Path(path))
    return figure


def html(value: Any) -> str:
    """The card of a value for notebooks, with its picture where it has one; no scripts, nothing from outside.

    Example:
        >>> from isometer import Spec
        >>> html(Spec(width=8, depth=3)).startswith("<pre")
        True
    """
    text: str = _of(value, _CARDS)(value)
    return text


def as_html(say: Callable[[Console], object]) -> str:
    """What a terminal shows, as a fragment of HTML.

    Example:
        >>> as_html(lambda page: page.print(Text("a < b"))).count("&lt;")
        1
    """
    page = Console(record=True, file=io.StringIO(), width=_COLUMNS, force_terminal=True, color_system="truecolor")
    say(page)
    return page.export_html(inline_styles=True, code_format=_PRE)


def image(figure: Figure) -> str:
    """A figure inside a page.

    Example:
        >>> from isometer.report import new_figure
        >>> image(new_figure(1)[0])[:32]
        '<img src="data:image/png;base64,'
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    code = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img src="data:image/png;base64,{code}" style="max-width: 100%; background: white" alt="">'


def _of(value: Any, table: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """The entry of a value's class, or of the nearest class above it."""
    found = next((table[one.__name__] for one in type(value).__mro__ if one.__name__ in table), None)
    if found is None:
        raise IsometerError(f"a {type(value).__name__} has no picture; expected one of {', '.join(_PICTURES)}")
    return found


# --- pictures ---------------------------------------------------------------------------------------------------------


def _explained(value: Any) -> Any:
    """The explanation of an activation, or of the layer of a kernel map."""
    from isometer.theory import explain

    if type(value).__name__ == "KernelMap":
        layer = {"norm": value.norm, "norm_position": value.norm_position, "residual": value.residual}
        return explain(value.activation, **layer)
    return explain(value)


def _activation_picture(value: Any) -> Figure:
    from isometer.report._pictures import activation_picture

    return activation_picture(value if type(value).__name__ == "Explanation" else _explained(value))


def _phase_picture(value: Any) -> Figure:
    from isometer.report._kernels import phase_picture

    return phase_picture(value)


def _kernel_picture(value: Any) -> Figure:
    from isometer.report._kernels import kernel_picture

    return kernel_picture(value, [], value.activation.name)


def _trajectory_picture(value: Any) -> Figure:
    if "run" not in value.dims or "layer" not in value.dims:
        raise IsometerError(
            f"the trajectory has the dimensions {', '.join(map(str, value.dims)) or 'none'}; expected run and layer — "
            "draw it before you select runs or layers"
        )
    if value.attrs.get("engine") == "theory":
        from isometer.report._predictions import prediction_picture

        return prediction_picture(value)
    from isometer.report._trajectories import trajectory_picture

    return trajectory_picture(value)


def _model_kernel_document(value: Any) -> dict[str, Any]:
    """What `isometer kernel --model` says, without what needs labels."""
    return {**value.to_dict(), "model": "the model", "alignment": {}, "rates": {}}


def _model_kernel_picture(value: Any) -> Figure:
    from isometer.report._model_kernels import model_kernel_picture

    return model_kernel_picture(_model_kernel_document(value), value.flat)


def _jacobian_picture(value: Any) -> Figure:
    from isometer.report._jacobians import jacobian_picture

    return jacobian_picture(value)


def _scaling_picture(value: Any) -> Figure:
    from isometer.report._scaling import scaling_picture

    return scaling_picture(value.to_dict())


_PICTURES: dict[str, Callable[[Any], Any]] = {
    "Activation": _activation_picture,
    "Explanation": _activation_picture,
    "KernelMap": _activation_picture,
    "KernelMatrix": _kernel_picture,
    "JacobianLaw": _jacobian_picture,
    "EmpiricalJacobian": _jacobian_picture,
    "EmpiricalKernel": _model_kernel_picture,
    "PhaseDiagram": _phase_picture,
    "ScalingCheck": _scaling_picture,
    "Trajectory": _trajectory_picture,
}


# --- cards ------------------------------------------------------------------------------------------------------------


def _activation_html(value: Any) -> str:
    from isometer.report._cards import activation_card
    from isometer.report._pictures import activation_picture

    card = value if type(value).__name__ == "Explanation" else _explained(value)
    return image(activation_picture(card)) + as_html(lambda page: page.print(activation_card(card)))


def _phase_html(value: Any) -> str:
    from isometer.report._kernels import phase_card

    return image(_phase_picture(value)) + as_html(lambda page: page.print(phase_card(value)))


def _kernel_html(value: Any) -> str:
    from isometer.report._kernels import kernel_card

    return image(_kernel_picture(value)) + as_html(lambda page: page.print(kernel_card(value, [], None)))


def _model_kernel_html(value: Any) -> str:
    from isometer.report._model_kernels import model_kernel_card

    if not value.square:  # no spectrum: there is little to say
        return as_html(lambda page: page.print(Text(f"{value.kind.upper()} between two batches, {value.matrix.shape}")))
    document = _model_kernel_document(value)
    return image(_model_kernel_picture(value)) + as_html(lambda page: page.print(model_kernel_card(document)))


def _jacobian_html(value: Any) -> str:
    from isometer.report._jacobians import jacobian_card

    return image(_jacobian_picture(value)) + as_html(lambda page: page.print(jacobian_card(value.to_dict())))


def _scaling_html(value: Any) -> str:
    from isometer.report._scaling import print_scaling

    return image(_scaling_picture(value)) + as_html(lambda page: print_scaling(page, value.to_dict()))


def _trajectory_html(value: Any) -> str:
    drawn = "run" in value.dims and "layer" in value.dims and len(value.data_vars) > 0
    return (image(_trajectory_picture(value)) if drawn else "") + str(value.xarray_html())


def _spec_html(value: Any) -> str:
    shape = "×".join(map(str, (value.shape.width, *value.shape.axes)))
    facts = f"{value.depth} weight layers · input {shape}" if hasattr(value, "depth") else f"input {shape}"
    next_steps = "isometer.predict(spec) · isometer.simulate(spec) · isometer.nn.build(spec)"
    lines = (Text(str(value), style="bold"), Text(facts), Text(next_steps, style="dim"))
    return as_html(lambda page: page.print(*lines, sep="\n"))


def _answer_html(value: Any) -> str:
    from isometer.report._answers import print_answer

    return as_html(lambda page: print_answer(page, value))


def treatment_html(treatment: dict[str, Any]) -> str:
    """The card of a treatment, from its dictionary.

    Example:
        >>> "fixed" in treatment_html({"summary": "fixed", "cured": True, "steps": [], "better": [], "worse": [],
        ...     "numbers": [], "code": "", "trial": None})
        True
    """
    from isometer.report._treatment import print_treatment

    return as_html(lambda page: print_treatment(page, treatment))


_CARDS: dict[str, Callable[[Any], Any]] = {
    "Activation": _activation_html,
    "Explanation": _activation_html,
    "KernelMap": _activation_html,
    "KernelMatrix": _kernel_html,
    "JacobianLaw": _jacobian_html,
    "EmpiricalJacobian": _jacobian_html,
    "EmpiricalKernel": _model_kernel_html,
    "PhaseDiagram": _phase_html,
    "ScalingCheck": _scaling_html,
    "Trajectory": _trajectory_html,
    "Spec": _spec_html,
    "Answer": _answer_html,
}
