"""The pictures of the documentation, drawn from tables. `make pictures` writes them into `docs/pictures`."""

from website.pictures.claim_states import draw_claim_states
from website.pictures.layers import draw_layers
from website.pictures.life_of_a_claim import draw_life_of_a_claim
from website.pictures.parts import draw_parts

__all__ = ["PICTURES"]

PICTURES = {
    "claim-states.svg": draw_claim_states,
    "layers.svg": draw_layers,
    "life-of-a-claim.svg": draw_life_of_a_claim,
    "parts.svg": draw_parts,
}
"""The function that draws each picture, by the name of its file."""
