#!/bin/sh
# What the entry point of the image `postgres` does with its variables: a cluster, a user, a database, the server.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
user=${POSTGRES_USER:-postgres}
as="setpriv --reuid=postgres --regid=postgres --init-groups"
export PATH="$bin:$PATH"

if [ "${1:-postgres}" != postgres ]; then exec "$@"; fi
[ $# -eq 0 ] || shift
install -d -o postgres -g postgres -m 700 "$data"
install -d -o postgres -g postgres /var/run/postgresql
cd /
if [ ! -s "$data/PG_VERSION" ]; then
    echo "${POSTGRES_PASSWORD:-}" >/tmp/password
    $as initdb -D "$data" -U "$user" --pwfile=/tmp/password --auth-host=scram-sha-256 --auth-local=trust --no-sync
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
    $as pg_ctl -D "$data" -o "-c listen_addresses=''" -w start
    if [ "${POSTGRES_DB:-$user}" != postgres ]; then $as createdb -U "$user" "${POSTGRES_DB:-$user}"; fi
    $as pg_ctl -D "$data" -m fast -w stop
fi
# shellcheck disable=SC2086
exec $as postgres -D "$data" -c "listen_addresses=*" "$@"
