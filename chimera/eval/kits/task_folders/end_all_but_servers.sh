# Ends every process but the first, this one, and sessions that listen on a TCP port. Servers get
# time to come up first, as they do upstream while test scripts install their tools.
sleep 10
own=$(set -- $(cut -d')' -f2- /proc/$$/stat); echo $4)
listening=" "
for table in /proc/net/tcp /proc/net/tcp6; do
    [ -r $table ] || continue
    while read -r _ _ _ state _ _ _ _ _ inode _; do
        [ "$state" = 0A ] && listening="$listening$inode "
    done < $table
done
session() { set -- $(cut -d')' -f2- "$1/stat" 2>/dev/null); echo "$4"; }
kept=" $own " owned=" " hidden=" "
for process in /proc/[0-9]*; do
    for link in "$process"/fd/*; do
        [ "$link" = "$process/fd/*" ] && continue
        target=$(readlink "$link") || { hidden="$hidden$(session $process) "; break; }
        case "$target" in socket:*) ;; *) continue ;; esac
        inode=${target#socket:[}; inode=${inode%]}
        case "$listening" in *" $inode "*)
            kept="$kept$(session $process) "; owned="$owned$inode " ;;
        esac
    done
done
# Servers that changed their user hide what they have open, even from root in a container.
for inode in $listening; do
    case "$owned" in *" $inode "*) ;; *) kept="$kept$hidden"; break ;; esac
done
first=
for process in $(ls /proc | grep '^[0-9]*$' | sort -n); do
    [ "$process" = 1 ] && continue
    set -- $(cut -d')' -f2- /proc/$process/stat 2>/dev/null) || continue
    [ -n "$4" ] || continue
    if [ -z "$first" ] && [ "$2" = 1 ]; then first=$process; continue; fi
    case "$kept" in *" $4 "*) continue ;; esac
    kill -9 "$process" 2>/dev/null
done
exit 0
