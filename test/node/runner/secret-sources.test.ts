import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ConfigError } from "../../../runner/lib/fault.ts";
import { findTool } from "../../../runner/lib/system-calls.ts";
import { folderSecrets } from "../../../runner/secrets/folder.ts";
import { kubernetesSecrets } from "../../../runner/secrets/kubernetes.ts";
import { checkSecretsFolder, openSecrets, remembered } from "../../../runner/secrets/open.ts";
import {
  type KeptSecret,
  type Secret,
  SecretMissing,
  type SecretSource,
  type SecretStore,
} from "../../../runner/secrets/source.ts";
import { FakeKubernetes } from "./support/fake-kubernetes.ts";

const signal = new AbortController().signal;
const noOpenssl = (await findTool("openssl")) === undefined;
type Keys = Record<string, string | Buffer>;

/** A store, a way to put secrets there, and the words that say where it looks. */
interface Bench {
  readonly source: SecretStore;
  put(name: string, keys: Keys): Promise<void>;
  /** Says beside a secret which pipelines it serves. */
  scope(name: string, text: string): Promise<void>;
  /** What a refusal calls the place of the scope. */
  scopePlace(name: string): string;
  where(name: string): string;
  close(): Promise<void>;
}

async function folderBench(): Promise<Bench> {
  const dir = await mkdtemp(join(tmpdir(), "sluice-secrets-"));
  return {
    source: folderSecrets(dir),
    put: async (name, keys) => {
      await rm(join(dir, name), { recursive: true, force: true });
      await mkdir(join(dir, name));
      for (const [key, value] of Object.entries(keys)) await writeFile(join(dir, name, key), value);
    },
    scope: (name, text) => writeFile(join(dir, `${name}.pipelines`), text),
    scopePlace: (name) => join(dir, `${name}.pipelines`),
    where: (name) => join(dir, name),
    close: () => rm(dir, { recursive: true }),
  };
}

async function kubernetesBench(): Promise<Bench> {
  const cluster = await FakeKubernetes.start();
  const { KUBECONFIG } = process.env;
  process.env.KUBECONFIG = await cluster.kubeconfig({ namespace: "team" });
  return {
    source: kubernetesSecrets({ retryAfterMs: 1 }),
    put: async (name, keys) => void cluster.secrets.set(`team/${name}`, keys),
    scope: async (name, text) => {
      cluster.annotations.set(`team/${name}`, { "sluice/pipelines": text });
    },
    scopePlace: () => "its annotation sluice/pipelines",
    where: () => `in namespace "team" of the Kubernetes cluster at ${cluster.address}`,
    close: async () => {
      restore("KUBECONFIG", KUBECONFIG);
      await cluster.close();
    },
  };
}

function restore(variable: string, value: string | undefined): void {
  if (value === undefined) delete process.env[variable];
  else process.env[variable] = value;
}

const SOURCES = [
  { name: "a folder", open: folderBench, absent: false },
  { name: "Kubernetes", open: kubernetesBench, absent: noOpenssl },
];

for (const { name, open, absent } of SOURCES) {
  describe.skipIf(absent)(`secrets of ${name}${name === "Kubernetes" ? " (openssl)" : ""}`, () => {
    let bench: Bench;
    beforeAll(async () => {
      bench = await open();
    });
    afterAll(() => bench.close());
    const read = async (secret: string) => (await bench.source.read(secret, signal)).secret;

    test("says what its owner wrote beside it, or that nothing is there", async () => {
      await bench.put("scoped", { key: "v" });
      const where = bench.scopePlace("scoped");
      expect((await bench.source.read("scoped", signal)).scope).toEqual({ text: undefined, where });
      await bench.scope("scoped", "edges");
      expect((await bench.source.read("scoped", signal)).scope).toEqual({ text: "edges", where });
    });

    test("a secret has its keys and their bytes, whatever these are", async () => {
      const keys = { user: "me", empty: "", "a.b-c_D": "line\n", ".hidden": "h", blob: randomBytes(100_000) };
      await bench.put("key", keys);
      expect(plain(await read("key"))).toEqual(
        Object.fromEntries(Object.entries(keys).map(([key, value]) => [key, Buffer.from(value)])),
      );
    });

    test("a secret without keys is empty", async () => {
      await bench.put("none", {});
      expect(plain(await read("none"))).toEqual({});
    });

    test("one that is not there is missing, and the reason says where it was looked for", async () => {
      const reading = read("absent");
      await expect(reading).rejects.toBeInstanceOf(SecretMissing);
      await expect(reading).rejects.toThrow('secret "absent" is not there');
      await expect(reading).rejects.toThrow(bench.where("absent"));
    });

    test("one that was replaced is read anew", async () => {
      await bench.put("turning", { key: "1" });
      await read("turning");
      await bench.put("turning", { key: "2" });
      expect(plain(await read("turning"))).toEqual({ key: Buffer.from("2") });
    });

    test("one that is too large is refused, and no byte of it is in the reason", async () => {
      await bench.put("large", { key: "hush".repeat(300_000) });
      const fault: unknown = await read("large").catch((error: unknown) => error);
      expect(fault).toBeInstanceOf(SecretMissing);
      expect(String(fault)).toContain("holds more than 1048576 bytes");
      expect(String(fault)).not.toContain("hush");
    });

    test("an aborted question ends", async () => {
      await bench.put("key", { key: "v" });
      await expect(bench.source.read("key", AbortSignal.abort())).rejects.toThrow("aborted");
    });
  });
}

/** What the store gives for a name. */
async function keysOf(store: SecretStore, name: string): Promise<Record<string, Buffer>> {
  return plain((await store.read(name, signal)).secret);
}

function plain(secret: Secret): Record<string, Buffer> {
  return Object.fromEntries([...secret].map(([key, value]) => [key, Buffer.from(value)]));
}

describe("secrets of a folder", () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "sluice-secrets-"));
  });
  afterEach(() => rm(dir, { recursive: true }));
  const read = (name: string) => folderSecrets(dir).read(name, signal);

  test("one that Kubernetes has mounted is read through its links", async () => {
    await mkdir(join(dir, "key/..2024_01"), { recursive: true });
    await writeFile(join(dir, "key/..2024_01/token"), "t");
    await symlink("..2024_01", join(dir, "key/..data"));
    await symlink("..data/token", join(dir, "key/token"));
    expect(await keysOf(folderSecrets(dir), "key")).toEqual({ token: Buffer.from("t") });
  });

  test("one whose scope is there and can't be read serves nobody", async () => {
    await mkdir(join(dir, "key"));
    await mkdir(join(dir, "key.pipelines"));
    await expect(read("key")).rejects.toThrow(
      `secret "key" does not say which pipelines it serves: ${dir}/key.pipelines can't be read (EISDIR)`,
    );
    await expect(read("key")).rejects.toBeInstanceOf(SecretMissing);
  });

  test("folders in it are none of its keys", async () => {
    await mkdir(join(dir, "key/folder"), { recursive: true });
    expect(await keysOf(folderSecrets(dir), "key")).toEqual({});
  });

  test("a file instead of a folder, and a name that can't be a key, are told", async () => {
    await writeFile(join(dir, "file"), "x");
    await expect(read("file")).rejects.toThrow(`secret "file" is not a folder: looked for ${dir}/file`);
    await mkdir(join(dir, "odd"));
    await writeFile(join(dir, "odd", "a b"), "hush");
    const fault = await read("odd").catch((error: unknown) => error);
    expect(fault).toBeInstanceOf(SecretMissing);
    expect(String(fault)).toContain('has the key "a b"');
    expect(String(fault)).not.toContain("hush");
  });
});

describe.skipIf(noOpenssl)("secrets of Kubernetes alone (openssl)", () => {
  let cluster: FakeKubernetes;
  const before = { KUBECONFIG: process.env.KUBECONFIG, HOME: process.env.HOME };

  beforeEach(async () => {
    cluster = await FakeKubernetes.start();
    process.env.KUBECONFIG = await cluster.kubeconfig();
    cluster.secrets.set("default/key", { key: "hush" });
  });
  afterEach(async () => {
    for (const [variable, value] of Object.entries(before)) restore(variable, value);
    await cluster.close();
  });
  const source = (namespace?: string) =>
    kubernetesSecrets({ retryAfterMs: 1, ...(namespace !== undefined && { namespace }) });

  test("the namespace is the one that was given, else the context's, else the default one", async () => {
    await source().read("key", signal);
    await source("given")
      .read("key", signal)
      .catch(() => undefined);
    process.env.KUBECONFIG = await cluster.kubeconfig({ namespace: "context" });
    await source()
      .read("key", signal)
      .catch(() => undefined);
    expect(cluster.requests).toEqual(
      ["default", "given", "context"].map((name) => `/api/v1/namespaces/${name}/secrets/key`),
    );
  });

  test("one that the runner may not read is missing, and the reason says what it lacks", async () => {
    const reading = source("forbidden").read("key", signal);
    await expect(reading).rejects.toBeInstanceOf(SecretMissing);
    await expect(reading).rejects.toThrow(
      `secret "key" may not be read by this runner: it needs the verb get on secrets in namespace "forbidden"`,
    );
    expect(cluster.requests).toHaveLength(1);
  });

  test("the token of a service account is served to nobody, since it may read the others", async () => {
    cluster.types.set("default/key", "kubernetes.io/service-account-token");
    const fault = await source()
      .read("key", signal)
      .catch((error: unknown) => error);
    expect(fault).toBeInstanceOf(SecretMissing);
    expect(String(fault)).toContain('secret "key"');
    expect(String(fault)).toContain("is the token of a service account, which no pipeline gets");
    expect(String(fault)).not.toContain("hush");
  });

  test("a refused token is told", async () => {
    process.env.KUBECONFIG = await cluster.kubeconfig({ token: "wrong" });
    const reading = source().read("key", signal);
    await expect(reading).rejects.toBeInstanceOf(SecretMissing);
    await expect(reading).rejects.toThrow("its credentials are refused");
    await expect(reading).rejects.not.toThrow("wrong");
  });

  test("failures that pass are waited out", async () => {
    cluster.trouble.push(500, 503, 429);
    expect(await keysOf(source(), "key")).toEqual({ key: Buffer.from("hush") });
    expect(cluster.requests).toHaveLength(4);
  });

  test("a failure that stays is an ordinary one: it may pass until the next try", async () => {
    cluster.trouble.push(...Array.from({ length: 20 }, () => 500));
    const fault = await source()
      .read("key", signal)
      .catch((error: unknown) => error);
    expect(fault).not.toBeInstanceOf(SecretMissing);
    expect(String(fault)).toMatch(/secret "key" could not be read in namespace "default".*: it answers 500/);
  });

  test("a cluster that does not answer, or with another certificate, is told without its words", async () => {
    const other = await FakeKubernetes.start();
    const config = JSON.parse(await readFile(await cluster.kubeconfig(), "utf8"));
    config.clusters[0].cluster.server = other.address;
    await writeFile(join(cluster.dir, "config"), JSON.stringify(config));
    await expect(source().read("key", signal)).rejects.toThrow(
      /could not be read.*DEPTH_ZERO_SELF_SIGNED_CERT/,
    );
    await other.close();
    await expect(source().read("key", signal)).rejects.toThrow(/could not be read.*ECONNREFUSED/);
  });

  test("where nothing leads to a cluster, every secret is missing", async () => {
    delete process.env.KUBECONFIG;
    process.env.HOME = cluster.dir;
    const reading = source().read("key", signal);
    await expect(reading).rejects.toBeInstanceOf(SecretMissing);
    await expect(reading).rejects.toThrow(
      "neither KUBECONFIG nor ~/.kube/config nor a pod's service account",
    );
  });
});

describe("the source that --secrets names", () => {
  const kill = new AbortController().signal;
  /** As an unlimited pipeline sees it. */
  const open = (setting: string | undefined) =>
    openSecrets(setting, { own: { secretAccessKey: "runner-secret" }, kill }).for({
      ...{ pipeline: "edges", limited: false },
    });

  test("may be none: every secret is missing then, and the reason names the flag", async () => {
    const reading = open(undefined).read("key", signal);
    await expect(reading).rejects.toBeInstanceOf(SecretMissing);
    await expect(reading).rejects.toThrow(/secret "key".*without --secrets \(SLUICE_SECRETS\)/);
  });

  test("may be a folder", async () => {
    await expect(open("/no/such").read("key", signal)).rejects.toThrow("/no/such/key");
  });

  test.skipIf(noOpenssl)("may be kubernetes, with and without a namespace (openssl)", async () => {
    const cluster = await FakeKubernetes.start();
    const { KUBECONFIG } = process.env;
    process.env.KUBECONFIG = await cluster.kubeconfig();
    for (const namespace of ["default", "team"]) cluster.secrets.set(`${namespace}/key`, { in: namespace });
    for (const [setting, namespace] of [
      ["kubernetes", "default"],
      ["kubernetes:team", "team"],
    ] as const) {
      expect(plain(await open(setting).read("key", signal))).toEqual({
        in: Buffer.from(namespace),
      });
    }
    restore("KUBECONFIG", KUBECONFIG);
    await cluster.close();
  });
});

// For those who have a cluster: SLUICE_TEST_KUBECONFIG is a kubeconfig whose user may make, read and delete secrets in its
// context's namespace. Not registered elsewhere, as a skip would be: continuous integration has no cluster.
const { SLUICE_TEST_KUBECONFIG } = process.env;
if (SLUICE_TEST_KUBECONFIG) {
  describe("secrets of a real Kubernetes cluster (SLUICE_TEST_KUBECONFIG)", () => {
    const { KUBECONFIG } = process.env;
    beforeAll(() => {
      process.env.KUBECONFIG = SLUICE_TEST_KUBECONFIG;
    });
    afterAll(() => restore("KUBECONFIG", KUBECONFIG));

    test("have their keys and their bytes, and are missing if there are none", async () => {
      const { CoreV1Api, KubeConfig } = await import("@kubernetes/client-node");
      const config = new KubeConfig();
      config.loadFromFile(SLUICE_TEST_KUBECONFIG);
      const namespace = config.getContextObject(config.getCurrentContext())?.namespace ?? "default";
      const api = config.makeApiClient(CoreV1Api);
      const name = `sluice-test-${randomBytes(4).toString("hex")}`;
      const blob = randomBytes(1000);
      const body = { metadata: { name }, data: { blob: blob.toString("base64"), empty: "" } };
      await api.createNamespacedSecret({ namespace, body });
      try {
        const secret = await keysOf(kubernetesSecrets({}), name);
        expect(secret).toEqual({ blob, empty: Buffer.from("") });
      } finally {
        await api.deleteNamespacedSecret({ namespace, name });
      }
      await expect(kubernetesSecrets({}).read(name, signal)).rejects.toThrow(SecretMissing);
    });
  });
}

function kept(secret: Secret): KeptSecret {
  return { secret, scope: { text: undefined, where: "its scope" } };
}

describe("remembering secrets", () => {
  const kill = new AbortController().signal;

  test("a secret is asked for once in a while, also by many at once, and a failure each time", async () => {
    let now = 0;
    let asked = 0;
    const source = remembered(
      {
        read: async (name) => {
          asked += 1;
          if (name === "absent") throw new SecretMissing("no");
          return kept(new Map([["key", Buffer.from(String(asked))]]));
        },
      },
      { kill, now: () => now },
    );
    const read = async () => (await keysOf(source, "key")).key?.toString();
    expect(await Promise.all([read(), read(), read()])).toEqual(["1", "1", "1"]);
    now = 29_000;
    expect(await read()).toBe("1");
    now = 60_000;
    expect(await read()).toBe("2");
    for (const times of [3, 4]) {
      await expect(source.read("absent", signal)).rejects.toThrow("no");
      expect(asked).toBe(times);
    }
  });

  test("who stops waiting does not stop the others", async () => {
    const answer = Promise.withResolvers<KeptSecret>();
    const source = remembered({ read: () => answer.promise }, { kill, now: () => 0 });
    const abort = new AbortController();
    const [first, second] = [source.read("key", abort.signal), source.read("key", signal)];
    abort.abort();
    await expect(first).rejects.toThrow("aborted");
    answer.resolve(kept(new Map()));
    expect(await second).toEqual(kept(new Map()));
  });
});

describe("which pipelines may use a secret", () => {
  const kill = new AbortController().signal;
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "sluice-secrets-"));
    await mkdir(join(dir, "db"));
    await writeFile(join(dir, "db/key"), "hush");
  });
  afterEach(() => rm(dir, { recursive: true }));

  const scope = (text: string) => writeFile(join(dir, "db.pipelines"), text);
  const own = { secretAccessKey: "runner-secret" };
  const source = (limited: boolean, pipeline = "edges"): SecretSource =>
    openSecrets(dir, { own, kill }).for({ pipeline, limited });
  const fault = (limited: boolean, pipeline?: string) =>
    source(limited, pipeline)
      .read("db", signal)
      .then(
        () => "served" as const,
        (error: unknown) => {
          expect(String(error)).not.toContain("hush");
          return error;
        },
      );

  test("one that says nothing serves an unlimited pipeline, and is refused by name to a limited one", async () => {
    expect(await fault(false)).toBe("served");
    const refused = await fault(true);
    expect(refused).toBeInstanceOf(SecretMissing);
    expect(String(refused)).toContain('secret "db" does not serve the pipeline "edges"');
    expect(String(refused)).toContain(`Name "edges" in ${dir}/db.pipelines, or look at its spec`);
    expect(String(refused)).toContain("sluice pipeline inspect edges --spec | sluice pipeline update -f -");
  });

  test("one that names pipelines serves those and no others, limited or not, from any gateway", async () => {
    await scope("# of the data base\nblobs, edges\n\n shapes # for now\n");
    for (const limited of [true, false]) {
      for (const pipeline of ["edges", "blobs", "shapes"]) {
        expect(await fault(limited, pipeline)).toBe("served");
      }
      for (const pipeline of ["edge", "edges2", "now", "of"]) {
        const refused = await fault(limited, pipeline);
        expect(refused).toBeInstanceOf(SecretMissing);
        expect(String(refused)).toContain(
          `secret "db" does not serve the pipeline "${pipeline}": ${dir}/db.pipelines does not name it`,
        );
      }
    }
  });

  test("one with a star serves all", async () => {
    await scope("*\n");
    for (const limited of [true, false]) expect(await fault(limited)).toBe("served");
  });

  test("one whose scope names nobody serves nobody, and a scope that is none is told", async () => {
    await scope("# nobody\n");
    expect(await fault(false)).toBeInstanceOf(SecretMissing);
    await scope("edges; blobs");
    expect(String(await fault(false))).toContain('holds "edges;", which can\'t be the name of a pipeline');
  });
});

describe("the runner's own key", () => {
  const kill = new AbortController().signal;
  const secretAccessKey = "the-runner's-own-secret";
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "sluice-secrets-"));
  });
  afterEach(() => rm(dir, { recursive: true }));

  const read = (name: string) =>
    openSecrets(dir, { own: { secretAccessKey, secretName: "runner-key" }, kill })
      .for({ pipeline: "edges", limited: false })
      .read(name, signal);
  const refusal = (name: string) =>
    `secret "${name}" holds the key of this runner, which no pipeline gets: give the pipeline a key of its own`;

  test("is never among the secrets, whatever file it is in, though the scope says all", async () => {
    const files = {
      key: secretAccessKey,
      "runner.env": `SLUICE_ENDPOINT=http://gateway\nSLUICE_SECRET_ACCESS_KEY="${secretAccessKey}"\n`,
    };
    for (const [file, text] of Object.entries(files)) {
      const name = file.replace(".", "-");
      await mkdir(join(dir, name));
      await writeFile(join(dir, name, file), text);
      await writeFile(join(dir, `${name}.pipelines`), "*");
      await expect(read(name)).rejects.toThrow(refusal(name));
      await expect(read(name)).rejects.toBeInstanceOf(SecretMissing);
    }
  });

  test("is refused by the name of the secret that it comes from, also when that holds the next one by now", async () => {
    await mkdir(join(dir, "runner-key"));
    await writeFile(join(dir, "runner-key/secretAccessKey"), "the-next-one");
    await expect(read("runner-key")).rejects.toThrow(refusal("runner-key"));
  });

  test("can't be reached by a folder of secrets that holds the data folder", async () => {
    const data = join(dir, ".sluice/runner");
    await mkdir(data, { recursive: true });
    for (const folder of [dir, join(dir, ".sluice"), data]) {
      await expect(checkSecretsFolder(folder, data)).rejects.toThrow(ConfigError);
      await expect(checkSecretsFolder(folder, data)).rejects.toThrow(
        `--secrets is "${folder}", which holds the data folder ${data}`,
      );
    }
    await symlink(dir, join(dir, "link"));
    await expect(checkSecretsFolder(join(dir, "link"), data)).rejects.toThrow(ConfigError);
    for (const folder of [undefined, join(data, "secrets"), join(dir, ".slu"), "/no/such"]) {
      await checkSecretsFolder(folder, data);
    }
  });
});
