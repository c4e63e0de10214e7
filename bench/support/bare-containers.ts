import type Dockerode from "dockerode";

/** A command in containers without Sluice: what the engine itself takes for it. Rates are per second, one after the other. */
export interface BareContainers {
  /** With an `exec` each, in one container. */
  execRate(count: number): Promise<number>;
  /** With a container each: made, started, waited for, removed. */
  containerRate(count: number): Promise<number>;
  remove(): Promise<void>;
}

export interface BareCommand {
  readonly image: string;
  readonly cmd: readonly string[];
}

const QUIET = { NetworkMode: "none", LogConfig: { Type: "none", Config: {} } };

/** Starts the container that `exec` goes to. */
export async function bareContainers(
  client: Dockerode,
  { image, cmd }: BareCommand,
): Promise<BareContainers> {
  const Cmd = [...cmd];
  const host = await client.createContainer({
    ...{ Image: image, Cmd: ["sleep", "86400"], Labels: { bench: "sluice" } },
    HostConfig: QUIET,
  });
  await host.start();
  return {
    execRate: (count) => rate(count, () => execOnce(host, Cmd)),
    containerRate: (count) => rate(count, () => runOnce(client, { Image: image, Cmd })),
    remove: () => host.remove({ force: true }),
  };
}

async function rate(count: number, work: () => Promise<number>): Promise<number> {
  const startedAt = performance.now();
  for (let i = 0; i < count; i++) {
    const code = await work();
    if (code !== 0) throw new Error(`the bare command ended with ${code}`);
  }
  return (count * 1000) / (performance.now() - startedAt);
}

async function execOnce(host: Dockerode.Container, Cmd: string[]): Promise<number> {
  const exec = await host.exec({ Cmd, AttachStdout: true, AttachStderr: true });
  const stream = await exec.start({});
  for await (const _ of stream) {
    // Its end is the end of the command.
  }
  return (await exec.inspect()).ExitCode ?? Number.NaN;
}

async function runOnce(
  client: Dockerode,
  what: { readonly Image: string; readonly Cmd: string[] },
): Promise<number> {
  const container = await client.createContainer({ ...what, HostConfig: QUIET });
  try {
    await container.start();
    return (await container.wait()).StatusCode;
  } finally {
    await container.remove({ force: true });
  }
}
