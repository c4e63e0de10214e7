import { quoted } from "../../lib/system-calls.ts";

/** The folder in a container with the files through which the agent and the init speak. */
export const CONTROL = "/.sluice";

/** Exit code of an init that is not the first process of its container: it could not clear up after commands. */
export const NOT_FIRST = 99;

/** Tells the init to open what a command leaves to the agent, which is another user. */
export const OPEN_OUTPUTS = "open";

/**
 * The init: the first process of a worker's container, a POSIX shell script that runs one command after the other.
 * That costs a few milliseconds a command, while an `exec` of the engine costs fifty. It takes orders as lines in the
 * FIFO `orders`, runs the script `order` in a subshell, and answers on the FIFO `report`.
 *
 * Commands may write to both FIFOs. So the first line that it reads, before there is any command, is a secret with which
 * each order begins. Each order has a key with which its reports begin. A newline comes before each of them, whatever was
 * written before. A line that comes while a command runs makes a watcher kill the command, and so does the end of
 * `orders`, which means that the agent has died.
 */
export const INIT_SCRIPT = `
[ "$$" = 1 ] || exit ${NOT_FIRST}
exec </dev/null >/dev/null 2>&1

_sluice_report() { echo "
$1 $2 $3 $4" >&4; }

_sluice_refuse() { _sluice_report "$_sluice_key" "$1"; exit 127; }

_sluice_enter() { cd -P -- "$1" 2>/dev/null || _sluice_refuse no-folder; }

_sluice_find() {
  case $1 in
  */*) [ -f "$1" ] && [ -x "$1" ] && return ;;
  *)
    set -f
    IFS=:
    for _sluice_dir in $2; do
      [ -f "\${_sluice_dir:-.}/$1" ] && [ -x "\${_sluice_dir:-.}/$1" ] && return
    done
    ;;
  esac
  _sluice_refuse no-command
}

_sluice_oom_kills() {
  _sluice_kills=0
  for _sluice_file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$_sluice_file" ] || continue
    while read -r _sluice_name _sluice_value; do
      [ "$_sluice_name" = oom_kill ] && _sluice_kills=$_sluice_value
    done <"$_sluice_file"
  done
}

_sluice_open() {
  [ "$_sluice_mode" = ${OPEN_OUTPUTS} ] || return 0
  set --
  # Not of the folder itself, which is the agent's: some versions of chmod go no further when that is refused.
  for _sluice_file in /pfs/out/* /pfs/out/.[!.]* /pfs/out/..?*; do
    # Given a link, it follows it.
    [ -e "$_sluice_file" ] && [ ! -L "$_sluice_file" ] || continue
    set -- "$@" "$_sluice_file"
    [ $# -lt 200 ] && continue
    chmod -R a+rwX "$@"
    set --
  done
  [ $# = 0 ] || chmod -R a+rwX "$@"
}

_sluice_mode=$1
_sluice_open
exec 3<${CONTROL}/orders 4>${CONTROL}/report
_sluice_tools=
command -v env && _sluice_tools="$_sluice_tools env"
command -v chmod && _sluice_tools="$_sluice_tools chmod"
read -r _sluice_secret <&3
_sluice_report ready "$_sluice_tools"

while read -r _sluice_from _sluice_key <&3; do
  [ "$_sluice_from" = "$_sluice_secret" ] || continue
  (read -r _sluice_key <&3; kill -9 -1) 4>&- &
  (exec >${CONTROL}/stdout 2>${CONTROL}/stderr; . ${CONTROL}/order)
  _sluice_code=$?
  kill -9 -1 && wait
  _sluice_tries=0
  while kill -9 -1; do
    # Reaps what has died by now and was nobody's child.
    (:)
    _sluice_tries=$((_sluice_tries + 1))
    [ "$_sluice_tries" = 50 ] && _sluice_report "$_sluice_key" ending
  done
  _sluice_open
  _sluice_kills=
  [ "$_sluice_code" = 0 ] || _sluice_oom_kills
  _sluice_report "$_sluice_key" end "$_sluice_code" "$_sluice_kills"
done
`;

export interface OrderRequest {
  readonly cmd: readonly string[];
  readonly workingDir?: string;
  readonly env: Readonly<Record<string, string>>;
  /** A path in the container. */
  readonly stdin: string;
  /** Its stderr is its stdout. */
  readonly joined?: boolean | undefined;
}

/** The script of one order. `env` sets the variables, because a shell can't pass on all names, and some mean something to it. */
export function orderScript({ cmd, workingDir, env, stdin, joined }: OrderRequest): string {
  const [name = ""] = cmd;
  const path = env.PATH === undefined ? '"$PATH"' : quoted(env.PATH);
  const variables = Object.entries(env).map(([key, value]) => quoted(`${key}=${value}`));
  // env takes a word with "=" for one more variable.
  const wrapped = name.includes("=") ? ["sh", "-c", 'exec "$@"', "sh", ...cmd] : cmd;
  return [
    ...(workingDir === undefined ? [] : [`_sluice_enter ${quoted(workingDir)}`]),
    `_sluice_find ${quoted(name)} ${path}`,
    `exec env -- ${[...variables, ...wrapped.map(quoted)].join(" ")} <${stdin} ${joined ? "2>&1 " : ""}3<&- 4>&-`,
    "",
  ].join("\n");
}
