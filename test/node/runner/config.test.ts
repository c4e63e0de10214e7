import { availableParallelism, homedir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { nodeNameOf, readRunnerConfig } from "../../../runner/agent/config.ts";
import { pathsToHide } from "../../../runner/executors/process/machine.ts";
import { ConfigError } from "../../../runner/lib/fault.ts";

const KEYS = { SLUICE_ACCESS_KEY_ID: "id", SLUICE_SECRET_ACCESS_KEY: "secret" };

test("the runner's settings come from its own variables", () => {
  const env = { ...KEYS, SLUICE_ENDPOINT: "http://gateway:9000/", AWS_ACCESS_KEY_ID: "other" };
  const config = readRunnerConfig({ node: "n1", data: "/data/x" }, env);
  expect(config).toEqual({
    endpoint: "http://gateway:9000",
    accessKeyId: "id",
    secretAccessKey: "secret",
    node: "n1",
    executor: "auto",
    dataDir: "/data/x",
    cacheBytes: 20 * 1024 ** 3,
    maxRunning: Math.max(16, 4 * availableParallelism()),
    maxWorkers: 256,
    limits: {},
  });
});

test("sizes and limits are read as people write them", () => {
  const flags = { cacheSize: "1.5g", memory: "512m", cpus: "0.5", pids: "100", disk: "4096" };
  expect(readRunnerConfig(flags, KEYS)).toMatchObject({
    cacheBytes: 1.5 * 1024 ** 3,
    limits: { memoryBytes: 512 * 1024 ** 2, cpus: 0.5, pids: 100, outBytes: 4096 },
  });
});

test("what a node has room for is counted in whole numbers", () => {
  const flags = { maxRunning: "3", maxWorkers: "1000" };
  expect(readRunnerConfig(flags, KEYS)).toMatchObject({ maxRunning: 3, maxWorkers: 1000 });
  for (const [name, flag] of [
    ["maxRunning", "--max-running"],
    ["maxWorkers", "--max-workers"],
  ] as const)
    for (const value of ["0", "-1", "1.5", "many", ""])
      expect(() => readRunnerConfig({ [name]: value }, KEYS)).toThrow(
        `${flag} is "${value}"; it must be a whole number above 0`,
      );
});

test("the AWS names work where Sluice's are absent", () => {
  const env = { AWS_ENDPOINT_URL: "https://s", AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "b" };
  expect(readRunnerConfig({}, env)).toMatchObject({
    endpoint: "https://s",
    accessKeyId: "a",
    secretAccessKey: "b",
  });
});

test("the endpoint that nobody names is the one of `sluice dev`", () => {
  expect(readRunnerConfig({}, KEYS).endpoint).toBe("http://127.0.0.1:8787");
});

test("secrets come from the flag, else from the variable, else from nowhere", () => {
  const env = { ...KEYS, SLUICE_SECRETS: "kubernetes:team" };
  expect(readRunnerConfig({ secrets: "/run/secrets" }, env).secrets).toBe("/run/secrets");
  expect(readRunnerConfig({}, env).secrets).toBe("kubernetes:team");
  expect(readRunnerConfig({}, { ...KEYS, SLUICE_SECRETS: "" })).not.toHaveProperty("secrets");
});

test("what egress may do comes from flags, else from variables; else it may do the least", () => {
  const env = { ...KEYS, SLUICE_EGRESS_ENVIRONMENT: "s3://a/x, gs://b", SLUICE_EGRESS_LOCAL: "1" };
  const destinations = [
    { kind: "s3", bucket: "a", dir: "x" },
    { kind: "gs", bucket: "b", dir: "" },
  ];
  expect(readRunnerConfig({}, env).egress).toEqual({ environment: destinations, local: true });
  const flags = { egressEnvironment: ["s3://c"] };
  expect(readRunnerConfig(flags, KEYS).egress).toEqual({
    environment: [{ kind: "s3", bucket: "c", dir: "" }],
    local: false,
  });
  expect(readRunnerConfig({}, KEYS)).not.toHaveProperty("egress");
});

test("what is to be hidden is found from wherever the runner was started", () => {
  expect(readRunnerConfig({ hide: [".sluice", "/srv/x/"] }, KEYS).hidden).toEqual([
    join(process.cwd(), ".sluice"),
    "/srv/x",
  ]);
});

test("commands are kept from the data folder, the secrets and the usual places of keys", () => {
  const paths = (secrets?: string) => pathsToHide({ dataDir: "/data", hidden: ["/srv/x"], secrets }, {});
  const always = ["/data", "/srv/x", "/var/run/secrets", "/run/secrets", "/etc/sluice"];
  expect(paths()).toEqual(always);
  expect(paths("secrets")).toEqual([...always, join(process.cwd(), "secrets")]);
  // What opens the cluster opens every secret in it.
  const env = { KUBECONFIG: "/etc/kube/a:/etc/kube/b" };
  expect(pathsToHide({ dataDir: "/data", secrets: "kubernetes:team" }, env)).toEqual(
    expect.arrayContaining([join(homedir(), ".kube"), "/etc/kube/a", "/etc/kube/b"]),
  );
});

test("a network is for containers", () => {
  expect(readRunnerConfig({ network: "none" }, KEYS).network).toBe("none");
  expect(readRunnerConfig({}, KEYS)).not.toHaveProperty("network");
});

test("a bad setting names itself, its value and the fix", () => {
  const cases: [Parameters<typeof readRunnerConfig>, string[]][] = [
    [
      [{}, {}],
      ["SLUICE_ACCESS_KEY_ID", "not set"],
    ],
    [
      [{}, { SLUICE_ACCESS_KEY_ID: "id" }],
      ["SLUICE_SECRET_ACCESS_KEY", "not set"],
    ],
    [[{}, { SLUICE_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "b" }], ["SLUICE_SECRET_ACCESS_KEY"]],
    [
      [{ egressEnvironment: ["bucket/dir"] }, KEYS],
      ["--egress-environment", '"bucket/dir"', "s3"],
    ],
    [
      [{}, { ...KEYS, SLUICE_EGRESS_LOCAL: "yes" }],
      ["SLUICE_EGRESS_LOCAL", '"yes"', "true"],
    ],
    [
      [{}, { ...KEYS, SLUICE_ENDPOINT: "gateway:1" }],
      ["SLUICE_ENDPOINT", '"gateway:1"', "http://"],
    ],
    [
      [{}, { ...KEYS, SLUICE_ENDPOINT: "http://g/path" }],
      ["SLUICE_ENDPOINT", "without a path"],
    ],
    [
      [{}, { ...KEYS, AWS_ENDPOINT_URL: "s3" }],
      ["AWS_ENDPOINT_URL", '"s3"'],
    ],
    [
      [{ node: "a.b" }, KEYS],
      ["--node", '"a.b"', "letters, digits"],
    ],
    [
      [{ cacheSize: "plenty" }, KEYS],
      ["--cache-size", '"plenty"', "20g"],
    ],
    [
      [{ memory: "0" }, KEYS],
      ["--memory", "above 0"],
    ],
    [
      [{ cpus: "two" }, KEYS],
      ["--cpus", '"two"', "0.5"],
    ],
    [
      [{ pids: "1.5" }, KEYS],
      ["--pids", '"1.5"', "whole number"],
    ],
    [
      [{ disk: "-1g" }, KEYS],
      ["--disk", '"-1g"', "20g"],
    ],
    [
      [{ secrets: "kubernetes:" }, KEYS],
      ["--secrets", '"kubernetes:"', "namespace"],
    ],
    [
      [{ hide: ["/srv/../"] }, KEYS],
      ["--hide", '"/srv/../"', "not the whole machine"],
    ],
    [
      [{ device: ["kvm", "sda"] }, KEYS],
      ["--device", '"sda"', "fuse, kvm"],
    ],
    [
      [{ device: ["kvm"], executor: "docker" }, KEYS],
      ["--device", '"kvm"', "--executor process"],
    ],
    [
      [{ network: "container:other" }, KEYS],
      ["--network", '"container:other"', "none, host"],
    ],
    [
      [{ network: "none", executor: "process" }, KEYS],
      ["--network", '"none"', "--executor docker"],
    ],
    [
      [{ waitForEngine: true, executor: "process" }, KEYS],
      ["--wait-for-engine", "--executor process needs no container engine"],
    ],
    [
      [{ executor: "vm" }, KEYS],
      ['"vm"', "not known", "auto, process"],
    ],
  ];
  for (const [[flags, env], words] of cases) {
    const read = () => readRunnerConfig(flags, env);
    expect(read).toThrow(ConfigError);
    for (const word of words) expect(read).toThrow(word);
  }
});

test("the secret is in no message", () => {
  expect(() => readRunnerConfig({}, { SLUICE_SECRET_ACCESS_KEY: "hush" })).not.toThrow("hush");
});

test("the node is called as the flag says, else as SLUICE_NODE does, a host's name with its dots", () => {
  const env = { ...KEYS, SLUICE_NODE: "ip-10-0-0-7.example.org" };
  expect(readRunnerConfig({}, env).node).toBe("ip-10-0-0-7-example-org");
  expect(readRunnerConfig({ node: "n1" }, env).node).toBe("n1");
});

test("any host name makes a node name", () => {
  expect(nodeNameOf("worker-1.example.org")).toBe("worker-1-example-org");
  expect(nodeNameOf("-_x")).toBe("x");
  expect(nodeNameOf("é")).toBe("node");
  expect(nodeNameOf("a".repeat(100))).toHaveLength(63);
});
