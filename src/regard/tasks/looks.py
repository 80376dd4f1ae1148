"""Where a model looked, as a page or a picture."""

from __future__ import annotations

import html
from pathlib import Path

from regard.errors import UserError
from regard.tasks.task import Looked


class Look:
    """Where a model looked: written as a page or a picture, shown in a notebook."""

    def __init__(self, looked: Looked) -> None:
        self.looked = looked

    def write(self, path: str | Path) -> Path:
        """As .html with every layer and head to choose from, or as .png, .svg or .pdf."""
        from regard.visualization.document import write_document

        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            write_document(path, self.looked.document)
        elif path.suffix.lower() in (".png", ".svg", ".pdf"):
            self.looked.draw(path)
        else:
            raise UserError(f"{path}: a look is written as .html, .png, .svg or .pdf")
        return path

    def _repr_html_(self) -> str:
        from regard.visualization.document import render

        page = html.escape(render(self.looked.document), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" '
            'style="width:100%;height:720px;border:0"></iframe>'
        )
