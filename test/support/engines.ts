import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { Readable } from "node:stream";
import Dockerode from "dockerode";
import { ProgressReader } from "../../runner/executors/container/images/ensure-image.ts";
import { hasBusybox, imageTar, type TestImage } from "./test-images.ts";

export type EngineName = "docker" | "podman";

/** A registry with a password. */
export interface TestRegistry {
  /** `host:port` */
  readonly address: string;
  readonly username: string;
  readonly password: string;
}

/** The registry that the environment names, or undefined. */
export const TEST_REGISTRY: TestRegistry | undefined = readRegistry(process.env);

function readRegistry({
  SLUICE_TEST_REGISTRY: address,
  SLUICE_TEST_REGISTRY_USER: username = "",
  SLUICE_TEST_REGISTRY_PASSWORD: password = "",
}: NodeJS.ProcessEnv): TestRegistry | undefined {
  return address ? { address, username, password } : undefined;
}

/** A container engine for tests, which make their images in it and remove them with `close`. */
export class TestEngine {
  readonly name: EngineName;
  /** `unix://` and the path of its socket. */
  readonly host: string;
  readonly client: Dockerode;
  readonly #mark = `${process.pid}-${randomBytes(4).toString("hex")}`;
  readonly #images = new Map<TestImage, Promise<string>>();
  readonly #names = new Set<string>();

  constructor(name: EngineName, host: string) {
    this.name = name;
    this.host = host;
    // An empty host: else DOCKER_HOST would win over the socket.
    this.client = new Dockerode({ host: "", socketPath: this.socket });
  }

  /** The path of its socket. */
  get socket(): string {
    return this.host.replace(/^unix:\/\//, "");
  }

  /** The full name of an image, which is made when it is first asked for. */
  image(image: TestImage): Promise<string> {
    const known = this.#images.get(image) ?? this.#import(image);
    this.#images.set(image, known);
    return known;
  }

  async #import(image: TestImage): Promise<string> {
    // As of the node itself: Podman puts what has no registry at Docker Hub. It has no say over the tag.
    const repo = `localhost/sluice-test/${image}-${this.#mark}`;
    const { tar, changes } = imageTar(image);
    await finished(await this.client.importImage(Readable.from([tar]), { repo, changes }));
    this.#names.add(`${repo}:latest`);
    return `${repo}:latest`;
  }

  /**
   * Puts an image into the registry under a name of this test's own, and takes it out of the engine again. Answers
   * the name without tag, and the digest.
   */
  async publish(
    image: TestImage,
    { registry, tag }: { registry: TestRegistry; tag: string },
  ): Promise<Published> {
    const repo = `${registry.address}/${this.name}-${this.#mark}/${image}`;
    const named = `${repo}:${tag}`;
    await this.client.getImage(await this.image(image)).tag({ repo, tag });
    const { address: serveraddress, username, password } = registry;
    const options = { authconfig: { serveraddress, username, password } };
    await finished(await this.client.getImage(named).push(options));
    await this.client.getImage(named).remove();
    return { repo, digest: await digestOf(named, registry) };
  }

  /** Takes an image out of the engine, where it has it. */
  async forget(image: string): Promise<void> {
    await this.client.getImage(image).remove({ force: true }).catch(unlessGone);
  }

  /** Whether the engine has an image of this name. */
  async has(image: string): Promise<boolean> {
    const found = await this.client.getImage(image).inspect().catch(unlessGone);
    return found !== undefined;
  }

  /** The containers of Sluice's agents: those with a label of its own. */
  async containers(): Promise<Dockerode.ContainerInfo[]> {
    const all = await this.client.listContainers({ all: true });
    return all.filter(({ Labels }) => Object.keys(Labels ?? {}).some((label) => label.includes("sluice")));
  }

  /** Removes the images that were made. */
  async close(): Promise<void> {
    for (const name of this.#names) await this.forget(name);
    this.#names.clear();
    this.#images.clear();
  }
}

export interface Published {
  /** Registry and name, without a tag. */
  readonly repo: string;
  /** `sha256:…`, of the manifest as the registry has it. */
  readonly digest: string;
}

/** Each kind of engine that there may be, and the one that is here. Without a static busybox none is of use. */
export async function findEngines(): Promise<{ name: EngineName; engine: TestEngine | undefined }[]> {
  const kinds: EngineName[] = ["docker", "podman"];
  return Promise.all(kinds.map(async (name) => ({ name, engine: await findEngine(name) })));
}

async function findEngine(name: EngineName): Promise<TestEngine | undefined> {
  if (!hasBusybox()) return undefined;
  for (const host of hostsOf(name, process.env)) {
    const engine = new TestEngine(name, host);
    const answers = await engine.client.ping().then(
      () => true,
      () => false,
    );
    if (answers) return engine;
  }
  return undefined;
}

/** Where an engine may be: where the environment says, or else at the usual places. */
function hostsOf(
  name: EngineName,
  { SLUICE_TEST_DOCKER_HOST, SLUICE_TEST_PODMAN_HOST, XDG_RUNTIME_DIR }: NodeJS.ProcessEnv,
): string[] {
  const told = name === "docker" ? SLUICE_TEST_DOCKER_HOST : SLUICE_TEST_PODMAN_HOST;
  if (told) return [told];
  if (name === "docker") return ["unix:///var/run/docker.sock"];
  const own = XDG_RUNTIME_DIR ? [`unix://${join(XDG_RUNTIME_DIR, "podman/podman.sock")}`] : [];
  return ["unix:///run/podman/podman.sock", ...own];
}

/** Reads what an engine tells to its end. Throws the failure that it tells. */
async function finished(stream: NodeJS.ReadableStream): Promise<void> {
  const reader = new ProgressReader();
  for await (const chunk of stream) reader.add(Buffer.from(chunk));
  const failure = reader.end();
  if (failure !== undefined) throw new Error(failure);
}

async function digestOf(image: string, { address, username, password }: TestRegistry): Promise<string> {
  const [name, tag] = image.slice(address.length + 1).split(":");
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
  const kinds = ["docker.distribution.manifest.v2+json", "oci.image.manifest.v1+json"];
  const accept = kinds.map((kind) => `application/vnd.${kind}`).join(", ");
  const answer = await fetch(`http://${address}/v2/${name}/manifests/${tag}`, {
    headers: { authorization, accept },
  });
  const digest = answer.headers.get("docker-content-digest");
  if (digest === null) throw new Error(`the registry does not have ${image}: ${answer.status}`);
  return digest;
}

function unlessGone(error: Error & { statusCode?: number }): undefined {
  if (error.statusCode === 404) return undefined;
  throw error;
}
