import { NO_ENGINE } from "../../runner/executors/waiting-executor.ts";

/**
 * Where the commands of pipelines run on this machine, in words: nobody should learn only from a command's doings that it was
 * not in a container. `asked`: the value of `--executor`.
 */
export function howCommandsRun(
  { executor, tool }: { readonly executor: string; readonly tool: string },
  { asked }: { readonly asked: string },
): string {
  if (executor === NO_ENGINE) return `wait for a container engine (${tool})`;
  if (executor !== "process") return `in containers of ${tool}`;
  const why = asked === "auto" ? ", since no container engine answers here" : "";
  return `as processes with your rights and this machine's tools (${tool})${why}`;
}
