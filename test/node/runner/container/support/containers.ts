import type { ContainerInspectInfo } from "dockerode";
import type { TestEngine } from "../../../../support/engines.ts";
import { findSubjects, type Subject } from "../../conformance/subjects.ts";

/** An executor over an engine; `engine` is absent with it. */
export async function containerSubjects(): Promise<Subject[]> {
  return (await findSubjects()).filter(({ name }) => name === "docker" || name === "podman");
}

/** The containers of workers whose folders are below this one. */
export async function containersBelow(
  engine: TestEngine | undefined,
  folder: string,
): Promise<ContainerInspectInfo[]> {
  if (!engine) return [];
  const own = (await engine.containers()).filter(({ Labels }) =>
    Labels["sluice.worker-dir"]?.startsWith(`${folder}/`),
  );
  return Promise.all(own.map(({ Id }) => engine.client.getContainer(Id).inspect()));
}

/** The one container of the workers below a folder. */
export async function containerBelow(
  engine: TestEngine | undefined,
  folder: string,
): Promise<ContainerInspectInfo> {
  const [container, ...more] = await containersBelow(engine, folder);
  if (!container || more.length > 0) throw new Error(`there is not one container, but ${more.length}`);
  return container;
}
