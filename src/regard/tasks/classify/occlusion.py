"""The patches of one picture: which of them the answer needs, and what each of them read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inspection.maps import image_maps
from regard.inspection.occlusion import Occlusion, Tell, patch_falls
from regard.inspection.places import has_places
from regard.models.vit import ViT
from regard.tasks.classify.predict import Classifier
from regard.tasks.classify.report import prepared
from regard.tasks.image_inputs import Picture
from regard.visualization.document import packed


def falls(trained: Classifier, picture: Picture, tell: Tell) -> Occlusion:
    """How far the probability of the class that it says falls without each patch."""
    (image,) = prepared(trained, [picture])

    def probability(images: Tensor) -> Tensor:
        found: Tensor = trained.model(images).float().softmax(-1)
        return found

    with torch.no_grad():
        (shares,) = probability(image[None]).double().cpu().numpy()
    answer = int(shares.argmax())
    side = trained.metadata.size // trained.config.model.patch_size
    found = patch_falls(
        lambda images: probability(images)[:, [answer]], image, (side, side), tell=tell
    )
    return Occlusion((trained.metadata.classes[answer],), shares[[answer]], found)


def reads(trained: Classifier, picture: Picture, patch: int) -> dict[str, Any]:
    """What one patch read of all patches: every head of every layer, and all layers multiplied."""
    if not isinstance(trained.model, ViT) or not has_places(trained.model):
        raise UserError("what a patch read is known of models whose patches all read each other")
    maps = image_maps(trained.model, prepared(trained, [picture]), patch=patch)
    return {"heads": packed(maps.heads[0]), "rollout": packed(maps.rollout[0])}
