"""A browser for a person who is logged in everywhere: python mcp_oauth_browser.py URL."""

import sys
from urllib.request import urlopen

if __name__ == "__main__":
    with urlopen(sys.argv[1], timeout=20) as page:  # noqa: S310 (an address of our own test)
        page.read()
