"""Compares pictures as a person would: the same layout and colors, not the same bytes."""

import base64
from typing import Final

from tests.interop.dashboard.browser import Page

_TILE: Final = 16
"""Width of the tiles whose mean colors are compared, in pixels. So the edges of letters do not count."""
_MAX_DIFFERENCE: Final = 16
"""Difference of a tile's color, of 255, that nobody sees."""
_MAX_SHARE: Final = 0.01
"""Part of the tiles that may differ more."""
_SCRIPT: Final = """(async (first, second) => {
  const read = async (text) => {
    const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/webp" }));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [a, b] = [await read(first), await read(second)];
  if (a.width !== b.width || a.height !== b.height) return 1;
  let different = 0;
  let count = 0;
  for (let y = 0; y < a.height; y += TILE) {
    for (let x = 0; x < a.width; x += TILE) {
      const sums = [0, 0, 0];
      let pixels = 0;
      for (let j = y; j < Math.min(a.height, y + TILE); j += 1) {
        for (let i = x; i < Math.min(a.width, x + TILE); i += 1) {
          const at = (j * a.width + i) * 4;
          for (let c = 0; c < 3; c += 1) sums[c] += a.data[at + c] - b.data[at + c];
          pixels += 1;
        }
      }
      if (Math.max(...sums.map(Math.abs)) / pixels > LIMIT) different += 1;
      count += 1;
    }
  }
  return different / count;
})""".replace("TILE", str(_TILE)).replace("LIMIT", str(_MAX_DIFFERENCE))


async def find_difference(page: Page, picture: bytes, golden: bytes) -> str:
    """Return how two pictures differ; "" if they look alike.

    Args:
        page: the browser, which decodes the pictures.
        picture: a WebP picture.
        golden: the WebP picture that is expected.
    """
    first, second = (base64.b64encode(each).decode() for each in (picture, golden))
    share = float(await page.evaluate(f"{_SCRIPT}('{first}', '{second}')"))
    return "" if share <= _MAX_SHARE else f"{share:.1%} of the picture differ"
