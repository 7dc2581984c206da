#!/usr/bin/env python3
"""The examples of the pages, as programs: writes the code block of one language.

    example.py PAGE LANGUAGE FILE
"""

import re
import sys
from pathlib import Path


def example(page, language):
    """The only code block of this language."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", Path(page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        raise SystemExit(f"{page}: {len(blocks)} code blocks of language {language}, expected one")
    return blocks[0]


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(example(sys.argv[1], sys.argv[2]), encoding="utf-8")
