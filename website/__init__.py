"""The documentation site: what MkDocs needs besides the pages in `docs`. `make docs` builds it."""
