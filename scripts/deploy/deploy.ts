/**
 * A gateway is deployed in this order:
 *
 * 1. Look: the login, the account, the bundle, which secrets the Worker has. Nothing is changed, so what is missing is told
 *    before anything is half done.
 * 2. D1 and R2, by the names in wrangler.toml, if the account lacks them. A D1 with tables of another family ends the deploy.
 * 3. Migrations. The release that runs works on newer tables, the one that comes needs them.
 * 4. Secrets that the Worker lacks are made or taken from the environment, and shown before they are uploaded: if the
 *    connection is lost in the upload, the key that the gateway has by then is known all the same.
 * 5. Code and secrets, in one version.
 * 6. A test of what was deployed.
 *
 * Each step is skipped if it is done already, so a deploy that failed is begun anew. A secret that is there is never replaced.
 * The encryption key least of all: every access key in D1 is sealed with it, and none could be opened again.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { OTHER_FAMILY } from "../../protocol/family.ts";
import { Settings } from "../../protocol/settings.ts";
import type { Resources } from "./resources.ts";
import { type SmokeDeps, smoke } from "./smoke.ts";
import { Account, bundle, findAccounts, type RunWrangler } from "./wrangler.ts";

export interface DeployOptions {
  /** Of wrangler.toml; "" is its top level. */
  readonly environment: string;
  readonly resources: Resources;
  readonly dryRun: boolean;
  /** Do not ask whether to begin. */
  readonly yes: boolean;
}

export interface DeployDeps extends SmokeDeps {
  readonly run: RunWrangler;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Asks a person and returns the answer; undefined if nobody is there to answer. */
  readonly ask: ((question: string) => Promise<string>) | undefined;
  /** Opens the browser for a login. */
  readonly login: () => Promise<void>;
}

/** The deploy could not go on. `usage`: it lacks something that the caller must give. */
export class DeployError extends Error {
  override readonly name = "DeployError";
  readonly kind: "usage" | "failure";

  constructor(kind: "usage" | "failure", message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The secrets of a gateway, and what makes each if nobody gives one. */
const SECRETS = {
  SLUICE_ACCESS_KEY_ID: () => `root-${randomBytes(8).toString("hex")}`,
  SLUICE_SECRET_ACCESS_KEY: () => randomBytes(32).toString("base64url"),
  SLUICE_ENCRYPTION_KEY: () => randomBytes(32).toString("base64"),
} as const;
type SecretName = keyof typeof SECRETS;
const SECRET_NAMES = Object.keys(SECRETS) as SecretName[];

const GivenSecrets = z.object({
  SLUICE_ACCESS_KEY_ID: z.string().min(3, { error: "must have 3 characters at least" }).optional(),
  SLUICE_SECRET_ACCESS_KEY: z.string().min(8, { error: "must have 8 characters at least" }).optional(),
  SLUICE_ENCRYPTION_KEY: Settings.shape.SLUICE_ENCRYPTION_KEY,
});
type GivenSecrets = Partial<Record<SecretName, string>>;

const LOGIN = "log in with 'npx wrangler login', or set CLOUDFLARE_API_TOKEN";
const AGAIN = "Run it again when that is mended: what is done already is not done twice.";

/** Deploys the gateway, or with `dryRun` checks all that can be checked without an account. Throws a DeployError. */
export async function deploy(options: DeployOptions, deps: DeployDeps): Promise<void> {
  const given = givenSecrets(deps.env);
  if (!options.dryRun) refuseLocal(deps.env);
  const folder = mkdtempSync(join(tmpdir(), "sluice-deploy-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once("exit", remove);
  try {
    if (options.dryRun) await rehearse(options, { ...deps, folder });
    else await perform(options, { ...deps, folder, given });
  } finally {
    remove();
    process.off("exit", remove);
  }
}

async function rehearse(
  { environment, resources }: DeployOptions,
  { folder, ...deps }: DeployDeps & { folder: string },
): Promise<void> {
  const { worker, database, bucket, migrations } = resources;
  const size = await step("The Worker can't be bundled", () => bundle(deps.run, { environment, folder }));
  deps.say(`The Worker '${worker}' is bundled: ${size}.`);
  deps.say("A deploy would:");
  for (const line of [
    `look which account the login reaches, and which secrets the Worker has`,
    `make the database '${database}' (D1) and the bucket '${bucket}' (R2) if they are absent`,
    `apply the migrations that the database lacks, up to ${migrations.at(-1)}`,
    `make those of ${SECRET_NAMES.join(", ")} that the Worker lacks, and leave the others as they are`,
    `upload code and secrets as one version`,
    `ask GET /healthz and GET /readyz, then put, read and delete a file`,
  ]) {
    deps.say(`  - ${line}`);
  }
  deps.say("Nothing was changed, and no account was asked.");
}

async function perform(
  { environment, resources, yes }: DeployOptions,
  { folder, given, ...deps }: DeployDeps & { folder: string; given: GivenSecrets },
): Promise<void> {
  const { worker, database, bucket, jurisdiction, migrations } = resources;
  const { say } = deps;
  const accountId = await findAccount(deps);
  const size = await step("The Worker can't be bundled", () => bundle(deps.run, { environment, folder }));
  say(`the Worker '${worker}' is bundled: ${size}`);

  const account = new Account(deps.run, { accountId, environment });
  const there = await step("The secrets of the Worker can't be listed", () => account.secrets(worker));
  const before = there && (await step("What is deployed can't be looked at", () => account.jurisdiction()));
  refuseToMove(worker, { before, jurisdiction });
  const lacking = SECRET_NAMES.filter((name) => !there?.includes(name));
  const unknown = lacking.filter((name) => given[name] === undefined);
  if (!deps.ask) refuseUnknown(unknown);
  const what = there ? `the Worker '${worker}' gets a new version` : `a first deploy: '${worker}' is made`;
  say(`${what}, in the account ${accountId}`);
  if (deps.ask && !yes && !/^y(es)?$/i.test(await deps.ask("Go on? [y/N] "))) {
    throw new DeployError("usage", "Nothing was changed.");
  }

  await step("The database can't be made", async () => {
    const isThere = await account.hasDatabase(database);
    if (!isThere) await account.makeDatabase(database, jurisdiction);
    say(`D1 '${database}': ${isThere ? "is there" : "made"}`);
    if (isThere && (await account.family()) === "other") {
      throw new DeployError("failure", `D1 '${database}': ${OTHER_FAMILY} Nothing was deployed.`);
    }
  });
  await step("The bucket of R2 can't be made", async () => {
    say(`R2 '${bucket}': ${(await account.makeBucket(bucket, jurisdiction)) ? "made" : "is there"}`);
  });
  await step("A migration failed, and those before it stay applied", () => account.migrate());
  say(`migrations: applied up to ${migrations.at(-1)}`);

  const made = await makeSecrets({ lacking, given }, account);
  const shown = Object.entries(made).filter(([name]) => given[name as SecretName] === undefined);
  if (shown.length > 0) {
    say(
      "These are made for this gateway and shown once. Keep them: without the last one no backup of D1 can be used.",
    );
    for (const [name, value] of shown) say(`  ${name}=${value}`);
  }
  const taken = Object.keys(made).filter((name) => given[name as SecretName] !== undefined);
  if (taken.length > 0) say(`taken from the environment: ${taken.join(", ")}`);
  const output = join(folder, "output.ndjson");
  await step("The upload failed", async () => {
    const secretsFile = writeSecrets(made, folder);
    await account.upload({ output, ...(secretsFile && { secretsFile }) });
  });
  const { endpoint: told, version } = readOutput(output);
  const endpoint = (deps.env.SLUICE_ENDPOINT || told)?.replace(/\/+$/, "");
  say(`version ${version ?? "(unnamed)"} serves all requests`);
  if (endpoint === undefined) {
    throw new DeployError(
      "failure",
      "It is deployed, and has no address that wrangler tells: set SLUICE_ENDPOINT to the one that wrangler.toml gives it, and run this again to test it.",
    );
  }
  const { SLUICE_ACCESS_KEY_ID: accessKeyId, SLUICE_SECRET_ACCESS_KEY: secretAccessKey } = {
    ...given,
    ...made,
  };
  const rootKey = accessKeyId && secretAccessKey ? { accessKeyId, secretAccessKey } : undefined;
  await step("It is deployed, and does not pass the test", () => smoke({ endpoint, rootKey }, deps));
  sayNext(endpoint, say);
}

/** An object of another jurisdiction is another object: those of all branches would stay behind. */
function refuseToMove(
  worker: string,
  { before, jurisdiction = "" }: { before: string | undefined; jurisdiction: string | undefined },
): void {
  if (before === undefined || before === jurisdiction) return;
  const [is, was] = [jurisdiction, before].map((name) => (name ? `"${name}"` : "none"));
  throw new DeployError(
    "failure",
    `The Worker '${worker}' has its objects in the jurisdiction ${was}, and wrangler.toml names ${is}: all branches and pipelines would seem to be gone. Name ${was} again, or deploy under another name. Nothing was deployed.`,
  );
}

function sayNext(endpoint: string, say: DeployDeps["say"]): void {
  say(`\nThe gateway is at ${endpoint}. Next, with its root key:`);
  say(
    `  export SLUICE_ENDPOINT=${endpoint} SLUICE_ACCESS_KEY_ID=… SLUICE_SECRET_ACCESS_KEY=…\n  npx sluice mb s3://data\n  npx sluice key create --level runner --description runners`,
  );
}

/** Runs one step; what it fails with is told with what to do. */
async function step<T>(failure: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DeployError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new DeployError("failure", `${failure}: ${why}\n${AGAIN}`);
  }
}

/** `eval "$(sluice env)"` leaves the key of a gateway on this machine, which must not become that of the world's. */
function refuseLocal({ SLUICE_ENDPOINT: endpoint }: DeployDeps["env"]): void {
  if (!endpoint?.startsWith("http://")) return;
  throw new DeployError(
    "usage",
    `SLUICE_ENDPOINT is '${endpoint}', which is not on Cloudflare, so the keys in this environment are of another gateway: unset SLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY. Nothing was changed.`,
  );
}

function givenSecrets(env: DeployDeps["env"]): GivenSecrets {
  const set = SECRET_NAMES.flatMap((name) => (env[name] ? [[name, env[name]]] : []));
  const read = GivenSecrets.safeParse(Object.fromEntries(set));
  if (read.success) return Object.fromEntries(set);
  const problems = read.error.issues.map(({ path, message }) => `${path.join(".")} ${message}`);
  throw new DeployError("usage", problems.join("; "));
}

/** A secret that is made up must be read by a person, and not by the log of a CI job. */
function refuseUnknown(unknown: readonly SecretName[]): void {
  if (unknown.length === 0) return;
  throw new DeployError(
    "usage",
    `The Worker lacks ${unknown.join(", ")}. Without a terminal none is made up, since a log would keep it: set the variables ('openssl rand -base64 32' makes an encryption key), or deploy from a terminal once. Nothing was changed.`,
  );
}

async function findAccount({ run, env, ask, login, say }: DeployDeps): Promise<string> {
  let accounts = await step("The account can't be found", () => findAccounts(run));
  if (!accounts && ask) {
    await login();
    accounts = await step("The account can't be found", () => findAccounts(run));
  }
  if (!accounts)
    throw new DeployError("usage", `There is no login to Cloudflare: ${LOGIN}. Nothing was changed.`);
  const wanted = env.CLOUDFLARE_ACCOUNT_ID;
  if (wanted) return wanted;
  const [only, ...others] = accounts;
  if (!only) throw new DeployError("usage", `The login reaches no account: ${LOGIN}. Nothing was changed.`);
  if (others.length === 0) return only.id;
  const names = accounts.map(({ id, name }) => `  ${id}  ${name}`).join("\n");
  if (!ask) {
    throw new DeployError(
      "usage",
      `The login reaches several accounts: set CLOUDFLARE_ACCOUNT_ID to one of\n${names}`,
    );
  }
  say(`The login reaches several accounts:\n${names}`);
  const chosen = (await ask("The id of the one to deploy to: ")).trim();
  if (accounts.some(({ id }) => id === chosen)) return chosen;
  throw new DeployError("usage", `'${chosen}' is not among them. Nothing was changed.`);
}

async function makeSecrets(
  { lacking, given }: { lacking: readonly SecretName[]; given: GivenSecrets },
  account: Account,
): Promise<GivenSecrets> {
  if (lacking.includes("SLUICE_ENCRYPTION_KEY") && given.SLUICE_ENCRYPTION_KEY === undefined) {
    const keys = await step("Whether D1 has access keys can't be found out", () => account.countKeys());
    if (keys > 0) {
      throw new DeployError(
        "usage",
        `D1 has ${keys} access ${keys === 1 ? "key" : "keys"}, sealed with an encryption key that the Worker has no more. Set SLUICE_ENCRYPTION_KEY to that one: with a new one none of them could be opened again. If it is lost, set a new one yourself, then delete those keys and make others.`,
      );
    }
  }
  return Object.fromEntries(lacking.map((name) => [name, given[name] ?? SECRETS[name]()]));
}

/** Where only this user reads them, for as long as the upload takes. Undefined if there are none. */
function writeSecrets(secrets: GivenSecrets, folder: string): string | undefined {
  if (Object.keys(secrets).length === 0) return undefined;
  const file = join(folder, "secrets.json");
  writeFileSync(file, JSON.stringify(secrets), { mode: 0o600 });
  return file;
}

const Deployed = z.object({
  type: z.literal("deploy"),
  version_id: z.string().nullish(),
  targets: z.array(z.string()).nullish(),
});

/** What wrangler wrote of the deploy: a line of JSON for each thing that it did. */
function readOutput(file: string): { endpoint?: string | undefined; version?: string | undefined } {
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const told = Deployed.safeParse(line === "" ? undefined : JSON.parse(line));
    if (told.success) {
      const { targets, version_id: version } = told.data;
      return { endpoint: endpointOf(targets ?? []), version: version ?? undefined };
    }
  }
  return {};
}

/** A domain of one's own comes before that of workers.dev. A pattern is no address. */
function endpointOf(targets: readonly string[]): string | undefined {
  const own = targets.map((target) => /^([a-z0-9.-]+) \(custom domain/.exec(target)?.[1]).find(Boolean);
  if (own) return `https://${own}`;
  return targets.find((target) => target.startsWith("https://"));
}
