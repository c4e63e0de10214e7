import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { V1DaemonSet, V1PodSpec, V1Role, V1RoleBinding } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { readRunnerConfig } from "../../../runner/agent/config.ts";
import { ROOT } from "../../support/dev-server.ts";
import { mustRun } from "../../support/processes.ts";
import { foreignTo } from "./support/kubernetes-fields.ts";

const FOLDER = join(ROOT, "deploy/kubernetes");

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

const text = (name: string) => readFileSync(join(FOLDER, name), "utf8");
const manifests = parseAllDocuments(text("runner.yaml")).map((document) => document.toJS() as Manifest);
const overlay = parse(text("docker/daemonset.yaml")) as Manifest;

/** The one object of a kind; its fields were compared with the API's. */
function only<T>(kind: string): T {
  const found = manifests.filter((manifest) => manifest.kind === kind);
  expect(found).toHaveLength(1);
  return found[0] as T;
}

function podOf(manifest: unknown): V1PodSpec {
  return (manifest as V1DaemonSet).spec?.template.spec ?? { containers: [] };
}

/** The options of `sluice runner` that a container is given. */
function flagsOf(pod: V1PodSpec): Record<string, string> {
  const [command, ...args] = pod.containers[0]?.args ?? [];
  expect(command).toBe("runner");
  const pairs = args.flatMap((arg, index) => (index % 2 === 0 ? [[arg, args[index + 1] ?? ""]] : []));
  return Object.fromEntries(pairs);
}

test.each(
  [...manifests, overlay].map((manifest) => [manifest.kind, manifest.metadata.name, manifest]),
)("%s %s has only fields that the API has", (kind, _, manifest) => {
  expect(foreignTo(`V1${kind}`, manifest)).toEqual([]);
});

test("a field that the API lacks is found, wherever it stands", () => {
  const pod = { spec: { containers: [{ name: "a", imagePullPolice: "Always" }], hostPID: "yes" } };
  expect(foreignTo("V1Pod", pod)).toEqual([
    "$.spec.containers[0].imagePullPolice: there is no such field",
    '$.spec.hostPID: "yes" is no boolean',
  ]);
});

test("the runner may get the secrets of its own namespace, and nothing else", () => {
  const role = only<V1Role>("Role");
  expect(role.rules).toEqual([{ apiGroups: [""], resources: ["secrets"], verbs: ["get"] }]);
  const { namespace, name } = role.metadata ?? {};
  const binding = only<V1RoleBinding>("RoleBinding");
  expect(binding.roleRef).toMatchObject({ kind: "Role", name });
  const account = podOf(only("DaemonSet")).serviceAccountName;
  expect(binding.subjects).toEqual([{ kind: "ServiceAccount", name: account, namespace }]);
  expect(manifests.some(({ kind }) => kind.startsWith("Cluster"))).toBe(false);
});

test("everything but the namespace is in it", () => {
  const { name } = only<Manifest>("Namespace").metadata;
  const inside = manifests.filter(({ kind }) => kind !== "Namespace");
  expect(new Set(inside.map(({ metadata }) => metadata.namespace))).toEqual(new Set([name]));
});

test.each([
  ["with the tools in the image", only("DaemonSet"), "process"],
  ["with the node's Docker", overlay, "docker"],
])("the runner takes its arguments and variables: %s", async (_, manifest, executor) => {
  const flags = flagsOf(podOf(manifest));
  expect(flags).toMatchObject({ "--executor": executor, "--secrets": "kubernetes" });
  const help = await mustRun([process.execPath, join(ROOT, "bin/sluice.js"), "runner", "--help"]);
  for (const flag of Object.keys(flags)) expect(help).toContain(`${flag} <`);
  const variables = podOf(only("DaemonSet")).containers[0]?.env ?? [];
  const env = Object.fromEntries(variables.map(({ name, value }) => [name, value ?? "of-the-node"]));
  const config = readRunnerConfig(
    { data: flags["--data"] ?? "", cacheSize: flags["--cache-size"] ?? "" },
    env,
  );
  const keySecret = variables.find(({ name }) => name === "SLUICE_SECRET_ACCESS_KEY")?.valueFrom
    ?.secretKeyRef;
  expect(config).toMatchObject({
    ...{ node: "of-the-node", accessKeyId: "of-the-node" },
    keySecret: keySecret?.name,
  });
});

test("the key is in no manifest: it comes from a secret", () => {
  const variables = podOf(only("DaemonSet")).containers[0]?.env ?? [];
  const keys = variables.filter(({ name }) => name.endsWith("_KEY") || name.endsWith("_KEY_ID"));
  expect(keys.map(({ valueFrom }) => valueFrom?.secretKeyRef?.name)).toEqual(
    Array(2).fill("sluice-runner-key"),
  );
});

test("the data folder is at one path on the node and in the pod, since engines bind paths of the node", () => {
  for (const manifest of [only("DaemonSet"), overlay]) {
    const data = flagsOf(podOf(manifest))["--data"];
    const base = podOf(only("DaemonSet"));
    expect(base.volumes?.find(({ name }) => name === "data")?.hostPath?.path).toBe(data);
    expect(base.containers[0]?.volumeMounts).toContainEqual({ name: "data", mountPath: data });
  }
});

test("what Docker's socket is mounted for needs no capability to mount", () => {
  const [base] = podOf(only("DaemonSet")).containers;
  const [docker] = podOf(overlay).containers;
  expect(base?.securityContext?.capabilities?.add).toContain("SYS_ADMIN");
  expect(docker?.securityContext?.capabilities).toMatchObject({ drop: ["ALL"] });
  expect(docker?.securityContext?.capabilities?.add).not.toContain("SYS_ADMIN");
  const sockets = podOf(overlay).volumes?.filter(({ hostPath }) => hostPath?.type === "Socket");
  expect(sockets).toHaveLength(1);
  expect(docker?.volumeMounts).toContainEqual({ name: "engine", mountPath: sockets?.[0]?.hostPath?.path });
});

test("the kustomizations name files that are there, and patch what is there", () => {
  expect(parse(text("kustomization.yaml"))).toMatchObject({
    kind: "Kustomization",
    resources: ["runner.yaml"],
  });
  expect(parse(text("docker/kustomization.yaml"))).toMatchObject({
    kind: "Kustomization",
    resources: [".."],
    patches: [{ path: "daemonset.yaml" }],
  });
  const base = only<Manifest>("DaemonSet");
  expect(overlay).toMatchObject({
    apiVersion: base.apiVersion,
    kind: base.kind,
    metadata: { name: "sluice-runner" },
  });
  expect(overlay.metadata).toEqual({ name: base.metadata.name, namespace: base.metadata.namespace });
  expect(podOf(overlay).containers.map(({ name }) => name)).toEqual(
    podOf(base).containers.map(({ name }) => name),
  );
});
