from agent_side.qr import PLAIN, qr_code

LINK = "https://192.168.1.20:8787/#signin=j5ecfwuwstArtUWSrYNifEdPmERNEhM2gAVHxxGOXcs"


def test_a_link_fits_a_terminal_of_eighty_columns_and_half_a_screen():
    lines = qr_code(LINK, colour=False).splitlines()
    assert max(map(len, lines)) <= 60
    assert len(lines) <= 30


def test_with_colour_every_line_sets_and_ends_it():
    for line in qr_code(LINK, colour=True).splitlines():
        assert line.startswith("\x1b[")
        assert line.endswith(PLAIN)
