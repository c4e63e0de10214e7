import type { CoreV1Api, ObservableMiddleware } from "@kubernetes/client-node";
import pRetry from "p-retry";
import { errorCode, messageOf } from "../lib/fault.ts";
import { checkedSecret, type KeptSecret, SecretMissing, type SecretStore } from "./source.ts";

export interface KubernetesOptions {
  /** Absent: that of the kubeconfig's context or of the pod's service account, else "default". */
  readonly namespace?: string;
  /** The first wait before a call is tried again; each next one is twice as long. */
  readonly retryAfterMs?: number;
}

/**
 * Secrets of a Kubernetes cluster: the one that KUBECONFIG, ~/.kube/config or the service account of this pod leads
 * to. The annotation `sluice/pipelines` says who may use a secret. The client is loaded, and the cluster looked for, when the first secret is asked for.
 */
export function kubernetesSecrets(options: KubernetesOptions): SecretStore {
  let cluster: Promise<Cluster> | undefined;
  return {
    async read(name, signal) {
      cluster ??= findCluster(options);
      const found = await cluster.catch((error: unknown) => {
        cluster = undefined;
        throw new SecretMissing(
          `secret "${name}" can't be looked up: there is no way to a Kubernetes cluster here: ${messageOf(error)}`,
        );
      });
      return readSecret(found, { name, signal, retryAfterMs: options.retryAfterMs ?? 250 });
    },
  };
}

interface Cluster {
  readonly api: CoreV1Api;
  readonly namespace: string;
  /** The place in words, for people who look for a secret. */
  readonly where: string;
  /** Makes a call end with the signal. */
  readonly until: (signal: AbortSignal) => ObservableMiddleware;
}

async function findCluster(options: KubernetesOptions): Promise<Cluster> {
  const { CoreV1Api, KubeConfig, Observable } = await import("@kubernetes/client-node");
  const config = new KubeConfig();
  config.loadFromDefault();
  const context = config.getContextObject(config.getCurrentContext());
  const server = config.getCurrentCluster()?.server;
  // The library takes localhost if it finds nothing.
  if (server === undefined || server === "http://localhost:8080") {
    throw new Error("neither KUBECONFIG nor ~/.kube/config nor a pod's service account names one");
  }
  const namespace = options.namespace || context?.namespace?.trim() || "default";
  return {
    api: config.makeApiClient(CoreV1Api),
    namespace,
    where: `in namespace "${namespace}" of the Kubernetes cluster at ${server}`,
    until: (signal) => ({
      pre: (request) => {
        request.setSignal(signal);
        return new Observable(Promise.resolve(request));
      },
      post: (response) => new Observable(Promise.resolve(response)),
    }),
  };
}

/** Where the owner of a secret says which pipelines may use it. */
const OWNERS_ANNOTATION = "sluice/pipelines";
/** The runner's own may read every secret in reach, whoever owns it. */
const TOKEN_TYPE = "kubernetes.io/service-account-token";
const TRIES_AGAIN = 4;
const ANSWER_WITHIN_MS = 10_000;

async function readSecret(
  cluster: Cluster,
  { name, signal, retryAfterMs }: { name: string; signal: AbortSignal; retryAfterMs: number },
): Promise<KeptSecret> {
  const { api, namespace, where, until } = cluster;
  const getSecret = () => {
    const ends = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]);
    const options = { middleware: [until(ends)], middlewareMergeStrategy: "append" as const };
    return api.readNamespacedSecret({ name, namespace }, options);
  };
  try {
    const found = await pRetry(getSecret, {
      retries: TRIES_AGAIN,
      minTimeout: retryAfterMs,
      randomize: true,
      signal,
      shouldRetry: ({ error }) => isTransient(error),
    });
    const { data = {}, metadata, type } = found;
    if (type === TOKEN_TYPE) {
      throw new SecretMissing(
        `secret "${name}" ${where} is the token of a service account, which no pipeline gets: it may read other secrets`,
      );
    }
    const decoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64")] as const);
    return {
      secret: checkedSecret(new Map(decoded), { name, where }),
      scope: {
        text: metadata?.annotations?.[OWNERS_ANNOTATION],
        where: `its annotation ${OWNERS_ANNOTATION}`,
      },
    };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof SecretMissing) throw error;
    throw failure(error, { name, where });
  }
}

/** An error without a status is a broken connection. */
function isTransient(error: unknown): boolean {
  const status = statusOf(error);
  return status === undefined || status >= 500 || status === 429 || status === 408;
}

/** The status of the API's error answer. The library's class is not at hand here, because it is loaded late. */
function statusOf(error: unknown): number | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : undefined;
}

const REFUSALS: Readonly<Record<number, string>> = {
  401: "may not be read by this runner: its credentials are refused",
  403: "may not be read by this runner: it needs the verb get on secrets",
  404: "is not there: looked for",
};

/** Says it in our words: the client's hold whole answers, and a good answer holds the secret. */
function failure(error: unknown, { name, where }: { name: string; where: string }): Error {
  const status = statusOf(error);
  const refusal = REFUSALS[status ?? 0];
  if (refusal) return new SecretMissing(`secret "${name}" ${refusal} ${where}`);
  const said = status === undefined ? reachFault(error) : `it answers ${status}`;
  return new Error(`secret "${name}" could not be read ${where}: ${said}`);
}

function reachFault(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return errorCode(cause) ?? errorCode(error) ?? (error instanceof Error ? error.name : "no answer");
}
