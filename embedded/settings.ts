import { rotationProblem, Settings } from "../protocol/settings.ts";

/** Variables of the gateway as the environment has them; the Worker reads them again. */
export type GatewaySettings = Partial<Record<keyof typeof Settings.shape, string>>;

/** Their values are not repeated. */
const SECRET = new Set([
  "SLUICE_ENCRYPTION_KEY",
  "SLUICE_ENCRYPTION_KEY_PREVIOUS",
  "SLUICE_SECRET_ACCESS_KEY_PREVIOUS",
]);

/**
 * The gateway's variables that an environment sets, checked so that a bad one is told at the start. An empty one
 * counts as not set.
 */
export function readSettings(
  env: Readonly<Record<string, string | undefined>>,
): { ok: true; settings: GatewaySettings } | { ok: false; problem: string } {
  const set = Object.keys(Settings.shape).flatMap((name) => (env[name] ? [[name, env[name]]] : []));
  const settings: GatewaySettings = Object.fromEntries(set);
  const checked = Settings.safeParse(settings);
  if (checked.success) {
    // The data folder has an encryption key if the environment has none.
    const problem = rotationProblem({
      SLUICE_ENCRYPTION_KEY: "kept",
      SLUICE_ACCESS_KEY_ID: env.SLUICE_ACCESS_KEY_ID,
      ...settings,
    });
    return problem === undefined ? { ok: true, settings } : { ok: false, problem };
  }
  const problems = checked.error.issues.map(({ path, message }) => {
    const name = path.join(".");
    return SECRET.has(name) ? `${name} ${message}` : `${name} is '${env[name]}': it ${message}`;
  });
  return { ok: false, problem: problems.join("; ") };
}
