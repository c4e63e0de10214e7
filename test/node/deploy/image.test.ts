// @module-tag rest
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { PYTHON } from "../../support/clients/duckdb.ts";
import { ROOT } from "../../support/dev-server.ts";
import { findEngines, type TestEngine } from "../../support/engines.ts";
import { eventually } from "../../support/eventually.ts";
import { blocksOfPage } from "../../support/pages.ts";
import { mustRun, run } from "../../support/processes.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

const PAGE = "docs/image.md";
const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const MARK = `${process.pid}`;
const IMAGE = `sluice-image-test-${MARK}`;
const engines = await findEngines();
const hasCompose = (await run([PYTHON, "-c", "import podman_compose"])).code === 0;
const HOME = scratchFolder();
const OWN = process.arch === "x64" ? "amd64" : process.arch;
/** npm fetches what is for the other architecture: from where this machine's settings say, which may be in the environment. */
const CACHE = Object.fromEntries(
  Object.entries({ HOME: "/root", ...process.env }).filter(([name]) =>
    /^(HOME$|npm_config_|NODE_EXTRA_CA)/i.test(name),
  ),
);

/** The engine's own command line, told where the engine is. */
function commandLine(engine: TestEngine) {
  const docker = engine.name === "docker";
  return {
    program: docker ? "docker" : "podman",
    env: { HOME, [docker ? "DOCKER_HOST" : "CONTAINER_HOST"]: engine.host },
  };
}

const HOSTS = Object.fromEntries(
  engines.flatMap(({ name, engine }) =>
    engine ? [[name === "docker" ? "DOCKER_HOST" : "CONTAINER_HOST", engine.host]] : [],
  ),
);

/** An image of this machine's own files, so that nothing is pulled. */
const BASE = `localhost/sluice-image-base-${MARK}`;
const folder = join(scratchFolder(), "image");
let output: string;

beforeAll(async () => {
  const here = engines.flatMap(({ engine }) => engine ?? []);
  for (const engine of here) {
    await engine.client.getImage(await engine.image("base")).tag({ repo: BASE, tag: "latest" });
  }
  const builders = (here.length > 0 ? here.map(({ name }) => name) : ["none"]).flatMap((name) => [
    "--engine",
    name,
  ]);
  const options = ["--arch", "both", "--name", IMAGE, "--base", BASE, "--out", folder, ...builders];
  output = await mustRun(["npm", "run", "image", "--", ...options, "--", "--network", "none"], {
    cwd: ROOT,
    env: { ...CACHE, ...HOSTS },
  });
}, 600_000);

afterAll(async () => {
  for (const { engine } of engines) {
    for (const name of [`${IMAGE}:${version}`, IMAGE, `${IMAGE}-recipe`, BASE]) await engine?.forget(name);
    await engine?.close();
  }
  removeScratch(join(folder, ".."));
  removeScratch(HOME);
}, 300_000);

test("the folder has Node and workerd for each architecture, and all else once", () => {
  const kinds = {
    amd64: [62, "/lib64/ld-linux-x86-64.so.2", "workerd-linux-64"],
    arm64: [183, "/lib/ld-linux-aarch64.so.1", "workerd-linux-arm64"],
  } as const;
  for (const [arch, [machine, loader, workerd]] of Object.entries(kinds)) {
    for (const program of ["node/bin/node", `workerd/${workerd}/bin/workerd`]) {
      const head = readFileSync(join(folder, arch, program)).subarray(0, 4096);
      expect([head.readUInt32BE(0), head.readUInt16LE(18)], program).toEqual([0x7f454c46, machine]);
      // Where Debian has it.
      expect(head.toString("latin1"), program).toContain(`${loader}\0`);
    }
  }
  const names = [
    ".dockerignore",
    "Containerfile",
    "amd64",
    "arm64",
    "healthcheck.sh",
    "node_modules",
    "sluice",
  ];
  expect(readdirSync(folder).toSorted()).toEqual(names);
});

describe.each(engines)("$name", ({ engine, name: kind }) => {
  const container = `sluice-${kind}-${MARK}`;
  const volume = `${container}-data`;
  const data = scratchFolder();

  /** A block of the page, with names of this test's own: others may run here, too. */
  function told(block: string): string {
    return block
      .replaceAll("--name sluice ", `--name ${container} `)
      .replaceAll(/exec (-i )?sluice /g, `exec $1${container} `)
      .replaceAll("-p 127.0.0.1:8787:8787", "-p 127.0.0.1::8787")
      .replaceAll(/(-v )\S+\.sock:/g, `$1${engine?.socket}:`)
      .replaceAll("sluice-data:", `${volume}:`);
  }

  async function type(block: string): Promise<string> {
    if (!engine) throw new Error("no engine");
    const { program, env } = commandLine(engine);
    const text = told(block).replaceAll(/^docker |\bdocker (?=exec)/gm, `${program} `);
    return mustRun(["sh", "-euc", text], { env });
  }

  const blocks = blocksOfPage(PAGE).filter(({ language }) => language === "sh");
  const blockWith = (...words: string[]) =>
    blocks.find(({ text }) => words.every((word) => text.includes(word)))?.text ?? "";
  const ready = `until docker exec sluice sluice-healthcheck; do sleep 0.2; done\n`;
  const inside = (command: string) => type(`docker exec sluice ${command}\n`);

  afterAll(async () => {
    if (engine)
      await type(
        [
          `docker rm -f ${container} ${container}-runner`,
          `docker volume rm -f ${volume} ${volume}-runner`,
          "",
        ].join("\n"),
      );
    removeScratch(data);
  });

  const Healthcheck = z.object({ Test: z.array(z.string()) });
  const Inspected = z.object({
    Size: z.int(),
    RootFS: z.object({ Layers: z.array(z.string()) }),
    Config: z.object({
      Env: z.array(z.string()),
      Labels: z.record(z.string(), z.string()),
      Healthcheck: Healthcheck.optional(),
    }),
    /** Podman has it here. */
    Healthcheck: Healthcheck.optional(),
  });
  const inspect = async (image: string) => {
    const [one] = z.tuple([Inspected]).parse(JSON.parse(await type(`docker image inspect ${image}\n`)));
    return one;
  };
  /** What is in an image, by the links' and files' own paths. */
  const filesOf = async (image: string) =>
    (await type(`docker run --rm --network none --entrypoint find ${image} / -xdev ! -type d\n`))
      .trim()
      .split("\n");

  test.skipIf(!engine)("is no larger than it says it is", async () => {
    const { Size } = await inspect(`${IMAGE}:latest`);
    const line = `${kind.padEnd(8)} ${IMAGE}:${version}, ${IMAGE}:latest: ${(Size / 1e6).toFixed(0)} MB`;
    expect(output).toContain(line);
    expect(Size / 1e6).toBeLessThan(420);
  });

  test.skipIf(!engine)("has no key and no secret, and says what it is", async () => {
    const { Config, Healthcheck } = await inspect(`${IMAGE}:latest`);
    expect(Config.Env.filter((line) => /KEY|SECRET|TOKEN|PASSWORD/.test(line))).toEqual([]);
    expect(Config.Labels).toMatchObject({
      "org.opencontainers.image.title": "sluice",
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.licenses": "Apache-2.0",
    });
    expect((Config.Healthcheck ?? Healthcheck)?.Test).toEqual(["CMD", "sluice-healthcheck"]);
    const files = await filesOf(IMAGE);
    expect(
      files.filter((path) => /root-key|encryption-key|\.npmrc$|\.dev\.vars|\/\.env$/.test(path)),
    ).toEqual([]);
    expect(files.filter((path) => /\.(map|d\.ts)$/.test(path))).toEqual([]);
    expect(files.filter((path) => /\/node_modules\/(.*\/)?(sharp|@img|@?esbuild)\//.test(path))).toEqual([]);
    for (const one of ["node", "sluice", "sluice/node_modules/zod"])
      expect(files).toContain(`/opt/${one}/LICENSE`);
  });

  test.skipIf(!engine)(
    "has all of Sluice in the folder that the recipe for an image with other tools copies",
    async () => {
      const before = new Set(await filesOf(BASE));
      const added = (await filesOf(IMAGE)).filter(
        (path) => !before.has(path) && !/^\/(proc|sys|dev|opt)\//.test(path),
      );
      const own = [
        "/etc/group",
        "/home/sluice/.sluice",
        "/usr/local/bin/sluice",
        "/usr/local/bin/sluice-healthcheck",
      ];
      expect(added.toSorted()).toEqual(own);
      const recipe =
        blocksOfPage("docs/runners.md").find(({ language }) => language === "dockerfile")?.text ?? "";
      const from = /^FROM \S+$/m;
      const packages = /^RUN apt-get .*$/m;
      const copied = "registry.example.org/sluice:0.1.0";
      for (const part of [from, packages, new RegExp(`^COPY --from=${copied} /opt /opt$`, "m")])
        expect(recipe).toMatch(part);
      // Of this test's base, which has the packages.
      const at = join(HOME, `recipe-${kind}`);
      mkdirSync(at);
      writeFileSync(
        join(at, "Dockerfile"),
        recipe.replace(from, `FROM ${BASE}`).replace(packages, "").replace(copied, IMAGE),
      );
      await type(`docker build --network none -t ${IMAGE}-recipe ${at}\n`);
      const said = await type(`docker run --rm --network none ${IMAGE}-recipe --version\n`);
      expect(said.trim()).toBe(version);
    },
    120_000,
  );

  test.skipIf(!engine)(
    "costs an update what it changes: another Sluice is another last layer",
    async () => {
      const { RootFS: before } = await inspect(`${IMAGE}:latest`);
      appendFileSync(join(folder, "sluice/LICENSE"), "\n");
      const format = kind === "podman" ? "--format docker" : "";
      const args = `--build-arg=TARGETARCH=${OWN} --build-arg=BASE=${BASE} --network none ${format}`;
      await type(`docker build ${args} -f ${folder}/Containerfile -t ${IMAGE}-update ${folder}\n`);
      const { RootFS } = await inspect(`${IMAGE}-update`);
      await engine?.forget(`${IMAGE}-update`);
      expect(RootFS.Layers.length).toBe(before.Layers.length);
      expect(RootFS.Layers.filter((layer) => !before.Layers.includes(layer))).toEqual([RootFS.Layers.at(-1)]);
    },
    120_000,
  );

  test.skipIf(!engine)(
    "runs a pipeline in the image of its specification, through the engine's socket",
    async () => {
      const start = blockWith("docker.sock:", "-v /srv/sluice");
      const own = kind === "docker" ? start : `${blockWith("podman run")}\n${start.split("\n").at(-2)}\n`;
      const at = `dev --host 0.0.0.0 --data ${data} --wait-for-engine`;
      // The folder of this test, and that where commands inside look.
      const begin = own
        .replaceAll("-v /srv/sluice:/srv/sluice", `-v ${data}:/srv/sluice -v ${data}:${data}`)
        .replace("mkdir -p /srv/sluice\n", "")
        .replaceAll(/ sluice$/gm, ` ${IMAGE} ${at}`);
      await type(begin);
      const image = (await engine?.image("busybox")) ?? "";
      const printed = await type(blockWith("pipeline create").replace('"busybox"', `"${image}"`));
      expect(printed.trim().split("\n").at(-1)).toBe("6");
      expect(await inside("sluice node list --json")).toMatch(new RegExp(`"executor": ?"${kind}"`));
      expect(await inside("sluice commit inspect count/hamlet.txt")).toMatch(/busybox-.*@sha256|sha256:/);
      // The key is that of the first start, also for a container of a newer image.
      const key = await inside("sluice env --json");
      await type(`docker stop -t 60 ${container}\ndocker rm ${container}\n`);
      await type(begin);
      expect(JSON.parse(await inside("sluice env --json"))).toEqual(JSON.parse(key));
      // What it made goes on: of a second file, that one alone is counted.
      await type("echo 'that is the question' | docker exec -i sluice sluice cp - s3://texts/more.txt\n");
      expect(await inside("sluice commit wait master.texts")).toMatch(
        / count +success +1 processed, 1 skipped/,
      );
      // The runner's data is where it is outside, whatever leads there; what else runs commands need not be here. Whether the
      // disk of who tests is large enough for a cache is theirs.
      const doctor = JSON.parse(await inside("sh -c 'sluice doctor --json || true'")) as {
        findings: { check: string; state: string; found: string }[];
      };
      expect(doctor.findings.find(({ check }) => check === "data")?.found).toMatch(
        /^\/srv\/sluice\/runner: /,
      );
      expect(doctor.findings.filter(({ check, state }) => state !== "ok" && check !== "data")).toEqual([]);
      // A datum's container is the engine's own, beside this one.
      await type(`docker stop -t 60 ${container}\n`);
      const code = await type(`docker inspect --format '{{.State.ExitCode}}' ${container}\n`);
      expect(code.trim()).toBe("0");
      // Others that run here have containers of their own.
      const all = (await engine?.containers()) ?? [];
      const left = all.filter(({ Labels }) => Labels["sluice.worker-dir"]?.startsWith(`${data}/`));
      expect(left).toEqual([]);
      await type(`docker rm ${container}\n`);
    },
    120_000,
  );

  // What Compose there is to install speaks to Podman.
  if (kind === "podman")
    test.skipIf(!engine || !hasCompose)(
      "the compose file starts it with the folder, and with the root key of its caller",
      async () => {
        if (!engine) throw new Error("no engine");
        const { program, env } = commandLine(engine);
        const name = `${container}-compose`;
        const folder = join(data, "composed");
        mkdirSync(folder);
        const file = composeFile({ name, folder, socket: engine.socket });
        const compose = (args: readonly string[], key: Record<string, string>) =>
          run([PYTHON, "-m", "podman_compose", "--in-pod=false", "-f", file, ...args], {
            env: { ...env, SLUICE_IMAGE: IMAGE, ...key },
          });
        const key = { SLUICE_ACCESS_KEY_ID: "composed", SLUICE_SECRET_ACCESS_KEY: `of-${MARK}-and-more` };
        try {
          const { code, stderr } = await compose(["up", "-d"], key);
          expect(code, stderr).toBe(0);
          const inIt = (command: string) =>
            mustRun(["sh", "-c", `${program} exec ${name} ${command}`], { env });
          await mustRun(
            ["sh", "-c", `until ${program} exec ${name} sluice-healthcheck; do sleep 0.2; done`],
            { env },
          );
          expect(await inIt("sluice whoami")).toContain("composed");
          expect(await inIt("sluice node list --json")).toMatch(/"executor": ?"podman"/);
          expect(readdirSync(folder).length).toBeGreaterThan(0);
          const down = await compose(["down"], key);
          expect(down.code, down.stderr).toBe(0);
        } finally {
          await mustRun([program, "rm", "-f", "-i", name], { env });
        }
      },
      120_000,
    );

  // The engine matters little here.
  if (kind !== "docker") return;
  test.skipIf(!engine)(
    "without a socket and without any right it serves S3 and the console, and says why pipelines wait",
    async () => {
      await type(blockWith("--cap-drop").replaceAll(/ sluice$/gm, ` ${IMAGE}`));
      await type(ready);
      await type("echo hi | docker exec -i sluice sluice cp --create - s3://texts/a\n");
      expect(await inside("sluice cat s3://texts/a")).toBe("hi\n");
      const page = await inside("wget -q -O - http://127.0.0.1:8787/console");
      expect(page).toMatch(/src="\/console\/assets\/main-/);
      const spec = { pipeline: { name: "count" }, transform: { image: "busybox", cmd: ["true"] } };
      const inputs = [{ repo: { name: "texts" }, glob: "/*" }];
      await type(
        `echo '${JSON.stringify({ ...spec, inputs })}' | docker exec -i sluice sluice pipeline create -f -\n`,
      );
      const why =
        /no container engine answers \(docker: .*-v \/var\/run\/docker\.sock:\/var\/run\/docker\.sock/;
      await eventually("the job says what it waits for", async () =>
        why.test(await inside("sluice job list --json --pipeline count")),
      );
      expect(await type("docker logs sluice 2>&1\n".replace("logs sluice", `logs ${container}`))).toMatch(
        why,
      );
      expect(await inside("sluice node list --json")).toMatch(/"executor": ?"none"/);
      // A runner beside it, whose user has no rights either, does the work with the tools of the image.
      const { SLUICE_ACCESS_KEY_ID: id, SLUICE_SECRET_ACCESS_KEY: secret } = JSON.parse(
        await inside("sluice env --json"),
      );
      const key = `-e SLUICE_ACCESS_KEY_ID=${id} -e SLUICE_SECRET_ACCESS_KEY=${secret}`;
      const block =
        blocksOfPage("docs/runners.md").find(({ text }) => text.includes("--cap-drop"))?.text ?? "";
      await type(
        block
          .replace("--name sluice-runner", `--name ${container}-runner`)
          .replace("sluice-runner:", `${volume}-runner:`)
          .replace("--env-file runner.env", `--network container:${container} ${key}`)
          .replace(/ sluice \\\n/, ` -e SLUICE_ENDPOINT=http://127.0.0.1:8787 ${IMAGE} \\\n`),
      );
      expect(await inside("sluice commit wait texts --timeout 60")).toMatch(/ count +success +1 processed/);
      await type(`docker stop -t 60 ${container}-runner\n`);
      const doctor = await inside("sh -c 'sluice doctor || true'");
      expect(doctor).toContain("-v /var/run/docker.sock:/var/run/docker.sock");
      await eventually("Docker takes it for healthy", async () => {
        const health = `docker inspect --format '{{.State.Health.Status}}' ${container}\n`;
        return (await type(health)).trim() === "healthy";
      });
    },
    120_000,
  );
});

/** The compose file with a name, a folder and a socket of this test's own, in an engine without networks. */
function composeFile({ name, folder, socket }: { name: string; folder: string; socket: string }): string {
  const told = readFileSync(join(ROOT, "deploy/compose.yaml"), "utf8")
    .replaceAll("/srv/sluice", folder)
    .replace("/var/run/docker.sock:/var/run/docker.sock", `${socket}:/run/podman/podman.sock`);
  const { services, ...rest } = z
    .object({ services: z.object({ sluice: z.looseObject({}) }) })
    .loose()
    .parse(parse(told));
  const command = ["dev", "--host", "0.0.0.0", "--data", folder, "--wait-for-engine"];
  const sluice = { ...services.sluice, container_name: name, network_mode: "none", command };
  const file = join(HOME, `${name}.yaml`);
  writeFileSync(file, stringify({ ...rest, name, services: { sluice } }));
  return file;
}

test("without an engine it is told at once what to do", async () => {
  const none = join(HOME, "no-programs");
  mkdirSync(none);
  const make = [process.execPath, "scripts/image.ts", "--out", join(HOME, "none")];
  const { code, stderr } = await run(make, { cwd: ROOT, env: { PATH: none } });
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr:
      "error: there is no answer from docker (it is not installed) nor podman (it is not installed): start it, or take --engine none for the folder alone, which any builder of images takes\n",
  });
  const deaf = [...make, "--engine", "docker", "--engine", "podman"];
  const away = { DOCKER_HOST: "unix:///nowhere.sock", CONTAINER_HOST: "unix:///nowhere.sock" };
  expect((await run(deaf, { cwd: ROOT, env: { HOME, ...away } })).stderr).toMatch(
    /^error: there is no answer from docker \(.+\) nor podman \(.+\): /,
  );
});

test("a folder that holds something else is not replaced by a layout", async () => {
  const folder = join(HOME, "mine");
  mkdirSync(folder);
  writeFileSync(join(folder, "thesis.txt"), "precious");
  const make = [process.execPath, "scripts/image.ts", "--engine", "none", "--out", folder];
  const { code, stderr } = await run(make, { cwd: ROOT });
  expect({ code, stderr }).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("holds something else"),
  });
  expect(readFileSync(join(folder, "thesis.txt"), "utf8")).toBe("precious");
});

// The rules of Docker come before those of a machine's firewall: a port without an address is open to the world.
test.each(["README.md", PAGE])("the commands of %s publish ports on this machine alone", (page) => {
  const published = blocksOfPage(page).flatMap(({ text }) =>
    [...text.matchAll(/ (?:-p|--publish) (\d\S*)/g)].map(([, port = ""]) => port),
  );
  expect(published.length).toBeGreaterThan(0);
  expect(published.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
});

test("the compose file and the page's CI job are the page's first command, with the same mounts and ports", () => {
  const [, start] = blocksOfPage(PAGE);
  const options = (flag: string) =>
    [...(start?.text.matchAll(new RegExp(`${flag} (\\S+)`, "g")) ?? [])].map(([, value = ""]) => value);
  const Service = z.strictObject({
    image: z.string(),
    ports: z.array(z.string()),
    volumes: z.array(z.string()),
    restart: z.literal("unless-stopped").optional(),
    stop_grace_period: z.string().optional(),
    environment: z.record(z.string(), z.string()).optional(),
    env: z.record(z.string(), z.string()).optional(),
  });
  const Compose = z.strictObject({ name: z.string(), services: z.object({ sluice: Service }) });
  const compose = Compose.parse(parse(readFileSync(join(ROOT, "deploy/compose.yaml"), "utf8"))).services
    .sluice;
  const workflow = blocksOfPage(PAGE).find(({ language }) => language === "yaml")?.text ?? "";
  const Job = z.object({ services: z.object({ sluice: Service }) });
  const service = z.object({ jobs: z.object({ test: Job }) }).parse(parse(workflow)).jobs.test
    .services.sluice;
  for (const { ports, volumes, environment, env } of [compose, service]) {
    expect(ports).toEqual(options("-p"));
    expect(volumes).toEqual(options("-v"));
    // A root key of one's own. The page's command leaves it to the first start.
    expect(Object.keys({ ...environment, ...env })).toEqual([
      "SLUICE_ACCESS_KEY_ID",
      "SLUICE_SECRET_ACCESS_KEY",
    ]);
  }
  expect(compose.image).toBe(`\${SLUICE_IMAGE:-sluice:latest}`);
  for (const [name, value] of Object.entries(compose.environment ?? {})) expect(value).toBe(`\${${name}:-}`);
});
