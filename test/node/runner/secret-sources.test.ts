import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { findTool } from "../../../runner/executors/find-tool.ts";
import { folderSecrets } from "../../../runner/secrets/folder.ts";
import { kubernetesSecrets } from "../../../runner/secrets/kubernetes.ts";
import { openSecrets } from "../../../runner/secrets/open.ts";
import { remembered } from "../../../runner/secrets/remembered.ts";
import { type Secret, SecretMissing, type SecretSource } from "../../../runner/secrets/source.ts";
import { FakeKubernetes } from "./support/fake-kubernetes.ts";

const signal = new AbortController().signal;
const noOpenssl = (await findTool("openssl")) === undefined;
type Keys = Record<string, string | Buffer>;

/** A source, a way to put secrets there, and the words that say where it looks. */
interface Bench {
  readonly source: SecretSource;
  put(name: string, keys: Keys): Promise<void>;
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
    const read = (secret: string) => bench.source.read(secret, signal);

    test("the keys and their bytes, whatever these are", async () => {
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
    expect(plain(await read("key"))).toEqual({ token: Buffer.from("t") });
  });

  test("folders in it are none of its keys", async () => {
    await mkdir(join(dir, "key/folder"), { recursive: true });
    expect(plain(await read("key"))).toEqual({});
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

  test("a refused token is told", async () => {
    process.env.KUBECONFIG = await cluster.kubeconfig({ token: "wrong" });
    const reading = source().read("key", signal);
    await expect(reading).rejects.toBeInstanceOf(SecretMissing);
    await expect(reading).rejects.toThrow("its credentials are refused");
    await expect(reading).rejects.not.toThrow("wrong");
  });

  test("trouble that passes is waited out", async () => {
    cluster.trouble.push(500, 503, 429);
    expect(plain(await source().read("key", signal))).toEqual({ key: Buffer.from("hush") });
    expect(cluster.requests).toHaveLength(4);
  });

  test("trouble that stays is an ordinary failure: it may pass until the next try", async () => {
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

  test("none: every secret is missing, and the reason names the flag", async () => {
    const reading = openSecrets(undefined, kill).read("key", signal);
    await expect(reading).rejects.toBeInstanceOf(SecretMissing);
    await expect(reading).rejects.toThrow(/secret "key".*without --secrets \(SLUICE_SECRETS\)/);
  });

  test("a folder", async () => {
    await expect(openSecrets("/no/such", kill).read("key", signal)).rejects.toThrow("/no/such/key");
  });

  test.skipIf(noOpenssl)("kubernetes, with and without a namespace (openssl)", async () => {
    const cluster = await FakeKubernetes.start();
    const { KUBECONFIG } = process.env;
    process.env.KUBECONFIG = await cluster.kubeconfig();
    for (const namespace of ["default", "team"]) cluster.secrets.set(`${namespace}/key`, { in: namespace });
    for (const [setting, namespace] of [
      ["kubernetes", "default"],
      ["kubernetes:team", "team"],
    ] as const) {
      expect(plain(await openSecrets(setting, kill).read("key", signal))).toEqual({
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

    test("the keys and their bytes, and none where there is none", async () => {
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
        const secret = await kubernetesSecrets({}).read(name, signal);
        expect(plain(secret)).toEqual({ blob, empty: Buffer.from("") });
      } finally {
        await api.deleteNamespacedSecret({ namespace, name });
      }
      await expect(kubernetesSecrets({}).read(name, signal)).rejects.toThrow(SecretMissing);
    });
  });
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
          return new Map([["key", Buffer.from(String(asked))]]);
        },
      },
      { kill, now: () => now },
    );
    const read = async () => plain(await source.read("key", signal)).key?.toString();
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
    const answer = Promise.withResolvers<Secret>();
    const source = remembered({ read: () => answer.promise }, { kill, now: () => 0 });
    const abort = new AbortController();
    const [first, second] = [source.read("key", abort.signal), source.read("key", signal)];
    abort.abort();
    await expect(first).rejects.toThrow("aborted");
    answer.resolve(new Map());
    expect(plain(await second)).toEqual({});
  });
});
