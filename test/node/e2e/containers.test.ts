// @module-tag rest
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { type DevServer, sluiceOk, startDevServer, startRunner } from "../../support/dev-server.ts";
import { findEngines, TEST_REGISTRY } from "../../support/engines.ts";
import { eventually } from "../../support/eventually.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const HOST_VARIABLE = { docker: "DOCKER_HOST", podman: "CONTAINER_HOST" };

for (const { name, engine } of await findEngines()) {
  describe(`pipelines in containers of ${name}`, { timeout: 240_000 }, () => {
    let server: DevServer;
    let control: Control;
    let s3: S3;
    let secrets: string;

    beforeAll(async () => {
      if (!engine) return;
      server = await startDevServer();
      control = new Control(server);
      s3 = new S3(server);
      secrets = scratchFolder();
    });
    afterAll(async () => {
      await server?.stop();
      await engine?.close();
      if (secrets) removeScratch(secrets);
    });

    const start = () => {
      if (!engine) throw new Error(`${name} is not here`);
      const variables = { [HOST_VARIABLE[name]]: engine.host, SLUICE_SECRETS: secrets };
      return startRunner(server, { node: `with-${name}`, executor: name, variables });
    };
    const logsOf = (job: string) => sluiceOk(server, "job", "logs", job, "--json");

    test.skipIf(!engine)(
      `${name}: the command runs in its image, reads its datum, writes its output, and is heard`,
      async () => {
        await using runner = disposable(start());
        await s3.createBucket("master.texts");
        await s3.put("master.texts", "a", "one\n");
        await s3.put("master.texts", "b", "two\n");
        await control.createPipeline({
          pipeline: { name: "upper" },
          transform: {
            image: await engine?.image("settings"),
            cmd: ["sh", "-eu"],
            stdin: [
              "cat $texts",
              "tr a-z A-Z < $texts > /pfs/out/$(basename $texts)",
              "pwd; echo $FROM_IMAGE",
            ],
          },
          parallelism_spec: { strategy: "CONSTANT", constant: 1 },
          inputs: [{ repo: { name: "texts" }, glob: "/*" }],
        });
        const [job] = await control.ended("upper", { count: 1 });
        expect(job).toMatchObject({ state: "success", datums: { total: 2, processed: 2 } });
        expect(String(await s3.get("master.upper", "a"))).toBe("ONE\n");
        expect(String(await s3.get("master.upper", "b"))).toBe("TWO\n");
        const said = await logsOf(job?.id ?? "");
        for (const line of ["one", "two", "/tmp", "image"]) expect(said).toContain(`"line":"${line}"`);
        const made = JSON.parse(await sluiceOk(server, "commit", "inspect", "master.upper/a", "--json"));
        expect(made.provenance.datums[0].code).toEqual({
          version: 1,
          node: `with-${name}`,
          executor: name,
          image: expect.stringMatching(/(^|@)sha256:[0-9a-f]{64}$/),
        });
        await control.deletePipeline("upper");
        expect(runner.output()).not.toContain('"level":50');
      },
    );

    test.skipIf(!engine || !TEST_REGISTRY)(
      `${name}: a private image is pulled with its pull secret; until then the job says why it waits`,
      async () => {
        if (!engine || !TEST_REGISTRY) return;
        const { repo } = await engine.publish("busybox", { registry: TEST_REGISTRY, tag: "private" });
        const image = `${repo}:private`;
        putPullSecret(secrets, "not the password");
        await using _ = disposable(start());
        await s3.createBucket("master.private");
        await s3.put("master.private", "a", "one\n");
        await control.createPipeline({
          pipeline: { name: "pulled" },
          transform: { image, cmd: ["cp", "/pfs/private/a", "/pfs/out/"], imagePullSecrets: ["registry"] },
          parallelism_spec: { strategy: "CONSTANT", constant: 1 },
          inputs: [{ repo: { name: "private" }, glob: "/*" }],
        });

        const waiting = await eventually("the job said why it waits", async () => {
          const [job] = await control.jobs("pulled");
          return job?.reason?.includes("can't be pulled") && job;
        });
        expect(waiting.reason).toContain(`with-${name}`);
        expect(waiting.reason).toContain(image);
        expect(waiting.reason).toMatch(/unauthorized/);
        expect(waiting).toMatchObject({ finishedAt: null, datums: { failed: 0 } });
        // While the worker tries again it holds a lease, and the job does not wait.
        await eventually("job inspect said so, too", async () =>
          (await sluiceOk(server, "job", "inspect", waiting.id)).includes("unauthorized"),
        );

        putPullSecret(secrets, TEST_REGISTRY.password);
        const [job] = await control.ended("pulled", { count: 1, withinMs: 200_000 });
        expect(job).toMatchObject({ state: "success", datums: { total: 1, processed: 1, failed: 0 } });
        expect(String(await s3.get("master.pulled", "a"))).toBe("one\n");
        await engine.forget(image);
      },
    );
  });
}

/** A secret as Kubernetes makes it for a registry, in a runner's folder of secrets. */
function putPullSecret(secrets: string, password: string): void {
  const { address = "", username = "" } = TEST_REGISTRY ?? {};
  const auth = Buffer.from(`${username}:${password}`).toString("base64");
  mkdirSync(join(secrets, "registry"), { recursive: true });
  const config = JSON.stringify({ auths: { [address]: { auth } } });
  writeFileSync(join(secrets, "registry", ".dockerconfigjson"), config);
}

function disposable<T extends { stop(): Promise<unknown> }>(started: T): T & AsyncDisposable {
  return { ...started, [Symbol.asyncDispose]: async () => void (await started.stop()) };
}
