import type { LeasedDatum } from "../../protocol/runner.ts";
import type { Transform } from "../../protocol/spec.ts";

// All that a command gets of the agent's own environment: above all not its keys.
const PASSED_ON = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"];
const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface CommandEnvRequest {
  readonly pipeline: string;
  readonly datum: LeasedDatum;
  readonly transform: Transform;
  /** The agent's own environment. */
  readonly own: NodeJS.ProcessEnv;
}

type Variables = Record<string, string>;

/**
 * The environment of a datum's command: what every command has, then what the spec says, then what the datum is,
 * which wins as it does in Pachyderm. Only what every command has is safe from an input of the same name
 * (PATH, HOME, …). The `PACH_` names say the same as ours, for scripts that come from there.
 */
export function commandEnv({ pipeline, datum, transform, own }: CommandEnvRequest): Variables {
  const passedOn = PASSED_ON.flatMap((name) => (own[name] === undefined ? [] : [[name, own[name]]]));
  return {
    PATH: DEFAULT_PATH,
    ...Object.fromEntries(passedOn),
    ...transform.env,
    ...inputVariables(datum.inputs),
    SLUICE_PIPELINE: pipeline,
    SLUICE_JOB_ID: datum.job,
    SLUICE_DATUM_ID: datum.datum,
    PPS_PIPELINE_NAME: pipeline,
    PACH_JOB_ID: datum.job,
    PACH_DATUM_ID: datum.datum,
  };
}

/** Names of variables whose values are only true of this machine. A container has its own PATH and HOME. */
export function machineVariables({ env = {} }: Transform): string[] {
  return PASSED_ON.filter((name) => !(name in env));
}

/**
 * For each input the path of its match, under the input's name, and `<input>_COMMIT`. A shell can't use every name of
 * an input. So one with a dash, or with a digit in front, also has an alias with `_` for each dash, and with `_` before
 * the digit (`my-photos` as `my_photos`, `2024` as `_2024`), unless another input has that name.
 */
function inputVariables(inputs: LeasedDatum["inputs"]): Variables {
  const named = inputs.map(({ name, path, commit }) => ({
    name,
    value: path === "" ? `/pfs/${name}` : `/pfs/${name}/${path}`,
    commit,
  }));
  const aliases = named.map((input) => ({ ...input, name: shellName(input.name) }));
  // The names as they are come last: they win over an alias.
  const variables = [...aliases, ...named].flatMap(({ name, value, commit }) => [
    ...(PASSED_ON.includes(name) ? [] : [[name, value] as const]),
    [`${name}_COMMIT`, commit] as const,
  ]);
  return Object.fromEntries(variables);
}

function shellName(input: string): string {
  const name = input.replaceAll("-", "_");
  return /^[0-9]/.test(name) ? `_${name}` : name;
}

/** What the command reads: the lines of the spec, each with a newline at its end. Null if the spec gives no stdin. */
export function commandStdin({ stdin }: Transform): string | null {
  return stdin && stdin.length > 0 ? `${stdin.join("\n")}\n` : null;
}
