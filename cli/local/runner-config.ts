import { type RunnerConfig, type RunnerFlags, readRunnerConfig } from "../../runner/agent/config.ts";
import type { Door } from "../gateway/door.ts";

/**
 * A runner's settings for a gateway that the CLI has found; `host` is what the node is called where no flag names it.
 * Throws ConfigError where a flag can't be used.
 */
export function runnerConfig(
  flags: RunnerFlags,
  { host, ...door }: Omit<Door, "keySource"> & { readonly host?: string | undefined },
): RunnerConfig {
  return readRunnerConfig(flags, {
    SLUICE_ENDPOINT: door.endpoint,
    SLUICE_ACCESS_KEY_ID: door.accessKeyId,
    SLUICE_SECRET_ACCESS_KEY: door.secretAccessKey,
    SLUICE_NODE: host,
  });
}
