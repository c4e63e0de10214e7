import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type DeployOptions, deploy } from "../../../scripts/deploy/deploy.ts";
import { readResources } from "../../../scripts/deploy/resources.ts";
import { Account, type RunWrangler, runWrangler } from "../../../scripts/deploy/wrangler.ts";
import { ROOT } from "../../support/dev-server.ts";
import { run } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";
import { FakeApi } from "./support/fake-api.ts";
import { FakeCloudflare } from "./support/fake-cloudflare.ts";

const OPTIONS: DeployOptions = {
  environment: "",
  resources: {
    worker: "sluice",
    database: "sluice",
    bucket: "sluice-blobs",
    migrations: ["0001_a.sql", "0002_b.sql"],
  },
  dryRun: false,
  yes: false,
};
const SECRETS = ["SLUICE_ACCESS_KEY_ID", "SLUICE_SECRET_ACCESS_KEY", "SLUICE_ENCRYPTION_KEY"];
const CHANGES = /^(d1 create|r2|d1 migrations|deploy(?!ments| --dry-run))/;

function changes({ calls }: FakeCloudflare): string[] {
  return calls.filter((call) => CHANGES.test(call));
}

/** What a first deploy leaves. */
async function deployed(): Promise<FakeCloudflare> {
  const cloud = new FakeCloudflare();
  await deploy(OPTIONS, cloud.deps(["y"]));
  cloud.calls.length = 0;
  cloud.said.length = 0;
  return cloud;
}

describe("npm run deploy", () => {
  test("makes on an empty account what the gateway needs, in the order that is safe, and tries it", async () => {
    const cloud = new FakeCloudflare();
    await deploy(OPTIONS, cloud.deps(["y"]));
    expect(cloud.calls).toEqual([
      "whoami --json",
      "deploy --dry-run --outdir <file>",
      "secret list --format json",
      "d1 list --json",
      "d1 create sluice",
      "r2 bucket create sluice-blobs",
      "d1 migrations apply DB --remote",
      "d1 execute DB --remote --json --command SELECT count(*) AS n FROM access_keys",
      "deploy --secrets-file <file>",
    ]);
    expect(Object.keys(cloud.secrets ?? {}).sort()).toEqual([...SECRETS].sort());
    const said = cloud.said.join("\n");
    for (const [name, value] of Object.entries(cloud.secrets ?? {})) {
      expect(said.split(`${name}=${value}`)).toHaveLength(2);
    }
    expect(said).toContain("a file was put, read and deleted by S3");
    expect(said).toContain("The gateway is at https://sluice.example.workers.dev.");
    expect(cloud.said.at(-1)?.split("\n")).toHaveLength(3);
  });

  test("makes the database and the bucket in the jurisdiction that wrangler.toml names", async () => {
    const cloud = new FakeCloudflare();
    const resources = { ...OPTIONS.resources, jurisdiction: "eu" };
    await deploy({ ...OPTIONS, resources }, cloud.deps(["y"]));
    expect(changes(cloud).slice(0, 2)).toEqual([
      "d1 create sluice --jurisdiction eu",
      "r2 bucket create sluice-blobs --jurisdiction eu",
    ]);
  });

  test.each([
    ["eu", undefined, 'in the jurisdiction "eu", and wrangler.toml names none'],
    [undefined, "eu", 'in the jurisdiction none, and wrangler.toml names "eu"'],
    ["eu", "us", 'in the jurisdiction "eu", and wrangler.toml names "us"'],
  ])("ends if objects are in %s and are to be in %s, and changes nothing", async (before, after, words) => {
    const cloud = await deployed();
    cloud.jurisdiction = before;
    const moved = { ...OPTIONS, resources: { ...OPTIONS.resources, jurisdiction: after } };
    const refused = expect.stringMatching(`${words}.*Nothing was deployed`);
    await expect(deploy(moved, cloud.deps(["y"]))).rejects.toMatchObject({
      kind: "failure",
      message: refused,
    });
    expect(changes(cloud)).toEqual([]);
    const same = { ...OPTIONS, resources: { ...OPTIONS.resources, jurisdiction: before } };
    await deploy(same, cloud.deps(["y"]));
    expect(changes(cloud).at(-1)).toBe("deploy");
  });

  test("takes none that the bucket does not have, too", () => {
    const toml = (vars: string, bucket: string): string => {
      const text = readFileSync(join(ROOT, "wrangler.toml"), "utf8");
      const file = join(scratchFolder(), "wrangler.toml");
      writeFileSync(file, text.replace("[[r2_buckets]]", `${vars}\n[[r2_buckets]]\n${bucket}`));
      return file;
    };
    const vars = '[vars]\nSLUICE_JURISDICTION = "eu"';
    expect(readResources("", toml(vars, 'jurisdiction = "eu"')).jurisdiction).toBe("eu");
    expect(readResources("", toml("", "")).jurisdiction).toBeUndefined();
    for (const file of [toml(vars, ""), toml("", 'jurisdiction = "eu"')]) {
      expect(() => readResources("", file)).toThrow(
        /SLUICE_JURISDICTION = .*of the bucket BLOBS: both must be the same/,
      );
    }
  });

  test("makes and shows no secret a second time, and replaces none", async () => {
    const cloud = await deployed();
    const secrets = { ...cloud.secrets };
    await deploy(OPTIONS, cloud.deps(["y"]));
    expect(cloud.secrets).toEqual(secrets);
    expect(changes(cloud)).toEqual([
      "r2 bucket create sluice-blobs",
      "d1 migrations apply DB --remote",
      "deploy",
    ]);
    for (const value of Object.values(secrets)) expect(cloud.said.join("\n")).not.toContain(value);
    expect(cloud.said.join("\n")).toContain("no file was put: the root key is not known here");
  });

  test.each([
    ["tables from before there were families", ["_cf_KV", "d1_migrations", "branches"], ""],
    ["those of a family to come", ["branches", "family"], "sluice-2"],
  ])("ends at a D1 with %s, says what to carry over, and neither migrates nor deploys", async (_, tables, family) => {
    const cloud = await deployed();
    Object.assign(cloud, { tables, family });
    await expect(deploy(OPTIONS, cloud.deps(["y"]))).rejects.toMatchObject({
      kind: "failure",
      message: expect.stringMatching(
        /code from before the first release.*'sluice key export'.*Nothing was deployed/,
      ),
    });
    expect(changes(cloud)).toEqual([]);
  });

  test("never replaces a secret by what the environment has", async () => {
    const cloud = await deployed();
    const { SLUICE_ENCRYPTION_KEY, SLUICE_SECRET_ACCESS_KEY, SLUICE_ACCESS_KEY_ID } = cloud.secrets ?? {};
    const env = {
      SLUICE_ENCRYPTION_KEY: Buffer.alloc(32).toString("base64"),
      SLUICE_ACCESS_KEY_ID: `${SLUICE_ACCESS_KEY_ID}`,
      SLUICE_SECRET_ACCESS_KEY: "another-secret",
    };
    await deploy(OPTIONS, cloud.deps(undefined, env));
    expect(cloud.secrets).toEqual({ SLUICE_ENCRYPTION_KEY, SLUICE_SECRET_ACCESS_KEY, SLUICE_ACCESS_KEY_ID });
  });

  test("takes secrets from the environment, asks nobody then, and does not repeat them", async () => {
    const cloud = new FakeCloudflare();
    const env = {
      SLUICE_ACCESS_KEY_ID: "the-root",
      SLUICE_SECRET_ACCESS_KEY: "the-root-secret",
      SLUICE_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString("base64"),
    };
    await deploy(OPTIONS, cloud.deps(undefined, env));
    expect(cloud.secrets).toEqual(env);
    expect(cloud.said.join("\n")).not.toContain("the-root-secret");
    expect(cloud.said.join("\n")).not.toContain(env.SLUICE_ENCRYPTION_KEY);
  });

  test("makes up no secret if only a log would see it, and changes nothing", async () => {
    const cloud = new FakeCloudflare();
    await expect(deploy(OPTIONS, cloud.deps())).rejects.toMatchObject({
      kind: "usage",
      message: expect.stringMatching(
        /SLUICE_ACCESS_KEY_ID, .*Without a terminal none is made up.*Nothing was changed/,
      ),
    });
    expect(changes(cloud)).toEqual([]);
  });

  test("refuses the keys of a gateway on this machine, and bad ones by their names", async () => {
    const cloud = new FakeCloudflare();
    const local = { SLUICE_ENDPOINT: "http://127.0.0.1:9000", SLUICE_ACCESS_KEY_ID: "local" };
    await expect(deploy(OPTIONS, cloud.deps(["y"], local))).rejects.toThrow("unset SLUICE_ENDPOINT");
    const bad = { SLUICE_ENCRYPTION_KEY: "short" };
    await expect(deploy(OPTIONS, cloud.deps(["y"], bad))).rejects.toThrow(
      "SLUICE_ENCRYPTION_KEY must be the base64 of 32 bytes",
    );
    expect(cloud.calls).toEqual([]);
  });

  test("changes nothing if the person does not say yes", async () => {
    const cloud = new FakeCloudflare();
    await expect(deploy(OPTIONS, cloud.deps(["n"]))).rejects.toThrow("Nothing was changed");
    expect(changes(cloud)).toEqual([]);
    await deploy({ ...OPTIONS, yes: true }, cloud.deps([]));
    expect(cloud.secrets).toBeDefined();
  });

  test("logs in if somebody is there to do it, and asks which of several accounts", async () => {
    const cloud = new FakeCloudflare();
    cloud.loggedIn = false;
    await expect(deploy(OPTIONS, cloud.deps())).rejects.toThrow("CLOUDFLARE_API_TOKEN");
    cloud.accounts = [
      { id: "account-1", name: "The first" },
      { id: "account-2", name: "The second" },
    ];
    await deploy(OPTIONS, cloud.deps(["account-2", "y"]));
    expect(cloud.said.join("\n")).toContain("in the account account-2");
    await expect(deploy(OPTIONS, cloud.deps())).rejects.toThrow("set CLOUDFLARE_ACCOUNT_ID to one of");
    await expect(deploy(OPTIONS, cloud.deps(["account-3"]))).rejects.toThrow("'account-3' is not among them");
  });

  test.each([
    ["whoami", "The account can't be found"],
    ["deploy --dry-run", "The Worker can't be bundled"],
    ["secret list", "The secrets of the Worker can't be listed"],
    ["d1 list", "The database can't be made"],
    ["d1 create", "The database can't be made"],
    ["r2 bucket create", "The bucket of R2 can't be made"],
    ["d1 migrations apply", "A migration failed, and those before it stay applied"],
    ["d1 execute", "Whether D1 has access keys can't be found out"],
    ["deploy --secrets-file", "The upload failed"],
  ])("says what failed if '%s' does, and is done by the next run, nothing twice", async (command, words) => {
    const cloud = new FakeCloudflare();
    cloud.failing.set(command, { stderr: "fetch failed: the network is away" });
    const failing = deploy(OPTIONS, cloud.deps(["y"]));
    await expect(failing).rejects.toMatchObject({ kind: "failure" });
    await expect(failing).rejects.toThrow(words);
    await expect(failing).rejects.toThrow("the network is away");
    await expect(failing).rejects.toThrow("Run it again when that is mended");
    await deploy(OPTIONS, cloud.deps(["y"]));
    expect(cloud.calls.filter((call) => call === "d1 create sluice")).toHaveLength(
      command === "d1 create" ? 2 : 1,
    );
    expect(Object.keys(cloud.secrets ?? {})).toHaveLength(3);
  });

  test("keeps the keys that it showed if the answer to the upload is lost", async () => {
    const cloud = new FakeCloudflare();
    cloud.failing.set("deploy --secrets-file", { stderr: "socket hang up", after: true });
    await expect(deploy(OPTIONS, cloud.deps(["y"]))).rejects.toThrow("socket hang up");
    const secrets = { ...cloud.secrets };
    for (const value of Object.values(secrets)) expect(cloud.said.join("\n")).toContain(value);
    await deploy(OPTIONS, cloud.deps(["y"]));
    expect(cloud.secrets).toEqual(secrets);
  });

  test("does not take an answer that it can't read for a Worker without secrets", async () => {
    const cloud = await deployed();
    const secrets = { ...cloud.secrets };
    cloud.failing.set("secret list", { stderr: "Authentication error [code: 10000]" });
    await expect(deploy(OPTIONS, cloud.deps(["y"]))).rejects.toThrow("Authentication error");
    expect(changes(cloud)).toEqual([]);
    expect(cloud.secrets).toEqual(secrets);
  });

  test("makes no new encryption key over access keys that are sealed with another one", async () => {
    const cloud = await deployed();
    cloud.keys = 2;
    cloud.secrets = undefined;
    await expect(deploy(OPTIONS, cloud.deps(["y"]))).rejects.toThrow(
      /D1 has 2 access keys, sealed with an encryption key that the Worker has no more/,
    );
    expect(cloud.secrets).toBeUndefined();
  });

  test("says what a gateway lacks that does not become ready, and can be run again", async () => {
    const cloud = new FakeCloudflare();
    cloud.becomeUnready();
    await expect(deploy(OPTIONS, cloud.deps(["y"]))).rejects.toThrow(
      /It is deployed, and does not pass the test: the gateway is not ready: blobs: R2 is away. Look at R2./,
    );
    cloud.becomeReady();
    await deploy(OPTIONS, cloud.deps(["y"]));
    expect(cloud.said.at(-1)).toContain("npx sluice mb s3://data");
  });
});

describe("npm run deploy -- --dry-run", { timeout: 180_000 }, () => {
  test(
    "checks both environments of wrangler.toml from an empty HOME: no account, no terminal, no variable",
    REST,
    async () => {
      for (const [environment, worker] of [
        [[], "sluice"],
        [["--env", "staging"], "sluice-staging"],
      ] as const) {
        const command = ["npm", "run", "--silent", "deploy", "--", "--dry-run", ...environment];
        const ended = await run(command, { cwd: ROOT, env: { HOME: scratchFolder() } });
        expect(ended).toMatchObject({ code: 0, stderr: "" });
        const text = ended.stdout.toString();
        expect(text).toMatch(new RegExp(`^The Worker '${worker}' is bundled: .* gzip`));
        expect(text).toContain("Nothing was changed, and no account was asked.");
      }
    },
  );

  test("names the environments if there is none of that name", REST, async () => {
    const command = [process.execPath, "scripts/deploy.ts", "--dry-run", "--env", "prod"];
    const { code, stderr } = await run(command, { cwd: ROOT, env: { HOME: scratchFolder() } });
    expect([code, stderr]).toEqual([2, "error: wrangler.toml has no environment 'prod': it has staging\n"]);
  });
});

describe("wrangler itself, against an account that is empty", { timeout: 180_000 }, () => {
  test(
    "is told to make what the gateway needs by name, and to upload it with its secrets and limits",
    REST,
    async () => {
      const api = new FakeApi();
      const variables = { ...(await api.start()), HOME: scratchFolder() };
      const run: RunWrangler = (args, env) => runWrangler(args, { ...env, ...variables });
      const cloud = new FakeCloudflare();
      // What follows the upload needs a gateway.
      const deps = { ...cloud.deps(["y"]), run, fetch: () => Promise.reject(new Error("nobody answers")) };
      // Loads all of wrangler, which the other tests do without.
      const { readResources } = await import("../../../scripts/deploy/resources.ts");
      const resources = readResources("");
      await expect(deploy({ ...OPTIONS, resources }, deps)).rejects.toThrow(
        "https://sluice.example.workers.dev/healthz does not answer: nobody answers",
      );
      expect(api.unexpected).toEqual([]);
      expect(api.migrations).toEqual(resources.migrations);
      expect([...api.buckets]).toEqual(["sluice-blobs"]);
      const bindings = api.uploaded?.bindings ?? [];
      expect(bindings).toContainEqual({ name: "DB", type: "d1", id: expect.stringMatching(/^1{8}-/) });
      expect(bindings).toContainEqual({ name: "BLOBS", type: "r2_bucket", bucket_name: "sluice-blobs" });
      expect(bindings.filter(({ type }) => type === "secret_text").map(({ name }) => name)).toEqual(SECRETS);
      expect(bindings).toContainEqual({ name: "VERSION", type: "version_metadata" });
      expect(api.uploaded?.limits).toEqual({ cpu_ms: 120_000, subrequests: 1_000_000 });
      expect(api.uploaded?.observability).toMatchObject({ enabled: true, head_sampling_rate: 1 });
      expect([api.hasSourceMaps, api.previews]).toEqual([true, false]);

      // That there is no Worker was understood above. Anything else must not pass for that, nor secrets that are there.
      const account = new Account(run, { accountId: "account-1", environment: "" });
      expect(await account.secrets("sluice")).toEqual(SECRETS);
      expect(await account.jurisdiction()).toBe("");
      const text = { name: "SLUICE_JURISDICTION", type: "plain_text", text: "eu" };
      api.uploaded = { ...api.uploaded, bindings: [...bindings, text] } as never;
      expect(await account.jurisdiction()).toBe("eu");
      api.uploaded = undefined;
      expect(await account.jurisdiction()).toBeUndefined();
      api.uploaded = { bindings } as never;
      api.secretsFault = { code: 10000, message: "Authentication error" };
      await expect(account.secrets("sluice")).rejects.toThrow("Authentication error");
      await api.stop();
    },
  );
});
