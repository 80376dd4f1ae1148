"""Say what an image shows: an encoder sees patches, a decoder reads them while it writes words.

    model = Captioner(CaptionerConfig(vocab_size=5000))
    logits = model(images, words)                  # teacher forcing: b n words
    beam_search(model, images, GenerationConfig(bos_id=1, eos_id=2))    # regard.generation.sample

Several texts may be about one image, which is then encoded once for all of them.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.generation.state import DecodingState
from regard.models.config import CaptionerConfig
from regard.models.decoder import Decoder
from regard.models.sizes import expect_room
from regard.models.vit import ViT


class Captioner(Decoder):
    """Images and the words so far in, the scores of each next word out.

    The encoder is a value: any module whose `features`, or else whose call, gives (b m width).
    With one passed in, or with features computed beforehand, which may stand wherever images do,
    the configuration says their `context_width`; without that, it builds a ViT of its own.
    """

    def __init__(
        self,
        config: CaptionerConfig,
        *,
        encoder: nn.Module | None = None,
        attention: Attention | None = None,
    ) -> None:
        if encoder is not None and config.encoder_width is None:
            raise ValueError(
                "an encoder is passed in and the configuration has another; "
                "say the width of the features with encoder_width=, and it builds none"
            )
        expect_room(config)
        if config.encoder_width is None:
            encoder = ViT(config.encoder, attention=attention)
            encoder.head = nn.Identity()  # nobody asks for classes, so nothing would train it
        super().__init__(config, context_width=config.features_width, attention=attention)
        self.config, self.encoder = config, encoder

    def forward(
        self,
        images: Float[Tensor, "b k y x"] | Float[Tensor, "b m width"],
        words: Int[Tensor, "r n"],
        *,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
    ) -> Float[Tensor, "r n words"]:
        """The scores of the word after each of `words`; padding is at position −1."""
        return self.next_token_logits(
            words, self.encode(images), positions=positions, context_positions=context_positions
        )

    def encode(
        self, images: Float[Tensor, "b k y x"] | Float[Tensor, "b m width"]
    ) -> Float[Tensor, "b m width"]:
        """What the decoder will read of each image; features go through as they are."""
        if images.ndim == 3:
            context = images
        elif self.encoder is None:
            raise ValueError(
                f"this model has no encoder to see images of shape {tuple(images.shape)}: "
                "give it features, (images, places, width)"
            )
        else:
            context = getattr(self.encoder, "features", self.encoder)(images)
        if context.shape[-1] != self.config.features_width:
            raise ValueError(
                f"features are {context.shape[-1]} wide and the decoder reads "
                f"{self.config.features_width}"
            )
        return context

    def new_state(
        self,
        images: Float[Tensor, "b k y x"] | Float[Tensor, "b m width"],
        context_positions: Positions | None = None,
    ) -> DecodingState:
        """One empty text about each image, for `step` to write on."""
        return self.empty_state(len(images), self.encode(images), context_positions)
