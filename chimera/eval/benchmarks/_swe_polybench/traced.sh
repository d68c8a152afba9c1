# Comes before the test command: notes each command that fails, and prints a trace as upstream does.
# $1 is the file of the notes; the trap's own trace must not get into the log.
_chimera_failures=$1
shift
trap '{ printf "%s\n" "$BASH_COMMAND" >>"$_chimera_failures"; } 2>/dev/null' ERR
set -uxo pipefail
