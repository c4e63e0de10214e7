import type { LeasedDatum } from "../protocol/runner.ts";
import type { Transform } from "../protocol/spec.ts";

// Of the agent's own environment a command gets these and no others: its keys are none of the command's business.
const PASSED_ON = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"];
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface CommandEnvRequest {
  readonly pipeline: string;
  readonly datum: LeasedDatum;
  readonly transform: Transform;
  /** The agent's own environment. */
  readonly own: NodeJS.ProcessEnv;
}

/**
 * The environment of a datum's command. For each input its path, under the input's name, and `<input>_COMMIT`; then
 * what every command has, so that an input called PATH does no harm; then what the spec says, which wins.
 */
export function commandEnv({ pipeline, datum, transform, own }: CommandEnvRequest): Record<string, string> {
  const inputs = datum.inputs.flatMap(({ name, path, commit }) => [
    [name, path === "" ? `/pfs/${name}` : `/pfs/${name}/${path}`],
    [`${name}_COMMIT`, commit],
  ]);
  const passedOn = PASSED_ON.flatMap((name) => (own[name] === undefined ? [] : [[name, own[name]]]));
  return {
    ...Object.fromEntries(inputs),
    PATH: DEFAULT_PATH,
    ...Object.fromEntries(passedOn),
    SLUICE_PIPELINE: pipeline,
    SLUICE_JOB_ID: datum.job,
    SLUICE_DATUM_ID: datum.datum,
    ...transform.env,
  };
}

/** What the command reads: each line ends in a newline (spec §2.2). Null where the spec gives no stdin. */
export function commandStdin({ stdin }: Transform): string | null {
  return stdin && stdin.length > 0 ? `${stdin.join("\n")}\n` : null;
}
