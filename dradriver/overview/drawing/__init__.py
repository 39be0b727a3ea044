"""Draws the use of devices for a terminal or a file.

- `text`: draws counter sets with a letter for each device in use.
- `svg`: draws a card as an SVG element.
- `document`: draws all cards as one SVG file.
- `page`: draws all cards as one HTML file.
- `comparison`: draws the cards before and after a simulation.
- `sections`: divides an overview into the parts of a drawing.
- `marks`: gives devices letters and colors, and describes them in words.
- `palette`: the colors in light and in dark.
"""
