"""Text as activations: grammar, precedence, messages, hostile input; callables that are not activations."""

import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from isometer import ActivationError, InfiniteMomentError, IsometerError, activation
from isometer.activations import ALIASES, ENTRIES

X = np.linspace(-3.1, 3.3, 65)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail, rather than hang, when the block takes longer."""

    def stop(*_: object) -> None:
        pytest.fail(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    start = time.perf_counter()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.perf_counter() - start < seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", X),
        ("-x**2", -(X**2)),
        ("(-x)**2", X**2),
        ("2**3**2 * x", 512 * X),
        ("2 - 3 - x", -1 - X),
        ("x / 2 / 4", X / 8),
        ("x^2", X**2),
        ("1 + 2*x", 1 + 2 * X),
        ("-2*x", -2 * X),
        ("+x", X),
        ("2**x", 2**X),
        ("x * tanh(softplus(x))", X * np.tanh(np.logaddexp(X, 0))),
        ("relu(x) - 0.1*relu(-x)", np.where(X > 0, X, 0.1 * X)),
        ("max(x, 0, x/2)", np.maximum(np.maximum(X, 0), X / 2)),
        ("min(max(x, -1), 1)", np.clip(X, -1, 1)),
        ("pi * x + e", math.pi * X + math.e),
        ("leaky_relu(0.1)(2*x)", np.where(X > 0, 2 * X, 0.2 * X)),
        ("leaky_relu(x, 0.3)", np.where(X > 0, X, 0.3 * X)),
        ("x*sigmoid(2*x)", X * special.expit(2 * X)),
        ("exp(-(x*x)/2)", np.exp(-X * X / 2)),
        ("1e-1*x + 2.5E+0", 0.1 * X + 2.5),
        (" x\t*  x ", X * X),
        ("atan(x)", np.arctan(X)),
        ("abs(x)**1.5", np.abs(X) ** 1.5),
        ("step(x)", (X >= 0) * 1.0),
        ("erf(x/2)", special.erf(X / 2)),
        ("normalised(tanh)(x)", np.tanh(X) / math.sqrt(activation("tanh").variance)),
    ],
)
def test_grammar_and_precedence(text: str, expected: np.ndarray) -> None:
    np.testing.assert_allclose(activation(text)(X), expected, rtol=1e-13, atol=1e-13)


def test_names_and_aliases() -> None:
    for name in ENTRIES:
        assert activation(name).name == name
        assert activation(f"{name}(x)") == activation(name) or ENTRIES[name].defaults
    for alias, name in ALIASES.items():
        assert activation(alias) == activation(name), alias
    assert activation("  relu ").name == "relu"
    assert activation("relu²") == activation("relu2")
    assert activation("tanh(x)", name="mine").name == "mine"


@given(st.recursive(
    st.sampled_from(["x", "1.5", "0.25"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["tanh", "sin", "relu", "abs", "sigmoid"]), inner).map(lambda t: f"{t[0]}({t[1]})"),
        inner.map(lambda s: f"(-{s})"),
    ),
    max_leaves=7,
))  # fmt: skip
@settings(max_examples=120, deadline=None, derandomize=True)
def test_random_expressions_mean_what_python_means(text: str) -> None:
    names = {"x": X, "tanh": np.tanh, "sin": np.sin, "abs": np.abs, "sigmoid": special.expit}
    names["relu"] = lambda u: np.maximum(u, 0)
    if "x" not in text.replace("max", ""):
        with pytest.raises(ActivationError, match="does not depend on x"):
            activation(text)
        return
    made = activation(text)
    expected = np.broadcast_to(eval(text, {"__builtins__": {}}, names), X.shape)  # our own text, ten letters of it
    np.testing.assert_allclose(made(X), expected, rtol=1e-12, atol=1e-13)
    # what an activation prints can be read again
    np.testing.assert_allclose(activation(str(made.expression))(X), expected, rtol=1e-9, atol=1e-9)


# --- hostile text -----------------------------------------------------------------------------------------------------

HOSTILE = {
    "import": "__import__('os').system('touch hacked')",
    "import statement": "import os",
    "exec": "exec('1')",
    "eval": "eval('x')",
    "open": "open('/etc/passwd')",
    "print": "print(x)",
    "attribute": "x.real",
    "attribute of a call": "tanh(x).__class__",
    "attribute call": "x.__class__.__mro__[1].__subclasses__()",
    "dunder": "__builtins__",
    "dunder call": "__class__(x)",
    "lambda": "lambda x: x",
    "lambda call": "(lambda x: x)(x)",
    "list": "[x]",
    "list comprehension": "[x for x in (1, 2)]",
    "generator": "sum(x for i in x)",
    "dict": "{x: x}",
    "set": "{x}",
    "tuple": "(x, x)",
    "f-string": "f'{x}'",
    "string": "'relu'",
    "bytes": "b'x'",
    "walrus": "(y := x)",
    "assignment": "x = 3",
    "if-else": "x if x else x",
    "comparison": "x > 0",
    "chained": "0 < x < 1",
    "boolean": "x and x",
    "not": "not x",
    "true": "True * x",
    "none": "None",
    "ellipsis": "...",
    "complex": "1j * x",
    "subscript": "x[0]",
    "slice": "x[::2]",
    "star": "tanh(*x)",
    "double star": "tanh(**x)",
    "keyword": "leaky_relu(a=0.1)",
    "await": "await x",
    "yield": "(yield x)",
    "matmul": "x @ x",
    "floor division": "x // 2",
    "modulo": "x % 2",
    "shift": "1 << 99999999999",
    "bit or": "x | x",
    "invert": "~x",
    "two statements": "x; x",
    "newline": "x\nimport os",
    "null": "x\0",
    "surrogate": "x\udc80",
    "powers": "9**9**9",
    "powers of x": "x**9**9**9",
    "huge exponent": "x**100000",
    "huge negative exponent": "x**-100000",
    "huge number": "9" * 1500 + "*x",
    "overflowing constant": "1e999*x",
    "overflowing product": "1e300*1e300*x",
    "division by zero": "x/0 + 1/0",
    "exponent of x": "x**x",
    "long": "x" + "+x" * 50_000,
    "long name": "a" * 1900,
    "parentheses": "(" * 100_000 + "x" + ")" * 100_000,
    "parentheses below the limit": "(" * 900 + "x" + ")" * 900,
    "minus signs": "-" * 1900 + "x",
    "nested calls": "tanh(" * 250 + "x" + ")" * 250,
    "deep calls": "sin(" * 90 + "x" + ")" * 90,
    "unbalanced": "tanh(x",
    "empty": "",
    "blank": " \t\n",
    "cyrillic х": "\u0445",
    "greek tau": "τanh(x)",
    "zero width": "x\u200b",
    "right-to-left": "\u202ex",
    "minus lookalike": "x \u2212 1",
    "number only": "3",
    "constant": "2*pi",
    "unknown": "rleu",
    "function in arithmetic": "relu + 1",
    "function of two": "tanh(x, x)",
    "function of none": "tanh()",
    "too many parameters": "leaky_relu(0.1, 0.2)",
    "number called": "3(x)",
    "x called": "x(3)",
    "bad parameter": "gain(tanh, x)",
    "gain without number": "gain(tanh)",
    "compose one": "compose(tanh)",
    "celu zero": "celu(0)",
    "hardtanh reversed": "hardtanh(1, -1)",
    "far normrelu": "normrelu(60)",
}


_WATCHED: list[list[str]] = []  # the list that is being filled, if any


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _WATCHED and event in ("exec", "open", "os.system", "subprocess.Popen", "import"):
        _WATCHED[-1].append(f"{event} {arguments[:1]}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """What the interpreter was asked to execute, open or import meanwhile; the hook cannot be removed, only muted."""
    if not hasattr(sys, "_isometer_test_audit"):
        sys._isometer_test_audit = True  # type: ignore[attr-defined]
        sys.addaudithook(_audit)
    _WATCHED.append([])
    try:
        yield _WATCHED[-1]
    finally:
        _WATCHED.pop()


def test_the_watch_sees_execution() -> None:
    with watched() as events:
        exec("1 + 1")
    assert events


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_quickly(text: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    activation("x")  # whatever is imported lazily is imported now
    with watched() as events, within(1.0), pytest.raises(ActivationError) as caught:
        activation(text)
    assert not events, events
    assert not list(tmp_path.iterdir())
    assert 10 < len(str(caught.value)) < 600 + (text == HOSTILE["long name"]) * 2000
    assert "\n" not in str(caught.value).strip() or "\n" in text


def test_compatibility_characters_are_plain_letters_or_refused() -> None:
    """Full-width letters are the same identifiers by Unicode's rules; they may not become anything else."""
    for text in ("ｘ", "ｔａｎｈ(x)", "𝐱"):
        try:
            made = activation(text)
        except ActivationError:
            continue
        np.testing.assert_array_equal(made(X), np.tanh(X) if "(" in text else X)


@pytest.mark.parametrize("function", ["mish", "gelu_tanh", "elu"])
@pytest.mark.parametrize("depth", [8, 30])
def test_nested_functions_do_not_explode(function: str, depth: int) -> None:
    """x occurs twice or more in these formulas: a tree doubles per level unless equal parts are shared or refused."""
    text = f"{function}(" * depth + "x" + ")" * depth
    outcome = ""
    with within(2.0):
        try:
            made = activation(text)
            made.derivative(0.5)
            outcome = "finite" if math.isfinite(made.mean) else "not finite"
        except IsometerError as problem:
            outcome = str(problem)
    assert any(word in outcome for word in ("finite", "large", "deep", "resolved")), outcome


def test_powers_of_a_nested_product_do_not_explode() -> None:
    text = "x*x + x"
    for _ in range(14):
        text = f"({text})**2 - x" if len(text) < 400 else text
    with within(3.0), pytest.raises(IsometerError):
        _ = activation(text).second_moment  # degree in the thousands: no moment fits into a double


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("rleu", ["'rleu'", "did you mean 'relu'", "isometer activations"]),
        ("x.real", ["an attribute", "known functions"]),
        ("x if x else x", ["an if-else", "step(x)"]),
        ("x > 0", ["a comparison", "piecewise"]),
        ("lambda x: x", ["a lambda"]),
        ("x**x", ["constant exponent", "exp(...)"]),
        ("x**100", ["exponent 100", "at most 64"]),
        ("leaky_relu(a=1)", ["by position", "leaky_relu(0.1)"]),
        ("leaky_relu(1, 2)", ["leaky_relu takes at most 1", "got 2"]),
        ("relu + 1", ["apply it, as in relu(x)"]),
        ("gain(tanh)", ["gain takes an activation and a number", "gain(relu, 0.5)"]),
        ("3", ["does not depend on x"]),
        ("1e999*x", ["not finite"]),
        ("", ["expected the name of an activation"]),
        ("tanh(x", ["cannot read", "never closed"]),
        ("x" * 3000, ["3000 characters", "at most 2000"]),
        ("'relu'", ["'relu'", "not a real number"]),
    ],
)
def test_messages_name_what_came_and_the_fix(text: str, fragments: list[str]) -> None:
    with pytest.raises(ActivationError) as caught:
        activation(text)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_other_types_are_refused() -> None:
    for source in (3, None, 1.5, ["relu"], b"relu", np.zeros(3)):
        with pytest.raises(ActivationError, match="expected a name, an expression, a callable"):
            activation(source)
    with pytest.raises(ActivationError, match="declare them for callables only"):
        activation("relu", kinks=[0.0])


# --- callables that are not activations -------------------------------------------------------------------------------


def scalar_only(x: float) -> float:
    return x if x > 0 else 0.0


def raises(x: np.ndarray) -> np.ndarray:
    raise KeyError("boom")


BAD_CALLABLES = {
    "not vectorised": (scalar_only, ["scalar_only", "array of 9 numbers", "numpy.vectorize"]),
    "math function": (lambda x: math.sin(x), ["array of 9 numbers", "numpy.vectorize"]),
    "raises": (raises, ["raises failed", "KeyError", "boom"]),
    "reduces": (lambda x: x.sum(), ["shape (9,) into ()", "must return"]),
    "reshapes": (lambda x: x[:, None], ["shape (9,) into (9, 1)"]),
    "drops": (lambda x: x[:-1], ["shape (9,) into (8,)"]),
    "complex": (lambda x: np.sqrt(x + 0j), ["complex128", "real numbers"]),
    "text": (lambda x: x.astype(str), ["expected real numbers"]),
    "objects": (lambda x: x.astype(object), ["object", "expected real numbers"]),
    "nothing": (lambda x: None, ["()"]),
    "random": (lambda x: x + np.random.default_rng().normal(size=x.shape), ["different values", "deterministic"]),
    "softmax": (lambda x: special.softmax(x), ["not elementwise", "softmax"]),
    "standardised": (lambda x: (x - x.mean()) / x.std(), ["not elementwise"]),
    "sorted": (np.sort, ["not elementwise"]),
    "fixed size": (lambda x: x + np.arange(9), ["element"]),
}


@pytest.mark.parametrize(("function", "fragments"), BAD_CALLABLES.values(), ids=BAD_CALLABLES.keys())
def test_bad_callables(function: object, fragments: list[str]) -> None:
    with within(2.0), pytest.raises(ActivationError) as caught:
        activation(function)
    for fragment in fragments:
        assert fragment in str(caught.value)


UNDEFINED = {
    "log": ("log(x)", "returned NaN"),
    "square root": ("sqrt(x)", "returned NaN"),
    "fractional power": ("x**0.5", "returned NaN"),
    "callable with NaN": (lambda x: np.where(np.abs(x - 1) < 0.5, np.nan, x), "NaN"),
    "callable with NaN far out": (lambda x: np.where(np.abs(x) > 5, np.nan, x), "NaN"),
    "infinite plateau": (lambda x: np.where(x > 1, np.inf, x), "finite"),
    "noise": (lambda x: np.sin(1e9 * x), "could not be resolved"),
}


@pytest.mark.parametrize(("source", "message"), UNDEFINED.values(), ids=UNDEFINED.keys())
def test_functions_that_are_not_finite_or_not_resolvable(source: object, message: str) -> None:
    with within(5.0), pytest.raises(ActivationError, match=message):
        _ = activation(source).second_moment


INFINITE = {
    "exp(x²)": "exp(x**2)",
    "exp(x²/4)": "exp(x*x/4)",
    "left tail only": "exp(relu(-x)**2)",
    "1/x": "1/x",
    "1/√|x|": "1/sqrt(abs(x))",
    "pole away from zero": "1/(x - 1.3)",
    "tan": "sin(x)/cos(x)",
    "callable": lambda x: np.exp(x * x),
    "callable tan": np.tan,
    "callable pole": lambda x: 1 / (x - 0.7),
    "double exponential": "exp(exp(x))",
}


@pytest.mark.parametrize("source", INFINITE.values(), ids=INFINITE.keys())
def test_infinite_second_moments(source: object) -> None:
    with within(5.0), pytest.raises(InfiniteMomentError, match=r"second moment.*infinite") as caught:
        _ = activation(source).second_moment
    assert "use a function" in str(caught.value)


@pytest.mark.parametrize("text", ["exp(x*x/8)", "exp(x*x/5)", "abs(x)**0.5", "exp(3*x)", "cosh(2*x)", "1/(1 + x**2)"])
def test_functions_that_only_look_dangerous(text: str) -> None:
    """E exp(2x²/a) = (1 − 4/a)^−½ and friends."""
    exact = {
        "exp(x*x/8)": 2**0.5,
        "exp(x*x/5)": 5**0.5,
        "abs(x)**0.5": math.sqrt(2 / math.pi),
        "exp(3*x)": math.exp(18),
        "cosh(2*x)": (1 + math.exp(8)) / 2,
        "1/(1 + x**2)": 0.5,
    }
    value = activation(text).moments["second"]
    assert value.value == pytest.approx(exact[text] if text != "1/(1 + x**2)" else _lorentz(), rel=1e-10)


def _lorentz() -> float:
    from mpmath import mp

    with mp.workdps(30):
        return float(mp.quad(lambda x: 2 * mp.npdf(x) / (1 + x * x) ** 2, [0, 0.5, 1, 2, 4, 8, 14]))


@pytest.mark.slow
def test_cusps_answer_quickly() -> None:
    """κ of |x|^1.5 exists and κ'(1) = (9/4)E|X| is finite; an answer to 1e-8 or a refusal, but soon."""
    phi = activation("abs(x)**1.5")
    assert phi.second_moment == pytest.approx(2 * math.sqrt(2 / math.pi), rel=1e-10)
    outcome = ""
    with within(20.0):
        try:
            outcome = "exact" if abs(phi.kernel(0.0) - phi.mean**2) < 1e-8 else "wrong"
        except IsometerError as problem:
            outcome = str(problem)
    assert outcome == "exact" or "cusp" in outcome, outcome


@pytest.mark.parametrize("rho", [1.0000001, -1.5, math.nan, math.inf, [0.2, 1.1], [math.nan, 0.0]])
def test_correlations_outside_the_interval(rho: object) -> None:
    for method in (activation("relu").kernel, activation("relu").kernel_slope):
        with pytest.raises(ActivationError, match=r"must lie in \[−1, 1\]; got .*numpy.clip"):
            method(rho)


def test_correlations_at_the_ends_and_of_any_shape() -> None:
    relu = activation("relu")
    assert relu.kernel(1.0) == pytest.approx(0.5, rel=1e-15)
    assert relu.kernel(-1.0) == pytest.approx(0.0, abs=1e-16)
    assert relu.kernel(np.zeros((2, 0))).shape == (2, 0)
    assert relu.kernel(np.zeros((2, 3))).shape == (2, 3)
    assert isinstance(relu.kernel(0.5), float)
