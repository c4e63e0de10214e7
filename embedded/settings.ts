import { Settings } from "../protocol/settings.ts";

/** Variables of the gateway as the environment has them; the Worker reads them again. */
export type GatewaySettings = Partial<Record<keyof typeof Settings.shape, string>>;

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
  if (checked.success) return { ok: true, settings };
  const problems = checked.error.issues.map(({ path, message }) => {
    const name = path.join(".");
    return name === "SLUICE_ENCRYPTION_KEY"
      ? `${name} ${message}`
      : `${name} is '${env[name]}': it ${message}`;
  });
  return { ok: false, problem: problems.join("; ") };
}
