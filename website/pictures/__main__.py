"""Write the pictures into `docs/pictures`: python -m website.pictures."""

from pathlib import Path

from website.pictures import PICTURES

FOLDER = Path(__file__).parents[2] / "docs/pictures"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
