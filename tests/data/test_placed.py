import pytest
import torch

from erlangen.data import BoxedSet, DataSet, gtsrb10, placed, scenes


def images(n=40, size=6, channels=1):
    x = torch.randint(1, 256, (n, channels, size, size)).to(torch.uint8)
    return DataSet(x, torch.arange(n) % 2, ("a", "b"), "letters")


def pixels(box, canvas):
    return ((box + 1) * canvas / 2).round().long().tolist()


def test_the_box_holds_the_image_and_nothing_else():
    data = images()
    found = placed(data, 12, seed=1)
    assert isinstance(found, BoxedSet)
    assert found.x.shape == (40, 1, 12, 12)
    for x, item, box in zip(found.x, data.x, found.box, strict=True):
        left, top, right, bottom = pixels(box, 12)
        assert torch.equal(x[:, top:bottom, left:right], item)
        assert x.long().sum() == item.long().sum()
    assert torch.allclose(found.box[:, 2:] - found.box[:, :2], torch.ones(40, 2))
    assert {pixels(box, 12)[0] for box in found.box} == set(range(7))  # every place


def test_places_depend_on_the_seed_alone():
    data = images()
    assert torch.equal(placed(data, 12, seed=1).x, placed(data, 12, seed=1).x)
    assert not torch.equal(placed(data, 12, seed=1).x, placed(data, 12, seed=2).x)


def test_a_constant_stays_constant_when_it_is_resized():
    data = DataSet(torch.full((3, 2, 4, 4), 0.5), torch.zeros(3).long(), ("a",), "grey")
    found = placed(data, 20, share=0.4, seed=0)
    assert found.x.dtype == data.x.dtype
    assert torch.allclose(found.x.amax((1, 2, 3)), torch.full((3,), 0.5))
    assert torch.allclose(found.x.sum((1, 2, 3)), torch.full((3,), 0.5 * 2 * 64))


def test_boxes_follow_subsets():
    found = placed(images(), 12, seed=1)
    assert torch.equal(found.subset(torch.tensor([5, 3])).box, found.box[[5, 3]])


def signs(n=30):
    box = torch.tensor([[-0.5, -0.5, 0.5, 0.5]]).repeat(n, 1)
    return BoxedSet(torch.full((n, 3, 8, 8), 200, dtype=torch.uint8), torch.arange(n) % 2, ("a", "b"), "signs", box)


def test_the_box_of_a_scene_holds_the_sign():
    ground = DataSet(torch.zeros(4, 3, 10, 10, dtype=torch.uint8), torch.zeros(4).long(), ("g",), "ground")
    found = scenes(signs(), ground, 32, sizes=(0.25, 0.5), seed=0)
    assert found.x.shape == (30, 3, 32, 32)
    widths = ((found.box[:, 2] - found.box[:, 0]) * 32).round()  # of the frame, in pixels: the box has half its side
    assert (widths.min(), widths.max()) == (8, 16)
    for x, box in zip(found.x.double(), found.box, strict=True):
        at = (torch.arange(32) + 0.5) / 16 - 1
        inside = ((at >= box[1]) & (at <= box[3]))[:, None] & (at >= box[0]) & (at <= box[2])
        assert (x[:, inside] == 200).all()
        centre = torch.stack([(x[0] * at).sum(), (x[0] * at[:, None]).sum()]) / x[0].sum()
        assert torch.allclose(centre, (box[:2] + box[2:]) / 2, atol=1e-9)  # it fades to all sides alike


def test_scenes_come_from_the_backgrounds():
    ground = DataSet(torch.randint(0, 256, (1, 3, 5, 5)).to(torch.uint8), torch.zeros(1).long(), ("g",), "ground")
    found = scenes(signs(2), ground, 16, sizes=(0.2, 0.2), seed=3)
    again = (found.x[..., 5:] == found.x[..., :-5]).all(1)  # one picture over and over, but for where the sign is
    assert (~again).sum((1, 2)).max() <= 2 * 3 * 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: placed(images(), 12, share=1.5, seed=0), "share: received 1.5"),
        (lambda: placed(images(), 12, share=0.01, seed=0), "share: received 0.01 of 12 pixels"),
        (lambda: placed(images().x, 12, seed=0), "data: received a uint8 tensor .*; accepted is a DataSet of images"),
        (lambda: placed(images(), 12, seed="a"), "seed: received 'a'; accepted is an integer"),
        (lambda: scenes(images(), images(), 32, seed=0), "signs: received DataSet 'letters'.*; accepted is a BoxedSet"),
        (
            lambda: scenes(signs(), images(channels=3), 32, sizes=(0.4, 0.2), seed=0),
            r"sizes: received \(0.4, 0.2\); .*least",
        ),
        (
            lambda: scenes(signs(), images(channels=3), 32, sizes=0.3, seed=0),
            "sizes: received 0.3; accepted are the least",
        ),
        (
            lambda: scenes(signs(), images(), 32, seed=0),
            "backgrounds: received .*accepted are uint8 images of 3 channels",
        ),
        (lambda: scenes(signs(), images(channels=3), 32, sizes=(0, 1), seed=0), "sizes: received 0"),
        (lambda: BoxedSet(*vars(images(2)).values(), torch.zeros(2, 4)), "box: received boxes without an area"),
        (lambda: BoxedSet(*vars(images(2)).values(), torch.zeros(3, 4)), "box: received a float64 tensor"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_real_signs_have_boxes(real):
    try:
        data = gtsrb10("test")
    except OSError as error:
        pytest.skip(f"real data: {error}")
    width = data.box[:, 2] - data.box[:, 0]
    assert data.box.abs().max() < 1
    assert width.min() > 1  # of 2: the margin is narrow
