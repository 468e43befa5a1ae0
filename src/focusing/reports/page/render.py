"""Templates to text; whatever comes from a record is escaped."""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from focusing.reports.names import data_name, model_name
from focusing.reports.tables import between, number, p_value, signed

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"


def render(template: str, **values: Any) -> str:
    """Fill a template.

    Args:
        template: a file in ``templates/``.
        values: what it shows.
    """
    return _environment().get_template(template).render(**values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelt name is an error, not a gap in the page
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {
        "data_name": data_name,
        "model_name": model_name,
        "number": number,
        "signed": signed,
        "p_value": p_value,
        "between": between,
    }
    environment.globals["asset"] = _asset
    return environment


@cache
def _asset(name: str) -> str:
    """Our own CSS or JavaScript as it is, but for indentation: a thousand pages have a copy."""
    lines = (line.strip() for line in (TEMPLATES / name).read_text(encoding="utf-8").splitlines())
    kept = (line for line in lines if line and not line.startswith("//"))
    return "\n".join(kept)


@lru_cache(maxsize=1)
def source_mark() -> str:
    """Changes whenever pages would look different."""
    files = sorted([*HERE.glob("*.py"), *TEMPLATES.iterdir()])
    content = b"".join(path.read_bytes() for path in files if path.is_file())
    return hashlib.sha256(content).hexdigest()[:16]
