import { type RunnerConfig, type RunnerFlags, readRunnerConfig } from "../../runner/agent/config.ts";
import type { Connection } from "../gateway/connection.ts";

/**
 * A runner's settings for a gateway that the CLI has found; `host` is what the node is called where no flag names it.
 * Throws ConfigError where a flag can't be used.
 */
export function runnerConfig(
  flags: RunnerFlags,
  { host, ...connection }: Omit<Connection, "keySource"> & { readonly host?: string | undefined },
): RunnerConfig {
  return readRunnerConfig(flags, {
    SLUICE_ENDPOINT: connection.endpoint,
    SLUICE_ACCESS_KEY_ID: connection.accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: connection.secretAccessKey,
    SLUICE_NODE: host,
  });
}
