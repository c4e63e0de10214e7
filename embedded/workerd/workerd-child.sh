#!/bin/sh
# Runs workerd as a child that ends with its parent. Left to itself, workerd outlives a parent that was killed with -9
# and keeps the port and the data. Linux ends it by the parent-death signal; where that can't be had, the next start
# over the same data ends it, by the pid that is left here.
# A session of its own keeps a Ctrl-C at the terminal from ending it before the gateway has drained.
echo $$ >"$SLUICE_WORKERD_PID_FILE"
if command -v setsid >/dev/null && command -v setpriv >/dev/null && setpriv --pdeathsig KILL true 2>/dev/null; then
  # The parent may have died before the signal was set: then it is no longer the parent.
  exec setsid setpriv --pdeathsig KILL \
    sh -c '[ "$PPID" = "$SLUICE_HOST_PID" ] && exec "$SLUICE_WORKERD" "$@"' sh "$@"
fi
exec "$SLUICE_WORKERD" "$@"
