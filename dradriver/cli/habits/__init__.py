"""What users of kubectl type by habit: options before the verb, `-o=json`, kubectl's verbs and names of kinds.

Law of this package: it reads words of a command line and returns words or hints. It must not access a cluster.

- `arguments`: moves options and splits words, so that the commands see one form.
- `hints`: what to type instead of a verb or kind that dradriver does not have.
"""

from dradriver.cli.habits.arguments import find_values, move_leading_options, unify_options
from dradriver.cli.habits.hints import explained_hint, kind_hint, suggest, verb_hint

__all__ = [
    "explained_hint",
    "find_values",
    "kind_hint",
    "move_leading_options",
    "suggest",
    "unify_options",
    "verb_hint",
]
