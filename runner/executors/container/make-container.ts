import { randomBytes } from "node:crypto";
import { access } from "node:fs/promises";
import type { Container, ContainerCreateOptions } from "dockerode";
import { ensureImage } from "../images/ensure-image.ts";
import { createOptions } from "./create-options.ts";
import { ask, asTrouble, EngineRefusal } from "./engine/engine.ts";
import { labelsOf } from "./engine/labels.ts";
import type { Machinery, WorkerTerms } from "./machinery.ts";
import type { SecretMountpoint } from "./secrets/secret-files.ts";
import { notSeen } from "./words.ts";

export interface MakeOptions {
  /** The folder that is `/pfs`, with `out` in it. */
  readonly pfs: string;
  readonly control?: string;
  readonly secrets: readonly SecretMountpoint[];
  /** What is to run in it, and how. */
  readonly config: ContainerCreateOptions;
  /** Ends the wait for the image. */
  readonly signal: AbortSignal;
}

/** A container that is there, and by which name it is to be removed. */
export interface Made {
  readonly name: string;
  readonly container: Container;
}

/** Makes a container. It has to be removed through the machinery's disposal. Throws NodeTrouble. */
export async function makeContainer(
  machinery: Machinery,
  worker: WorkerTerms,
  { pfs, control, secrets, config, signal }: MakeOptions,
): Promise<Made> {
  const { engine, owner, limits, disposal } = machinery;
  // Podman makes what is not there, as root's.
  for (const source of [`${pfs}/out`, ...secrets.map((secret) => secret.source)]) await access(source);
  await disposal.sweep();
  const { image: wanted, pullSecrets, pipeline } = worker;
  const image = await ensureImage(engine.patient, { image: wanted, pullSecrets, signal });
  const name = containerName(owner.node, pipeline);
  const labels = labelsOf(owner, worker);
  const request = { image, name, labels, pfs, secrets, limits, ...(control !== undefined && { control }) };
  try {
    const options = { ...createOptions(engine, request), ...config };
    return { name, container: await ask(engine, () => engine.docker.createContainer(options)) };
  } catch (error) {
    // It may have been made all the same.
    await disposal.remove(name).catch(() => undefined);
    if (error instanceof EngineRefusal && /bind source path/.test(error.message)) {
      throw notSeen(engine, error.message);
    }
    throw asTrouble(error, engine);
  }
}

/** Of whom it is, and one of a kind. */
function containerName(node: string, pipeline: string): string {
  return `sluice-${node}-${pipeline}-${randomBytes(4).toString("hex")}`;
}
