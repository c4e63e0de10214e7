import { Option } from "commander";
import { type RunnerConfig, type RunnerFlags, readRunnerConfig } from "../../runner/agent/config.ts";
import { EXECUTORS, NO_ENGINE } from "../../runner/executors/executor.ts";
import type { Command } from "../command.ts";
import type { Connection } from "../gateway/connection/connection.ts";
import { another } from "../options.ts";

/** What `runner` and `dev` take for the runners that they start, as written. */
export interface RunnerTerms extends Omit<RunnerFlags, "node" | "data" | "executor"> {
  readonly executor: string;
}

/** Adds the options of a runner that do not name it. */
export function withRunnerTerms(command: Command): Command {
  return withSandboxTerms(command)
    .addOption(
      new Option(
        "--secrets <source>",
        "where pipelines' secrets are: a folder with <name>/<key> files and <name>.pipelines, or kubernetes[:<namespace>]",
      ).env("SLUICE_SECRETS"),
    )
    .option(
      "--egress-environment <url>",
      "what the credentials of this environment may be used for by egress without a secret, such as s3://bucket/dir; may be repeated (default: nothing, env: SLUICE_EGRESS_ENVIRONMENT, with commas)",
      another,
    )
    .option(
      "--egress-local",
      "let egress reach stores at addresses of this machine and of its link (env: SLUICE_EGRESS_LOCAL)",
    )
    .option(
      "--wait-for-engine",
      "start although no container engine answers, and go on looking for one: jobs say what they wait for",
    )
    .option(
      "--cache-size <size>",
      "how much input the node keeps for later datums, such as 500m or 100g (default: 20g)",
    )
    .option(
      "--max-running <number>",
      "commands that run here at once, of all pipelines (default: 4 for each core, and at least 16)",
    )
    .option("--max-workers <number>", "workers here, those included that wait for work (default: 256)");
}

/** Adds the options that say how commands are run, and what they see and take of this machine. */
export function withSandboxTerms(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--executor <name>",
        "how commands are run: in containers of docker or podman, or as a process with this machine's tools and this user's rights; auto takes the first engine that answers",
      )
        .choices(EXECUTORS)
        .default("auto"),
    )
    .option(
      "--hide <path>",
      "a folder or file of this machine that commands which run as processes do not see; may be repeated. They never see the data folders, what --secrets names, /run/secrets and /etc/sluice",
      another,
    )
    .option(
      "--device <name>",
      "a device of this machine that commands which run as processes see, beside the usual ones and GPUs: fuse or kvm; may be repeated",
      another,
    )
    .option(
      "--network <name>",
      "the network of containers: none, host, bridge, or one that the engine has (default: the engine's own)",
    )
    .option("--memory <size>", "memory that one worker may take, such as 2g (default: no limit)")
    .option("--cpus <number>", "cores that one worker may take, such as 1.5 (default: no limit)")
    .option("--pids <number>", "processes and threads that one worker may have at a time (default: no limit)")
    .option("--disk <size>", "what a datum may write to /pfs/out, such as 10g (default: no limit)");
}

/**
 * A runner's settings for a gateway that the CLI has found; `host` names the node if no flag does, and `keySecret` the
 * secret that its key comes from. Throws ConfigError if a flag can't be used.
 */
export function runnerConfig(
  flags: RunnerFlags,
  {
    host,
    keySecret,
    ...connection
  }: Omit<Connection, "endpointSource" | "keySource"> & {
    readonly host?: string | undefined;
    readonly keySecret?: string | undefined;
  },
): RunnerConfig {
  return readRunnerConfig(flags, {
    SLUICE_ENDPOINT: connection.endpoint,
    SLUICE_ACCESS_KEY_ID: connection.accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: connection.secretAccessKey,
    SLUICE_NODE: host,
    SLUICE_KEY_SECRET: keySecret,
    SLUICE_EGRESS_ENVIRONMENT: process.env.SLUICE_EGRESS_ENVIRONMENT,
    SLUICE_EGRESS_LOCAL: process.env.SLUICE_EGRESS_LOCAL,
  });
}

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
