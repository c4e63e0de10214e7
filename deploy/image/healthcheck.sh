#!/bin/sh
# Healthy is a gateway that answers. A container that runs anything else, such as a runner, listens nowhere: it is healthy
# for as long as it runs.
command='' port=8787 before=''
# The first process has the command line that the container was started with.
for word in $(tr '\0' ' ' </proc/1/cmdline); do
  case $before in
    sluice) command=${command:-$word} ;;
    --port) port=$word ;;
  esac
  case $word in --port=*) port=${word#--port=} ;; esac
  before=$word
done
[ "$command" = dev ] || exit 0
# Not wget: BusyBox's dies if resolv.conf is empty, as it is without a network.
printf 'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' |
  nc -w 5 127.0.0.1 "$port" 2>/dev/null | head -n 1 | grep -q ' 200 '
