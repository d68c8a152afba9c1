#!/bin/bash
# What /etc/kafka/docker/run of Kafka's images does: KAFKA_A_B=x becomes a.b=x, then one node serves.
set -eu
place=/opt/kafka
{
    for name in $(compgen -e KAFKA_); do
        key=$(echo "${name#KAFKA_}" | tr '[:upper:]_' '[:lower:].')
        case $key in heap.opts | opts | jmx.opts | log4j.*) continue ;; esac
        echo "$key=${!name}"
    done
    echo "log.dirs=/tmp/kafka-logs"
} >/tmp/server.properties
run() {
    java -Xmx512m -cp "$place/*:$place" "$@"
}
run kafka.tools.StorageTool format --ignore-formatted -t "${CLUSTER_ID:-4L6g3nShT-eMCtK--X86sw}" -c /tmp/server.properties
run kafka.Kafka /tmp/server.properties
