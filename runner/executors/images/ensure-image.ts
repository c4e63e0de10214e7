import { createHash } from "node:crypto";
import type Dockerode from "dockerode";
import { errorCode } from "../../lib/fault.ts";
import { type NamedSecret, NodeTrouble } from "../executor.ts";
import { credentialsFor } from "./credentials.ts";
import { engineMessage, pull } from "./pull.ts";
import { type ImageReference, parseImage } from "./reference.ts";
import { SharedWork } from "./shared-work.ts";

export interface EnsureImageOptions {
  /** As the spec names it. */
  readonly image: string;
  readonly pullSecrets: readonly NamedSecret[];
  readonly signal: AbortSignal;
  /** How long a pull may go without a sign of life. Engines unpack large layers in silence. */
  readonly silenceMs?: number;
}

const SILENCE_MS = 10 * 60_000;
const underWay = new WeakMap<Dockerode, SharedWork>();

/**
 * The id of the image to make containers from. An image that the engine has is taken as it is, whatever its tag. Any
 * other is pulled, once for all who ask at the same time, with each of the credentials that fit and then with none.
 * Throws NodeTrouble, in the registry's words and of secrets only with the names, and what `signal` is aborted with.
 */
export async function ensureImage(
  docker: Dockerode,
  { image, pullSecrets, signal, silenceMs = SILENCE_MS }: EnsureImageOptions,
): Promise<string> {
  const parsed = parseImage(image);
  if (!parsed.ok) throw new NodeTrouble(`"${shortened(image)}" is no image: ${parsed.reason}`);
  const wanted = parsed.image;
  if ("id" in wanted) return present(docker, wanted.id);

  const shared = underWay.get(docker) ?? new SharedWork();
  underWay.set(docker, shared);
  return shared.get(keyOf(wanted, pullSecrets), {
    signal,
    work: async (signal) => {
      const found = await idOf(docker, wanted.short);
      return found ?? pulled(docker, { image: wanted, pullSecrets, signal, silenceMs });
    },
  });
}

/** Only workers with the same keys share a pull, because it may fail by them. */
function keyOf({ full }: ImageReference, pullSecrets: readonly NamedSecret[]): string {
  const hash = createHash("sha256").update(full);
  for (const { name, secret } of pullSecrets) {
    for (const [key, bytes] of secret) hash.update(`\0${name}\0${key}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex");
}

async function present(docker: Dockerode, id: string): Promise<string> {
  const found = await idOf(docker, id);
  if (found !== undefined) return found;
  throw new NodeTrouble(`image "${id}" is not on this node, and by its id it can't be pulled`);
}

/** The id of an image by its short name: Podman then looks among the images that were made on the node, too. */
async function idOf(docker: Dockerode, name: string): Promise<string | undefined> {
  try {
    return (await docker.getImage(name).inspect()).Id;
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    const words =
      errorCode(error) === undefined ? engineMessage(error) : `it does not answer (${errorCode(error)})`;
    throw new NodeTrouble(`the container engine can't be asked for image "${name}": ${shortened(words)}`);
  }
}

function isStatus(error: unknown, status: number): boolean {
  return error instanceof Error && "statusCode" in error && error.statusCode === status;
}

interface Wanted {
  readonly image: ImageReference;
  readonly pullSecrets: readonly NamedSecret[];
  readonly signal: AbortSignal;
  readonly silenceMs: number;
}

async function pulled(docker: Dockerode, { image, pullSecrets, signal, silenceMs }: Wanted): Promise<string> {
  const { credentials, problems } = credentialsFor(image, pullSecrets);
  const attempts: Attempt[] = [];
  for (const { secret, login } of [...credentials, ANYBODY]) {
    const answer = await pull(docker, { image: image.full, login, silenceMs, signal });
    if (answer.ok) return (await idOf(docker, image.full)) ?? vanished(image);
    attempts.push({ secret, reason: answer.reason });
    if (isUnreachable(answer.reason)) break;
  }
  throw new NodeTrouble(pullFailure({ image: image.short, attempts, problems }));
}

const ANYBODY = { secret: undefined, login: undefined };

function vanished({ short }: ImageReference): never {
  throw new NodeTrouble(`image "${short}" was pulled, but the container engine does not have it`);
}

/** One try to pull, for the message about why it failed. */
interface Attempt {
  /** Whose credentials it was made with; undefined: as anybody. */
  readonly secret: string | undefined;
  readonly reason: string;
}

const MAX_ATTEMPTS_TOLD = 3;
const MAX_REASON_CHARACTERS = 400;

/** What the job's reason shows if an image can't be pulled: the registry's words for each try, and of secrets only the names. */
function pullFailure({
  image,
  attempts,
  problems,
}: {
  image: string;
  attempts: readonly Attempt[];
  problems: readonly string[];
}): string {
  const told = attempts.slice(-MAX_ATTEMPTS_TOLD).map(({ secret, reason }) => {
    const by = secret === undefined ? "without credentials" : `with the credentials of secret "${secret}"`;
    return `${by}: ${shortened(reason)}`;
  });
  const left = attempts.length - told.length;
  const more = left > 0 ? [`${left} more failed before`] : [];
  const wrong = problems.slice(0, MAX_ATTEMPTS_TOLD).map(shortened);
  return `image "${shortened(image)}" can't be pulled ${[...told, ...more, ...wrong].join("; ")}`;
}

/** On one line, and bounded. */
function shortened(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= MAX_REASON_CHARACTERS ? line : `${line.slice(0, MAX_REASON_CHARACTERS - 1)}…`;
}

/** Whether the registry was not even asked, so that other credentials are of no use. */
function isUnreachable(reason: string): boolean {
  return /\bdial tcp\b|connection refused|no such host|no route to host|network is unreachable|i\/o timeout|TLS handshake|x509:|nothing was heard/i.test(
    reason,
  );
}
