"""`omnigraph completion`: a script with which a shell completes commands and flags. No Python runs at the Tab key."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from omnigraph.cli.command import Capability, command
from omnigraph.cli.output import write_text


class CompletionShell(StrEnum):
    """The shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


ShellName = Annotated[
    CompletionShell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.", show_default=False)
]


@command("omnigraph completion bash", "omnigraph completion fish", capability=Capability.LOCAL)
def completion(shell: ShellName) -> None:
    """Print a script that completes commands and flags in a shell.

    Load the script when the shell starts, for example with `source <(omnigraph completion bash)` in ~/.bashrc.
    """
    from omnigraph.cli.app import make_command

    words = list_words(make_command())
    match shell:
        case CompletionShell.BASH:
            write_text(bash_script(words))
        case CompletionShell.ZSH:
            write_text(f"autoload -U +X bashcompinit && bashcompinit\n{bash_script(words)}")
        case CompletionShell.FISH:
            write_text(fish_script(words))


def list_words(root: Any) -> dict[str, list[str]]:
    """Return what can follow each command: the names of commands after a family, flags after a command."""
    words = {"": [*root.commands, "help", "--help", "--version"]}
    for name, child in root.commands.items():
        members = getattr(child, "commands", None)
        if members is None:
            words[name] = _flags(child)
            continue
        words[name] = [*members, "--help"]
        words.update({f"{name} {second}": _flags(member) for second, member in members.items()})
    return words


def _flags(native: Any) -> list[str]:
    names = [name for parameter in native.params for name in (*parameter.opts, *parameter.secondary_opts)]
    return [*(name for name in names if name.startswith("-")), "--help"]


def bash_script(words: dict[str, list[str]]) -> str:
    """Return the script for bash. After a command, a word that does not start with `-` is completed as a file."""
    cases = "\n".join(f'    "{path}") words="{" ".join(following)}" ;;' for path, following in words.items() if path)
    families = "|".join(path for path in words if any(other.startswith(f"{path} ") for other in words if path))
    return f"""\
_omnigraph() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" words=""
  (( COMP_CWORD > 1 )) && path="${{COMP_WORDS[1]}}"
  case "$path" in
    {families}) (( COMP_CWORD > 2 )) && path="$path ${{COMP_WORDS[2]}}" ;;
  esac
  case "$path" in
    "") words="{" ".join(words[""])}" ;;
{cases}
  esac
  if [[ "$current" == -* || "$words" != -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    local IFS=$'\\n'
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F _omnigraph omnigraph"""


def fish_script(words: dict[str, list[str]]) -> str:
    """Return the script for fish."""
    lines = []
    for path, following in words.items():
        condition = f"__fish_seen_subcommand_from {path.split()[-1]}" if path else "__fish_use_subcommand"
        names = " ".join(word for word in following if not word.startswith("-"))
        if names:
            lines.append(f"complete -c omnigraph -n '{condition}' -a '{names}'")
        flags = [word.removeprefix("--") for word in following if word.startswith("--")]
        lines += [f"complete -c omnigraph -n '{condition}' -l {flag}" for flag in flags]
    return "\n".join(lines)
