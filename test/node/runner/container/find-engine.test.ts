import { once } from "node:events";
import { mkdir, mkdtemp, realpath } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { findEngine } from "../../../../runner/executors/container/engine/engine.ts";
import { NodeCondition, NoEngineError, NoExecutorError } from "../../../../runner/executors/executor.ts";
import { findEngines, openExecutor } from "../../../../runner/executors/open-executor.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";

type Components = { Name: string }[];
const DOCKER: Components = [{ Name: "Engine" }, { Name: "containerd" }];
const log = pino({ level: "silent" });
const PODMAN: Components = [{ Name: "Podman Engine" }, { Name: "Conmon" }];

describe("looking for a container engine", () => {
  let dir: string;
  let servers: Server[];

  beforeEach(async () => {
    dir = await realpath(await mkdtemp(join(tmpdir(), "sluice-engines-")));
    servers = [];
  });
  afterEach(async () => {
    for (const server of servers) {
      server.close();
      server.closeAllConnections();
    }
    await removeTree(dir);
  });

  /** Something that says that it is an engine of these components. */
  async function fake(name: string, Components: Components): Promise<string> {
    const server = createServer((request, answer) => {
      const said = request.url === "/version" ? { Version: "9.9", Components } : { NCPU: 4, PidsLimit: true };
      answer.setHeader("content-type", "application/json");
      answer.end(JSON.stringify(said));
    });
    servers.push(server);
    const path = join(dir, name);
    server.listen(path);
    await once(server, "listening");
    return path;
  }

  test("finds the one that the environment names, and what it is", async () => {
    const socket = await fake("d.sock", DOCKER);
    const found = await findEngine("docker", { DOCKER_HOST: `unix://${socket}` });
    expect(found).toMatchObject({ kind: "docker", version: "9.9", socket, cores: 4 });
  });

  test("podman behind DOCKER_HOST is podman", async () => {
    const DOCKER_HOST = `unix://${await fake("d.sock", PODMAN)}`;
    expect(await findEngine("docker", { DOCKER_HOST })).toEqual([
      `docker: ${DOCKER_HOST} (DOCKER_HOST): podman answers there`,
    ]);
    const found = await findEngine("podman", { DOCKER_HOST, XDG_RUNTIME_DIR: dir });
    expect(Array.isArray(found) ? undefined : found).toMatchObject({ kind: "podman" });
  });

  test("an engine on another machine is refused, with the reason", async () => {
    for (const DOCKER_HOST of ["tcp://10.0.0.1:2375", "ssh://host"]) {
      expect(await findEngine("docker", { DOCKER_HOST })).toEqual([
        `docker: ${DOCKER_HOST} (DOCKER_HOST): an engine on another machine can't see this one's folders; only unix:// addresses can be used`,
      ]);
    }
  });

  test("a socket that is not there, or that nobody answers at, is named", async () => {
    const missing = `unix://${join(dir, "none.sock")}`;
    expect(await findEngine("docker", { DOCKER_HOST: missing })).toEqual([
      `docker: ${missing} (DOCKER_HOST): there is no such socket`,
    ]);
    const path = await fake("dead.sock", DOCKER);
    const [server] = servers;
    server?.removeAllListeners("request");
    server?.on("request", (request) => request.socket.destroy());
    const [problem] = (await findEngine("docker", { DOCKER_HOST: `unix://${path}` })) as string[];
    expect(problem).toContain("does not answer");
  });

  test("an executor that was asked for and is not there is an error that says what was tried and what to do", async () => {
    const env = { DOCKER_HOST: "tcp://10.0.0.1:2375", CONTAINER_HOST: join(dir, "none.sock") };
    for (const choice of ["docker", "podman"] as const) {
      const terms = {
        executor: choice,
        dataDir: dir,
        agentDir: join(dir, "agents/1-1-x"),
        node: "n1",
        limits: {},
        log,
      };
      const refused = openExecutor(await findEngines(choice, env), terms);
      await expect(refused).rejects.toThrow(NoExecutorError);
      await expect(refused).rejects.toThrow(
        choice === "docker" ? /DOCKER_HOST\).*\n.*group docker/ : /no such socket\n.*podman\.socket/,
      );
    }
  });

  test("no engine is looked for where commands are to be processes", async () => {
    const DOCKER_HOST = `unix://${await fake("d.sock", DOCKER)}`;
    expect([...(await findEngines("process", { DOCKER_HOST }))]).toEqual([]);
  });

  test("auto takes no processes unless somebody said so, and then not silently in place of a network", async () => {
    const env = { DOCKER_HOST: join(dir, "none.sock"), CONTAINER_HOST: join(dir, "none.sock") };
    const engines = await findEngines("auto", env);
    await mkdir(join(dir, "agent"));
    const terms = {
      executor: "auto",
      dataDir: dir,
      agentDir: join(dir, "agent"),
      node: "n1",
      limits: {},
      log,
    } as const;
    const refused = openExecutor(engines, terms);
    await expect(refused).rejects.toThrow(NoEngineError);
    await expect(refused).rejects.toThrow(/^docker: .*no such socket\npodman: .*--executor process$/s);
    const allowed = { ...terms, withoutEngine: "process" } as const;
    await expect(
      openExecutor(engines, { ...terms, withoutEngine: "wait", devices: ["kvm"] }),
    ).rejects.toThrow('--device is "kvm", but containers get no devices');
    await expect(openExecutor(engines, { ...allowed, network: "none" })).rejects.toThrow(
      '--network is "none", but commands that run as processes',
    );
    const { executor } = await openExecutor(engines, allowed);
    await executor.close();
    expect(executor.name).toBe("process");
  });

  test("auto takes docker before podman", async () => {
    const env = {
      DOCKER_HOST: `unix://${await fake("d.sock", DOCKER)}`,
      CONTAINER_HOST: `unix://${await fake("p.sock", PODMAN)}`,
    };
    const terms = { dataDir: dir, agentDir: join(dir, "agents/1-1-x"), node: "n1", limits: {}, log };
    const names = [];
    for (const choice of ["auto", "podman"] as const) {
      const { executor, tool } = await openExecutor(await findEngines(choice, env), {
        ...terms,
        executor: choice,
      });
      names.push([executor.name, tool]);
      await executor.close();
    }
    expect(names).toEqual([
      ["docker", `docker 9.9 at ${join(dir, "d.sock")}`],
      ["podman", `podman 9.9 at ${join(dir, "p.sock")}`],
    ]);
  });

  test("an engine that was waited for is taken when it comes, and until then the node says what it lacks", async () => {
    const place = join(dir, "late.sock");
    vi.stubEnv("DOCKER_HOST", `unix://${place}`);
    vi.stubEnv("CONTAINER_HOST", `unix://${place}`);
    const terms = { dataDir: dir, agentDir: join(dir, "agents/1-1-x"), node: "n1", limits: {}, log };
    const waiting = { ...terms, executor: "auto", withoutEngine: "wait" } as const;
    const { executor } = await openExecutor(await findEngines("auto", process.env), waiting);
    const { signal } = new AbortController();
    const request = { dir, image: "busybox", pipeline: "p", pullSecrets: [], signal };
    const refused = executor.prepare(request);
    await expect(refused).rejects.toThrow(NodeCondition);
    await expect(refused).rejects.toThrow(
      /^no container engine answers \(docker: .*late\.sock.*no such socket; podman: .*-v \/var\/run\/docker\.sock/,
    );
    expect(executor.name).toBe("none");
    await fake("late.sock", DOCKER);
    // It knows no images, but it was found.
    await executor.prepare(request).catch(() => undefined);
    expect(executor.name).toBe("docker");
    await executor.close();
    vi.unstubAllEnvs();
  });
});
