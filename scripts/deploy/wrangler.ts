import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { z } from "zod";
import { familyOf } from "../../protocol/family.ts";

/** What a command of wrangler came to. */
export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs one command of wrangler to its end. It asks nothing, since it has no terminal. */
export type RunWrangler = (args: readonly string[], env?: Readonly<Record<string, string>>) => Promise<Ran>;

const ROOT = join(import.meta.dirname, "../..");

/** Wrangler as the lockfile has it. */
export const runWrangler: RunWrangler = (args, env = {}) => {
  const program = join(ROOT, "node_modules/wrangler/bin/wrangler.js");
  const child = spawn(process.execPath, [program, ...args], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
    // CI: it never asks, and never writes ids into wrangler.toml.
    env: { ...process.env, CI: "1", WRANGLER_HIDE_BANNER: "true", WRANGLER_SEND_METRICS: "false", ...env },
  });
  return endOf(child);
};

function endOf(child: ChildProcess): Promise<Ran> {
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, stdout, stderr }));
  });
}

/** A command of wrangler that did not do what it should. */
class WranglerError extends Error {
  override readonly name = "WranglerError";
}

const Accounts = z.object({ accounts: z.array(z.object({ id: z.string(), name: z.string() })) });
const Databases = z.array(z.object({ name: z.string() }));
const Secrets = z.array(z.object({ name: z.string() }));
const Named = z.tuple([z.object({ results: z.array(z.object({ name: z.string() })) })]);
const Deployed = z.object({ versions: z.array(z.object({ version_id: z.string() })).min(1) });
const Version = z.object({
  resources: z.object({ bindings: z.array(z.object({ name: z.string(), text: z.string().optional() })) }),
});
const Counted = z.tuple([z.object({ results: z.tuple([z.object({ n: z.int() })]) })]);

/** What an account of Cloudflare is asked and told. Whatever wrangler does not say clearly is an error, never a "no". */
export class Account {
  readonly #run: RunWrangler;
  readonly #env: Readonly<Record<string, string>>;
  readonly #environment: string;

  constructor(
    run: RunWrangler,
    { accountId, environment }: { readonly accountId: string; readonly environment: string },
  ) {
    this.#run = run;
    this.#env = { CLOUDFLARE_ACCOUNT_ID: accountId };
    this.#environment = environment;
  }

  /** The names of a Worker's secrets; undefined if there is no such Worker. */
  async secrets(worker: string): Promise<readonly string[] | undefined> {
    const ran = await this.#call(["secret", "list", "--format", "json"]);
    if (ran.code === 0) return jsonOf(Secrets, ran).map(({ name }) => name);
    if (textOf(ran).includes(`Worker "${worker}"`) && /\bnot found\b/.test(textOf(ran))) return undefined;
    throw failed("wrangler secret list", ran);
  }

  /** The jurisdiction of the objects of the Worker that is deployed, "" if they are in none; undefined if none was ever deployed. */
  async jurisdiction(): Promise<string | undefined> {
    const ran = await this.#call(["deployments", "status", "--json"]);
    if (ran.code !== 0 && textOf(ran).includes("has no deployments")) return undefined;
    if (ran.code !== 0) throw failed("wrangler deployments status", ran);
    const [{ version_id: version } = { version_id: "" }] = jsonOf(Deployed, ran).versions;
    const { resources } = jsonOf(Version, await this.#must(["versions", "view", version, "--json"]));
    return resources.bindings.find(({ name }) => name === "SLUICE_JURISDICTION")?.text ?? "";
  }

  async hasDatabase(name: string): Promise<boolean> {
    const ran = await this.#must(["d1", "list", "--json"]);
    return jsonOf(Databases, ran).some((database) => database.name === name);
  }

  async makeDatabase(name: string, jurisdiction: string | undefined): Promise<void> {
    await this.#must(["d1", "create", name, ...within(jurisdiction)]);
  }

  /** Returns whether it was made; false if the account has it already. */
  async makeBucket(name: string, jurisdiction: string | undefined): Promise<boolean> {
    const ran = await this.#call(["r2", "bucket", "create", name, ...within(jurisdiction)]);
    if (ran.code === 0) return true;
    // Its code for a bucket of that name in this very account.
    if (/\[code: 10004\]/.test(textOf(ran))) return false;
    throw failed("wrangler r2 bucket create", ran);
  }

  async migrate(): Promise<void> {
    await this.#must(["d1", "migrations", "apply", "DB", "--remote"]);
  }

  /** How many access keys the database has, each sealed with an encryption key. */
  async countKeys(): Promise<number> {
    return jsonOf(Counted, await this.#ask("SELECT count(*) AS n FROM access_keys"))[0].results[0].n;
  }

  /** Of what family the tables of the database are. */
  async family(): Promise<ReturnType<typeof familyOf>> {
    const tables = jsonOf(Named, await this.#ask("SELECT name FROM sqlite_master WHERE type = 'table'"));
    const names = tables[0].results.map(({ name }) => name);
    const words = names.includes("family")
      ? jsonOf(Named, await this.#ask("SELECT word AS name FROM family"))[0].results
      : [];
    return familyOf(names, () => words[0]?.name);
  }

  async #ask(query: string): Promise<Ran> {
    return await this.#must(["d1", "execute", "DB", "--remote", "--json", "--command", query]);
  }

  /** Uploads code and secrets as one version, and sends all requests there. `output` is where wrangler tells of it. */
  async upload({ secretsFile, output }: { secretsFile?: string; output: string }): Promise<void> {
    const secrets = secretsFile === undefined ? [] : ["--secrets-file", secretsFile];
    await this.#must(["deploy", ...secrets], { WRANGLER_OUTPUT_FILE_PATH: output });
  }

  async #must(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ran> {
    const ran = await this.#call(args, env);
    if (ran.code !== 0) throw failed(`wrangler ${args.slice(0, 3).join(" ")}`, ran);
    return ran;
  }

  #call(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> {
    return this.#run([...args, `--env=${this.#environment}`], { ...this.#env, ...env });
  }
}

function within(jurisdiction: string | undefined): string[] {
  return jurisdiction === undefined ? [] : ["--jurisdiction", jurisdiction];
}

/** The accounts that the login of this machine reaches; undefined if there is no login. */
export async function findAccounts(
  run: RunWrangler,
): Promise<readonly { readonly id: string; readonly name: string }[] | undefined> {
  const ran = await run(["whoami", "--json"]);
  if (ran.code === 0) return jsonOf(Accounts, ran).accounts;
  if (/"loggedIn":\s*false/.test(textOf(ran))) return undefined;
  throw failed("wrangler whoami", ran);
}

/** Makes the Worker's bundle in a folder, without an account. Returns what wrangler says of its size. */
export async function bundle(
  run: RunWrangler,
  { environment, folder }: { readonly environment: string; readonly folder: string },
): Promise<string> {
  const ran = await run(["deploy", "--dry-run", "--outdir", folder, `--env=${environment}`]);
  if (ran.code !== 0) throw failed("wrangler deploy --dry-run", ran);
  return /Total Upload: (.+)/.exec(ran.stdout)?.[1] ?? "its size is not known";
}

function jsonOf<T>(schema: z.ZodType<T>, { stdout, stderr }: Ran): T {
  // Advice may stand before it.
  const from = stdout.search(/^[[{]/m);
  try {
    return schema.parse(JSON.parse(stdout.slice(Math.max(from, 0))));
  } catch {
    throw new WranglerError(`wrangler's answer can't be read:\n${stdout}${stderr}`);
  }
}

function textOf({ stdout, stderr }: Ran): string {
  return `${stdout}\n${stderr}`;
}

function failed(command: string, ran: Ran): WranglerError {
  return new WranglerError(`'${command}' ended with ${ran.code}:\n${textOf(ran).trim()}`);
}
