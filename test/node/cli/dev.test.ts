import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { Control } from "../../support/control.ts";
import { ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { mustRun, run, type Started, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

const SLUICE = [process.execPath, join(ROOT, "bin/sluice.js")];
const started = new Set<Started>();

afterEach(async () => {
  for (const process of started) await process.stop();
  started.clear();
});

/** Starts `sluice dev` in a folder of its own, without a key in its environment; answers what it printed when it was ready. */
async function dev(cwd: string, ...args: string[]): Promise<{ greeting: Greeting; process: Started }> {
  const env = { XDG_CONFIG_HOME: join(cwd, "config") };
  const launched = start([...SLUICE, "dev", "--port", "0", "--json", ...args], { cwd, env });
  started.add(launched);
  const line = await eventually(
    "sluice dev has greeted",
    () => /^\{"endpoint".*\}$/m.exec(launched.output())?.[0],
  );
  return { greeting: JSON.parse(line), process: launched };
}

interface Greeting {
  readonly endpoint: string;
  readonly console: string;
  readonly data: string;
  readonly key: string;
  readonly sync: string;
  readonly runners: number;
  readonly executor?: string;
}

describe("sluice dev", () => {
  test("makes a key, and the other commands find gateway and key by the data folder alone", async () => {
    const cwd = scratchFolder();
    const { greeting } = await dev(cwd, "--runners", "0");
    expect(greeting).toMatchObject({ data: ".sluice", key: ".sluice/root-key.json", runners: 0 });
    expect(await (await fetch(greeting.console)).text()).toContain("<title>Sluice");
    expect(await mustRun([...SLUICE, "mb", "s3://master.found"], { cwd })).toBe("made s3://master.found\n");
    const elsewhere = scratchFolder();
    const data = join(cwd, ".sluice");
    expect(await mustRun([...SLUICE, "ls", "--data", data], { cwd: elsewhere })).toContain("master.found");
  });

  test("runs pipelines with as many runners as asked, and ends with 0 at SIGTERM", REST, async () => {
    const cwd = scratchFolder();
    const { greeting, process } = await dev(cwd, "--runners", "2", "--executor", "process");
    const nodes = await eventually("two nodes live", async () => {
      const door = { endpoint: greeting.endpoint, ...rootKey(cwd) };
      const answer = await new S3(door).ask("GET", "/api/v1/nodes");
      const list: { name: string; live: boolean }[] = JSON.parse(answer.text).nodes;
      return list.length === 2 && list.every(({ live }) => live) && list;
    });
    expect(nodes.map(({ name }) => name).sort()).toEqual(["local-1", "local-2"]);
    process.signal("SIGTERM");
    expect((await process.ended).code).toBe(0);
    expect(existsSync(join(cwd, ".sluice/gateway.json"))).toBe(false);
  });

  test(
    "says at its start if it does not wait for the disk, by the option or by the variable",
    REST,
    async () => {
      const { greeting } = await dev(scratchFolder(), "--runners", "0");
      expect(greeting.sync).toBe("on");
      const quick = await dev(scratchFolder(), "--runners", "0", "--sync", "off");
      expect(quick.greeting.sync).toBe("off");
      const cwd = scratchFolder();
      const env = { XDG_CONFIG_HOME: join(cwd, "config"), SLUICE_SYNC: "off" };
      const launched = start([...SLUICE, "dev", "--port", "0", "--runners", "0"], { cwd, env });
      started.add(launched);
      const says = /^sync {5}off: a power cut may lose files of the last seconds that are over 4 KiB$/m;
      await eventually("it is said", () => says.test(launched.output()));
    },
  );

  test("names a data folder that it can't write to", REST, async () => {
    const cwd = scratchFolder();
    // Also root can't open a folder as a file.
    mkdirSync(join(cwd, ".sluice/gateway.lock"), { recursive: true });
    const { code, stderr } = await run([...SLUICE, "dev", "--port", "0"], { cwd });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^error: the data folder .*\.sluice can't be used: .+\n$/),
    });
  });

  test("tells a port that is in use and ends with 1", REST, async () => {
    const { greeting } = await dev(scratchFolder(), "--runners", "0");
    const { port } = new URL(greeting.endpoint);
    const { code, stderr } = await run([...SLUICE, "dev", "--port", port], { cwd: scratchFolder() });
    expect(stderr).toBe(
      `error: 127.0.0.1:${port} is in use: choose another with --port, or stop what listens there\n`,
    );
    expect(code).toBe(1);
  });
});

describe("a command of a pipeline in sluice dev", () => {
  test(
    "sees nothing of the gateway's data folder and of the user's contexts, and people are told that it is a process",
    REST,
    async () => {
      const cwd = scratchFolder();
      const { greeting, process } = await dev(cwd, "--executor", "process");
      expect(greeting).toMatchObject({ runners: 1, executor: "process" });
      const door = { endpoint: greeting.endpoint, ...rootKey(cwd) };
      const s3 = new S3(door);
      await s3.createBucket("master.in");
      await s3.put("master.in", "file", "content");
      // After the runner has begun.
      const other = { SLUICE_ENDPOINT: "http://127.0.0.1:1", SLUICE_ACCESS_KEY_ID: "other-id" };
      const env = {
        XDG_CONFIG_HOME: join(cwd, "config"),
        SLUICE_SECRET_ACCESS_KEY: "other-secret",
        ...other,
      };
      await mustRun([...SLUICE, "context", "add", "other"], { cwd, env });
      const control = new Control(door);
      await control.createPipeline({
        pipeline: { name: "spy" },
        transform: {
          image: "any",
          cmd: ["sh"],
          stdin: [
            `ls -AR ${cwd}/.sluice ${cwd}/config; cat ${cwd}/.sluice/*.json ${cwd}/config/sluice/contexts/*.json; :`,
          ],
        },
        inputs: [{ repo: { name: "in" }, glob: "/*" }],
      });
      const [job] = await eventually("the job has ended", async () => {
        const jobs = await control.jobs("spy");
        return jobs[0]?.state === "success" && jobs;
      });
      const printed = await mustRun([...SLUICE, "job", "logs", job?.id ?? ""], { cwd });
      expect(printed).toContain("/.sluice");
      const secrets = [door.accessKeyId, door.secretAccessKey, "other-id", "other-secret", "other.json"];
      for (const secret of [".json\n", "encryption", "state", ...secrets]) {
        expect(printed.replace(`cat: '${cwd}/.sluice/*.json'`, "")).not.toContain(secret);
      }
      process.signal("SIGTERM");
      await process.ended;
    },
  );

  test(
    "is a process where no engine answers, which the greeting says; a runner would end with 2",
    REST,
    async () => {
      const cwd = scratchFolder();
      const env = { DOCKER_HOST: join(cwd, "none.sock"), CONTAINER_HOST: join(cwd, "none.sock") };
      const launched = start([...SLUICE, "dev", "--port", "0"], { cwd, env });
      started.add(launched);
      await eventually("sluice dev has greeted", () => launched.output().includes("In another terminal"));
      expect(launched.output()).toMatch(
        /^commands as processes with your rights and this machine's tools \(.*\), since no container engine answers here$/m,
      );
      // What it says to type there leads to this program and this gateway, whatever folder it is typed in.
      const [, typed = ""] = /^In another terminal: (.*)$/m.exec(launched.output()) ?? [];
      const said = await mustRun(["sh", "-euc", `${typed}; echo "$SLUICE_ENDPOINT $SLUICE_ACCESS_KEY_ID"`], {
        cwd: scratchFolder(),
      });
      expect(said).toContain(`http://127.0.0.1:`);
      expect(said.trim()).toMatch(new RegExp(` ${rootKey(cwd).accessKeyId}$`));
      const { code, stderr } = await run([...SLUICE, "runner", "--node", "other"], { cwd, env });
      expect(stderr).toMatch(/^error: no container engine answers here: .*--executor process\n {2}docker: /);
      expect(code).toBe(2);
    },
  );
});

describe("sluice dev with a datum at work", () => {
  /** Starts it with one runner, whose command has begun and waits for the file `go` in the folder that is answered. */
  async function atWork(): Promise<{ process: Started; folder: string; cwd: string }> {
    const cwd = scratchFolder();
    const folder = scratchFolder();
    const { greeting, process } = await dev(cwd, "--executor", "process");
    const door = { endpoint: greeting.endpoint, ...rootKey(cwd) };
    const s3 = new S3(door);
    await s3.createBucket("master.in");
    await s3.put("master.in", "file", "content");
    // Outside /pfs the process executor shows the host's own files, so the command and the test meet there.
    const wait = `touch ${folder}/started; until [ -e ${folder}/go ]; do sleep 0.1; done; cp /pfs/in/* /pfs/out/`;
    await new Control(door).createPipeline({
      pipeline: { name: "slow" },
      transform: { image: "busybox", cmd: ["sh", "-eu"], stdin: [wait] },
      inputs: [{ repo: { name: "in" }, glob: "/*" }],
    });
    await eventually("the command has started", () => existsSync(join(folder, "started")));
    return { process, folder, cwd };
  }

  /** Starts a gateway over what the data folder holds. Returns what tells the state and datums of the one job. */
  async function jobKept(cwd: string): Promise<() => Promise<unknown>> {
    const { greeting } = await dev(cwd, "--runners", "0");
    const control = new Control({ endpoint: greeting.endpoint, ...rootKey(cwd) });
    return async () => {
      const [job] = await control.jobs("slow");
      return { state: job?.state, processed: job?.datums.processed };
    };
  }

  test("finishes it at the first Ctrl-C, which reaches the whole process group", REST, async () => {
    const { process, folder, cwd } = await atWork();
    process.signal("SIGINT");
    await eventually("it drains", () => process.output().includes("draining"));
    writeFileSync(join(folder, "go"), "");
    expect((await process.ended).code).toBe(0);
    // The datum is done; its commit may be left to the next start.
    await expect.poll(await jobKept(cwd)).toEqual({ state: "success", processed: 1 });
  });

  test("gives it back at the second", REST, async () => {
    const { process, cwd } = await atWork();
    process.signal("SIGINT");
    await eventually("it drains", () => process.output().includes("draining"));
    process.signal("SIGINT");
    expect((await process.ended).code).toBe(0);
    expect(await (await jobKept(cwd))()).toEqual({ state: "running", processed: 0 });
  });
});

describe("sluice env", () => {
  test("prints exports that a shell understands, whatever is in the key", async () => {
    const env = {
      SLUICE_ENDPOINT: "http://127.0.0.1:1234",
      SLUICE_ACCESS_KEY_ID: "key",
      SLUICE_SECRET_ACCESS_KEY: 'it\'s $HOME `odd` "quoted"',
    };
    const script =
      'eval "$("$@")"; printf "%s\\n" "$AWS_ENDPOINT_URL" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY"';
    expect(await mustRun(["sh", "-euc", script, "sh", ...SLUICE, "env"], { env })).toBe(
      `${env.SLUICE_ENDPOINT}\nkey\n${env.SLUICE_SECRET_ACCESS_KEY}\n`,
    );
  });

  test(
    "takes the AWS names with an endpoint where ours are not set, and with --json prints an object",
    REST,
    async () => {
      const env = {
        ...{ AWS_ENDPOINT_URL: "http://127.0.0.1:8999", AWS_ACCESS_KEY_ID: "aws" },
        AWS_SECRET_ACCESS_KEY: "aws-secret",
      };
      const variables = JSON.parse(
        await mustRun([...SLUICE, "env", "--json"], { env, cwd: scratchFolder() }),
      );
      expect(variables).toMatchObject({
        SLUICE_ENDPOINT: "http://127.0.0.1:8999",
        SLUICE_ACCESS_KEY_ID: "aws",
        RCLONE_CONFIG_SLUICE_SECRET_ACCESS_KEY: "aws-secret",
      });
    },
  );
});

function rootKey(cwd: string): { accessKeyId: string; secretAccessKey: string } {
  return JSON.parse(readFileSync(join(cwd, ".sluice/root-key.json"), "utf8"));
}
