"""Names of networks: what is written is parsed back, and every part of it has one spelling."""

import pytest

import nishimori_paper as paper
from nishimori import data
from nishimori_paper._names import NetworkName, resnet20_on

NAMES = {
    "cifar10/resnet20": NetworkName("cifar10", "resnet20"),
    "cifar100/resnet56-conv": NetworkName("cifar100", "resnet56-conv"),
    "cifar100/repvgg-a2": NetworkName("cifar100", "repvgg-a2"),
    "cifar10/resnet20-fraction-0.1": NetworkName("cifar10", "resnet20", 0.1),
    "cifar10/resnet20-conv-fraction-0.25": NetworkName("cifar10", "resnet20-conv", 0.25),
    "svhn/resnet20-authors": NetworkName("svhn", "resnet20", authors=True),
    "svhn/resnet20-fraction-0.5-authors": NetworkName("svhn", "resnet20", 0.5, authors=True),
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_written_and_parsed(text):
    assert NetworkName.parse(text) == NAMES[text]
    assert str(NAMES[text]) == text


@pytest.mark.parametrize("text", [*data.names(), *paper.artefact("statements").networks()])
def test_every_name_in_use_is_one_that_is_written_back(text):
    assert str(NetworkName.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "file", "label"),
    [
        ("svhn/resnet20", "svhn-resnet20.npz", "SVHN ResNet20 (ours)"),
        ("cifar10/resnet56-authors", "cifar10-resnet56-authors.npz", "CIFAR-10 ResNet56 (authors')"),
        ("cifar10/resnet20-fraction-0.1", "cifar10-resnet20-fraction-0.1.npz", "CIFAR-10 ResNet20 (ours, 0.1 of the images)"),
        ("cifar10/densenet121", "cifar10-densenet121.npz", "CIFAR-10 DenseNet121 (ours)"),
        (
            "cifar10/densenet121-linear",
            "cifar10-densenet121-linear.npz",
            "CIFAR-10 DenseNet121 with linear transitions (ours)",
        ),
        ("cifar100/resnet20-conv", "cifar100-resnet20-conv.npz", "CIFAR-100 ResNet20 (ours)"),
        ("cifar100/vgg19", "cifar100-vgg19.npz", "CIFAR-100 VGG19 (ours)"),
        ("cifar100/repvgg-a2", "cifar100-repvgg-a2.npz", "CIFAR-100 RepVGG-A2 (ours)"),
    ],
)
def test_a_name_gives_the_file_and_the_label(text, file, label):
    name = NetworkName.parse(text)
    assert (name.file, name.label) == (file, label)
    assert name.title == label.replace(f"{name.whose}, ", "").removesuffix(f" ({name.whose})")


def test_no_two_bundled_networks_have_the_same_label():
    labels = [NetworkName.parse(name).label for name in data.names()]
    assert len(set(labels)) == len(labels)
    assert NetworkName.parse("cifar10/resnet20-fraction-0.2").title == "CIFAR-10 ResNet20 (0.2 of the images)"


def test_both_versions_of_a_network_have_the_same_name_except_for_who_trained_it():
    ours, authors = (NetworkName.parse(f"cifar10/resnet20{end}") for end in ("", "-authors"))
    assert (ours.authors_version, authors.authors_version) == (authors, authors)
    assert (ours.our_version, authors.our_version) == (ours, ours)


def test_nine_tenths_of_the_images_are_the_network_of_table_1():
    assert [str(resnet20_on(fraction)) for fraction in (0.1, 0.8, 0.9)] == [
        "cifar10/resnet20-fraction-0.1",
        "cifar10/resnet20-fraction-0.8",
        "cifar10/resnet20",
    ]
