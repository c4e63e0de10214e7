import { z } from "zod";

/** What the platform binds to the Worker. Exactly one of BLOBS (R2) and DISK (embedded: workerd's disk service) is there. */
export type Env = Omit<Cloudflare.Env, "BLOBS"> &
  Partial<Pick<Cloudflare.Env, "BLOBS">> & {
    readonly DISK?: Fetcher;
    readonly SLUICE_ACCESS_KEY_ID?: string;
    readonly SLUICE_SECRET_ACCESS_KEY?: string;
  };

const Vars = z.object({
  SLUICE_ACCESS_KEY_ID: z.string().min(3),
  SLUICE_SECRET_ACCESS_KEY: z.string().min(8),
});

/** The variables of the Worker, checked. */
export interface Config {
  readonly rootKey: { readonly id: string; readonly secret: string };
}

/** Checks the variables once per isolate. There is no default key: a gateway is never open by accident (design §5). */
export function readConfig(env: Env): { ok: true; config: Config } | { ok: false; problem: string } {
  const vars = Vars.safeParse(env);
  if (!vars.success) {
    const names = vars.error.issues.map((issue) => issue.path.join(".")).join(", ");
    return { ok: false, problem: `set ${names}: missing or too short` };
  }
  return {
    ok: true,
    config: { rootKey: { id: vars.data.SLUICE_ACCESS_KEY_ID, secret: vars.data.SLUICE_SECRET_ACCESS_KEY } },
  };
}
