"""Front matter: the YAML block at the top of a Markdown file.

Only the first block counts, and both of its delimiters are exactly `---` and a newline: no spaces, no CR, no byte order
mark before. Front matter with CR LF line ends is refused; the body is kept byte for byte as it is.
"""

from __future__ import annotations

from aop.core.errors import Json
from aop.core.text.json import MalformedText, utf8_bytes, utf8_text
from aop.core.text.yaml import dump_yaml

_DELIMITER = "---"


def split_front_matter(text: bytes) -> tuple[bytes, str]:
    """Return the YAML between the delimiters, unparsed, and everything after them. Raises: MalformedText."""
    # Not `splitlines`: it would also end a line at U+2028 and other characters that no editor shows as a line end.
    first, *lines = utf8_text(text).split("\n")
    if first != _DELIMITER:
        raise MalformedText("its first line is not exactly `---`", line=1)
    for index, line in enumerate(lines):
        if line.endswith("\r"):
            raise MalformedText("its lines end with CR LF", line=index + 2)
        if line == _DELIMITER:
            front = "".join(f"{above}\n" for above in lines[:index])
            return front.encode("utf-8"), "\n".join(lines[index + 1 :])
    raise MalformedText("its front matter does not end with a line that is exactly `---`", line=1)


def join_front_matter(front: Json, body: str) -> str:
    """Return the text that `split_front_matter` takes apart again. Raises: MalformedText."""
    utf8_bytes(body)
    return f"{_DELIMITER}\n{dump_yaml(front)}{_DELIMITER}\n{body}"
