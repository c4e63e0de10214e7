import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const TOKEN = "token-of-the-runner";

/** The part of a cluster's API that serves secrets, over TLS with a certificate of its own, and a kubeconfig that leads there. */
export class FakeKubernetes {
  /** `namespace/name` to its keys. */
  readonly secrets = new Map<string, Record<string, Buffer | string>>();
  /** `namespace/name` to its annotations, and to its type unless that is Opaque. */
  readonly annotations = new Map<string, Record<string, string>>();
  readonly types = new Map<string, string>();
  /** Paths of the requests, in order. */
  readonly requests: string[] = [];
  /** Statuses of the next answers, instead of the right ones. */
  readonly trouble: number[] = [];
  readonly dir: string;
  #server: Server | undefined;
  #certificate = "";

  private constructor(dir: string) {
    this.dir = dir;
  }

  static async start(): Promise<FakeKubernetes> {
    const fake = new FakeKubernetes(await mkdtemp(join(tmpdir(), "sluice-kubernetes-")));
    await fake.#listen();
    return fake;
  }

  async #listen(): Promise<void> {
    const [key, cert] = [join(this.dir, "key.pem"), join(this.dir, "cert.pem")];
    const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    const name = ["-subj", "/CN=fake", "-addext", "subjectAltName=IP:127.0.0.1"];
    execFileSync("openssl", ["req", "-x509", ...kind, ...name, "-keyout", key, "-out", cert], {
      stdio: "ignore",
    });
    this.#certificate = await readFile(cert, "utf8");
    const server = createServer(
      { key: await readFile(key), cert: this.#certificate },
      (request, response) => {
        const { status, body } = this.#answer(request.url ?? "", request.headers.authorization);
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      },
    );
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  }

  get address(): string {
    return `https://127.0.0.1:${(this.#server?.address() as AddressInfo).port}`;
  }

  /** Writes a kubeconfig and returns its path. */
  async kubeconfig({
    namespace,
    token = TOKEN,
  }: {
    namespace?: string;
    token?: string;
  } = {}): Promise<string> {
    const path = join(this.dir, "config");
    const ca = Buffer.from(this.#certificate).toString("base64");
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "here",
      contexts: [
        { name: "here", context: { cluster: "fake", user: "runner", ...(namespace && { namespace }) } },
      ],
      clusters: [{ name: "fake", cluster: { server: this.address, "certificate-authority-data": ca } }],
      users: [{ name: "runner", user: { token } }],
    };
    // JSON is YAML.
    await writeFile(path, JSON.stringify(config));
    return path;
  }

  #answer(url: string, authorization: string | undefined): { status: number; body: unknown } {
    this.requests.push(url);
    const trouble = this.trouble.shift();
    if (trouble !== undefined) return refusal(trouble, "as the test wants it");
    if (authorization !== `Bearer ${TOKEN}`) return refusal(401, "Unauthorized");
    const [, namespace, name] = /^\/api\/v1\/namespaces\/([^/]+)\/secrets\/([^/]+)$/.exec(url) ?? [];
    if (namespace === "forbidden") return refusal(403, `secrets "${name}" is forbidden`);
    const keys = this.secrets.get(`${namespace}/${name}`);
    if (!keys) return refusal(404, `secrets "${name}" not found`);
    const data = Object.entries(keys).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
    const body = {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name, namespace, annotations: this.annotations.get(`${namespace}/${name}`) },
      type: this.types.get(`${namespace}/${name}`) ?? "Opaque",
      ...(data.length > 0 && { data: Object.fromEntries(data) }),
    };
    return { status: 200, body };
  }

  async close(): Promise<void> {
    const server = this.#server;
    server?.closeAllConnections();
    await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
    await rm(this.dir, { recursive: true });
  }
}

function refusal(code: number, message: string): { status: number; body: unknown } {
  return { status: code, body: { kind: "Status", apiVersion: "v1", status: "Failure", message, code } };
}
