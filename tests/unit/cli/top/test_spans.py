"""Spans are wrapped, shortened and cleaned."""

from dradriver.cli.top.spans import Span, cut_middle, flow, pad, plain_text, sanitize, shorten, wrapped


def test_control_characters_are_replaced() -> None:
    assert sanitize("a\x1b]0;title\x07b\n") == "a?]0;title?b?"
    assert sanitize("größe 漢字") == "größe 漢字"


def test_a_line_is_padded_or_cut_to_a_width() -> None:
    assert pad((Span("ab"), Span("cd", "title")), 3) == (Span("ab"), Span("c", "title"))
    assert pad((Span("ab"),), 4) == (Span("ab"), Span("  "))


def test_a_name_is_cut_in_its_middle() -> None:
    assert cut_middle("gke-pool-a-x7f2", 15) == "gke-pool-a-x7f2"
    assert cut_middle("gke-pool-a-x7f2", 10) == "gke-..x7f2"
    assert [len(cut_middle("gke-pool-a-x7f2", width)) for width in range(12)] == list(range(12))


def test_a_shortened_line_shows_that_it_was_cut() -> None:
    assert plain_text(shorten((Span("abcdefgh"),), 6)) == "abc..."
    assert plain_text(shorten((Span("abcdef"),), 6)) == "abcdef"


def test_a_word_that_is_longer_than_the_line_is_continued() -> None:
    assert [plain_text(line) for line in wrapped("abcdefgh", 3)] == ["abc", "def", "gh"]


def test_pieces_flow_into_lines_and_are_not_broken() -> None:
    pieces = [(Span(text),) for text in ("aaaa", "bbbb", "cc")]
    assert [plain_text(line) for line in flow(pieces, 10, (Span("x "),), 2)] == ["x aaaa", "  bbbb  cc"]
