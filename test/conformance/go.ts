import { run, type Start } from "../support/processes.ts";

/** The oldest Go that builds what the suites need. */
const GO = { major: 1, minor: 26 };

/** Says that there is no Go here, or only one that is too old. */
export async function lacksGo(): Promise<string | undefined> {
  const version = await run(["go", "env", "GOVERSION"], { env: goEnv() }).catch(() => undefined);
  const [, major, minor] = /^go(\d+)\.(\d+)/.exec(version?.stdout.toString() ?? "") ?? [];
  const here = Number(major) === GO.major && Number(minor) >= GO.minor;
  return here ? undefined : `go ${GO.major}.${GO.minor}`;
}

/** Runs a command of Go that must end with 0; returns what it printed. */
export async function go(args: readonly string[], { cwd }: Pick<Start, "cwd">): Promise<string> {
  const { code, stdout, stderr } = await run(["go", ...args], {
    env: goEnv(),
    ...(cwd !== undefined && { cwd }),
  });
  if (code !== 0) throw new Error(`go ${args.join(" ")} ended with ${code}\n${stdout}\n${stderr}`);
  return stdout.toString();
}

/** Where Go keeps its modules and what it compiled, and how it reaches others: as it is set on this machine. */
export function goEnv(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) =>
    /^(GO[A-Z]*|HOME|.*_proxy|SSL_CERT_.*)$/i.test(name),
  );
  // The toolchain that is here: another would be fetched in silence.
  return { ...Object.fromEntries(kept.map(([name, value]) => [name, value ?? ""])), GOTOOLCHAIN: "local" };
}
