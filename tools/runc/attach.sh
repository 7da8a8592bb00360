#!/bin/sh
# attach.sh HUB NAME ADDRESS RULES: a createRuntime hook that joins a container to the bridge of network namespace HUB,
# with iptables RULES of its network policies in force before its program starts. The container's state comes on stdin.
set -e
pid=$(grep -o '"pid": *[0-9]*' | grep -o '[0-9]*')
ip -n "$1" link add "$2" type veth peer name eth0 netns "$pid"
ip -n "$1" link set "$2" master br0 up
nsenter -t "$pid" -n sh -ec "ip address add $3/24 dev eth0; ip link set lo up; ip link set eth0 up; iptables-restore $4"
