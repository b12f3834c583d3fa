import torch

from igdefense.report.evidence import Evidence
from igdefense.report.exhibit import Exhibit
from igdefense.report.gallery import BROKEN, OUTCOMES, SURVIVED, gallery


def test_predictions_are_those_that_were_judged(evidence: Evidence) -> None:
    assert evidence.gallery is not None
    labels = evidence.gallery.content["labels"]
    for exhibit, shown in zip(evidence.exhibits, evidence.gallery.content["runs"], strict=True):
        clean = [p == y for p, y in zip(shown["clean"]["predictions"], labels, strict=True)]
        assert clean == exhibit.run.clean.robust.tolist()
        for attack in shown["attacks"]:
            still = [attack["predictions"][tile] for tile in attack["tiles"]]
            right = torch.tensor([p == y for p, y in zip(still, labels, strict=True)])
            robust = exhibit.run.verdicts[attack["name"]].robust
            assert torch.equal(right & exhibit.run.clean.robust, robust)


def test_outcomes_are_the_verdicts(evidence: Evidence) -> None:
    assert evidence.gallery is not None
    for exhibit, shown in zip(evidence.exhibits, evidence.gallery.content["runs"], strict=True):
        for attack in shown["attacks"]:
            names = [OUTCOMES[number] for number in attack["outcomes"]]
            robust = exhibit.run.verdicts[attack["name"]].robust.tolist()
            assert [name == SURVIVED for name in names] == robust


def test_the_decisive_attack_is_the_first_that_broke_the_image(evidence: Evidence) -> None:
    assert evidence.gallery is not None
    broken = OUTCOMES.index(BROKEN)
    seen = 0
    for exhibit, shown in zip(evidence.exhibits, evidence.gallery.content["runs"], strict=True):
        names = list(exhibit.run.verdicts)
        for i, chosen in enumerate(shown["decisive"]):
            fell = [n for n in names if not exhibit.run.verdicts[n].robust[i]]
            if exhibit.run.clean.robust[i] and fell:
                seen += 1
                assert shown["attacks"][chosen]["name"] == fell[0]
                assert shown["attacks"][chosen]["outcomes"][i] == broken
    assert seen


def test_masked_neurons_are_zero_or_as_attacked(evidence: Evidence) -> None:
    assert evidence.gallery is not None
    base, guided = evidence.gallery.content["runs"]
    assert base["attacks"][0]["neurons"] == []
    for row in guided["attacks"][0]["neurons"]:
        for attacked, masked in zip(row["attacked"], row["masked"], strict=True):
            assert masked in (0, attacked)


def test_images_that_runs_share_are_stored_once(evidence: Evidence) -> None:
    assert evidence.gallery is not None
    first, second = evidence.gallery.content["runs"]
    by_name = [{a["name"]: a["sprites"] for a in run["attacks"]} for run in (first, second)]
    assert by_name[0]["transfer-apgd-ce"] == by_name[1]["transfer-apgd-ce"]
    assert by_name[0]["autoattack"] != by_name[1]["autoattack"]


def test_the_gallery_can_be_kept_small(exhibits: list[Exhibit]) -> None:
    few = gallery(exhibits, 4, progress=False)
    assert few is not None
    assert len(few.content["labels"]) == len(few.content["runs"][0]["decisive"]) == 4
    assert gallery(exhibits, 0) is None
