# What test commands use of nvm: it selects one of the versions that are below this directory.
# A version is put there before it is used; nothing is fetched, and nothing is written.
NVM_DIR=${NVM_DIR:-/usr/local/nvm}
export NVM_DIR

nvm() {
    case $1 in
    use | install)
        shift
        while [ "${1#-}" != "$1" ]; do shift; done
        wanted=${1:-default}
        if [ "$wanted" = default ] || [ "$wanted" = node ]; then wanted=${NVM_DEFAULT:-}; fi
        # shellcheck disable=SC2012
        place=$(ls -d "$NVM_DIR/versions/node/v${wanted#v}" "$NVM_DIR/versions/node/v${wanted#v}".* 2>/dev/null |
            sort -V | tail -n 1)
        if [ -z "$place" ]; then
            echo "nvm: there is no Node.js $wanted in $NVM_DIR" >&2
            return 3
        fi
        PATH="$place/bin:$(echo "$PATH" | tr : '\n' | grep -v "^$NVM_DIR/" | paste -sd: -)"
        export PATH
        echo "Now using node ${place##*/}"
        ;;
    alias)
        if [ "$2" = default ]; then
            NVM_DEFAULT=$3
            export NVM_DEFAULT
        fi
        ;;
    current) command -v node >/dev/null && node --version || echo none ;;
    *)
        echo "nvm: '$1' is not done here" >&2
        return 127
        ;;
    esac
}
