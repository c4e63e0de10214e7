import { appendFileSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BLOCK_BYTES, paddingOf, readTarHeader } from "../../../cli/archive/tar.ts";
import { Redactor } from "../../../cli/output/redact.ts";
import { openKeptLog, readKeptLog } from "../../../embedded/data/kept-log.ts";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { run } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

/** The files of a gzipped tar, by their names without the folder. */
function partsOf(file: string): Map<string, string> {
  const tar = gunzipSync(readFileSync(file));
  const parts = new Map<string, string>();
  for (let at = 0; ; ) {
    const entry = readTarHeader(tar.subarray(at, at + BLOCK_BYTES));
    if (!entry) return parts;
    at += BLOCK_BYTES;
    parts.set(entry.name.replace(/^[^/]*\//, ""), tar.toString("utf8", at, at + entry.size));
    at += entry.size + paddingOf(entry.size);
  }
}

describe("secrets are taken out", () => {
  test.each([
    ["a presigned address", "GET /b/k?X-Amz-Credential=AKID%2F2026&X-Amz-Signature=HUSHHUSH&x=1", "x=1"],
    ["one of the older form", "/b/k?AWSAccessKeyId=id&Signature=HUSHHUSH%3D&Expires=1", "Expires=1"],
    ["one of Azure", "https://a.blob.core.windows.net/c/b?sv=1&sig=HUSHHUSH%2B&se=2", "se=2"],
    ["a token of a session", "?X-Amz-Security-Token=HUSHHUSH/abc", "?"],
    [
      "a signed header",
      "authorization: AWS4-HMAC-SHA256 Credential=k/x, Signature=HUSHHUSH",
      "authorization",
    ],
    ["a header in JSON", '{"authorization":"Basic HUSHHUSH==","status":403}', '"status":403'],
    ["a bearer", "sent Bearer HUSHHUSH.abc.def and more", "and more"],
    ["an address with a password", "postgres://user:HUSHHUSH@db:5432/x", "@db:5432/x"],
    ["a variable", "PGPASSWORD=HUSHHUSH psql", "psql"],
    ["a field", '{"clientSecretKey": "HUSHHUSH", "name": "n"}', '"name": "n"'],
    ["a field in a text in JSON", '{"msg":"{\\"apiKey\\":\\"HUSHHUSH\\"}","at":1}', '"at":1'],
    ["a grant", "x-sluice-grant: HUSHHUSH.abc", "x-sluice-grant"],
    [
      "a private key",
      "-----BEGIN RSA PRIVATE KEY-----\nHUSHHUSH\n-----END RSA PRIVATE KEY----- after",
      "after",
    ],
    ["a new key", '{"id":"k","secret":"HUSHHUSH","level":"read"}', '"level":"read"'],
    ["a client secret", "CLIENT_SECRET=HUSHHUSH node x", "node x"],
    ["a key of Azure", "AZURE_STORAGE_KEY=HUSHHUSH== az", " az"],
    ["a connection string", "AZURE_STORAGE_CONNECTION_STRING=AccountName=n;AccountKey=HUSHHUSH== az", " az"],
    ["a part of one", "AccountName=n;AccountKey=HUSHHUSH==;EndpointSuffix=e", "AccountName=n"],
    ["a field with spaces", '{"password":"correct horse HUSHHUSH","at":1}', '"at":1'],
    ["a field of a short word and more", '{"password":"abc HUSHHUSH","at":1}', '"at":1'],
    ["a field with a quote in it", '{"password":"a\\"HUSHHUSH","at":1}', '"at":1'],
    ["a field that ends with a backslash", '{"password":"HUSHHUSH\\\\","at":1}', '"at":1'],
    [
      "a field with a quote in a text in JSON",
      String.raw`{"msg":"{\"password\":\"a b\\\"HUSHHUSH\",\"n\":2}","at":1}`,
      String.raw`\"n\":2}","at":1}`,
    ],
    ["a field that is cut off", '{"password":"a b HUSHHUSH', '"password"'],
    ["an address in JSON", '"/b?sv=1\\u0026sig=HUSHHUSH\\u002bHUSHHUSH\\u0026se=2"', "se=2"],
    ["an address in an address", "/x?to=%2Fb%3Fa%3D1%26sig%3DHUSHHUSH&y=2", "y=2"],
    ["one that is written so twice", "/x?to=%252Fb%2526sig%253DHUSHHUSH&y=2", "y=2"],
    ["its token", "/x?to=%2Fb%26X-Amz-Security-Token%3DHUSHHUSH&y=2", "y=2"],
    ["a field of a presigned address", '{"X-Amz-Signature":"HUSHHUSH","at":1}', '"at":1'],
  ])("of %s", (_, text, stays) => {
    const told = new Redactor().text(text);
    expect(told).not.toContain("HUSHHUSH");
    expect(told).toContain(stays);
  });

  test("in every form of what is known, and nothing of what is no secret", () => {
    const redactor = new Redactor();
    const secret = 'p+w/"d=ä secret';
    redactor.add(secret);
    redactor.add("1");
    const forms = [
      secret,
      encodeURIComponent(secret),
      JSON.stringify(secret),
      Buffer.from(secret).toString("base64"),
    ];
    for (const form of forms) expect(redactor.text(`a ${form} b`)).toMatch(/^a "?\[redacted\]"? b$/);
    const plain =
      "job 01ABC of edges: 10 of 1000 datums failed; key SLUICE1234 may read, token bucket is empty";
    expect(redactor.text(plain)).toBe(plain);
    expect(redactor.value({ env: { A: "1" }, password: "x", n: [{ token: "t", ok: true }] })).toEqual({
      env: { A: "[redacted]" },
      password: "[redacted]",
      n: [{ token: "[redacted]", ok: true }],
    });
  });
});

describe("what stays", () => {
  test("is what a line of a log has besides, which is JSON as before", () => {
    const redactor = new Redactor();
    redactor.add("level-of-secrecy");
    const line = { level: 30, "level-of-secrecy": 1, msg: "PASSWORD=", other: 'say "level-of-secrecy"' };
    expect(JSON.parse(redactor.line(JSON.stringify(line)))).toEqual({ ...line, other: 'say "[redacted]"' });
    expect(redactor.line("no JSON, password=HUSHHUSH")).toBe("no JSON, password=[redacted]");
    const key = { level: 30, msg: "-----BEGIN PRIVATE KEY-----\nHUSHHUSH", at: 1 };
    expect(JSON.parse(redactor.line(JSON.stringify(key)))).toEqual({ ...key, msg: "[redacted]" });
  });

  test("is a name of a field, and a plain word that is no secret by its variable's name", () => {
    const redactor = new Redactor();
    redactor.addOfPipeline({ BRANCH: "master", LEVEL: "version", PASSWORD: "sesame", DB_URL: "hush-4711" });
    redactor.add("createdAt");
    expect(redactor.value({ version: 1, createdAt: 2, output: "master.texts" })).toEqual({
      version: 1,
      createdAt: 2,
      output: "master.texts",
    });
    expect(redactor.text("sesame and hush-4711")).toBe("[redacted] and [redacted]");
  });

  test("is what holds a key, and the key itself goes wherever it stands", () => {
    const redactor = new Redactor();
    redactor.addVariables({ AZURE_STORAGE_CONNECTION_STRING: "AccountName=some;AccountKey=HUSH/HUSH==;X=y" });
    redactor.addVariables({
      AZURE_STORAGE_KEY: "HUSHKEY1",
      CLIENT_SECRET: "HUSHKEY2",
      ORDER_KEYS: "a-list-of",
    });
    expect(redactor.text("some HUSH/HUSH== HUSHKEY1 HUSHKEY2 a-list-of")).toBe(
      "some [redacted] [redacted] [redacted] a-list-of",
    );
  });
});

describe("the kept log", () => {
  test("has the newest lines, never more than two files of 1 MiB, and nobody else reads it", () => {
    const data = scratchFolder();
    const log = openKeptLog(data);
    const line = (number: number) => `${number} ${"x".repeat(10_000)}`;
    for (let number = 0; number < 400; number++) log.write(`${line(number)}\n`);
    const files = [join(data, "gateway.log"), join(data, "gateway.log.1")];
    for (const file of files) {
      expect(statSync(file).size).toBeLessThanOrEqual(1024 * 1024);
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
    const lines = readKeptLog(data);
    expect(lines.at(-1)).toBe(line(399));
    expect(lines).toEqual(Array.from({ length: lines.length }, (_, at) => line(400 - lines.length + at)));
    expect(lines.join("\n").length).toBeGreaterThan(400_000);
    expect(lines.join("\n").length).toBeLessThanOrEqual(512 * 1024);
  });

  test("has a line that is too long in short, as JSON, and counts bytes", () => {
    const data = scratchFolder();
    const log = openKeptLog(data);
    log.write(`${JSON.stringify({ level: 50, time: 7, msg: `start ${"ä".repeat(2 * 1024 * 1024)}` })}\n`);
    for (let number = 0; number < 40; number++) log.write(`"${"ä".repeat(20_000)}"\n`);
    for (const file of [join(data, "gateway.log"), join(data, "gateway.log.1")])
      expect(statSync(file).size).toBeLessThanOrEqual(1024 * 1024);
    const [first = ""] = readFileSync(join(data, "gateway.log.1"), "utf8").split("\n");
    expect(Buffer.byteLength(first)).toBeLessThanOrEqual(64 * 1024);
    expect(JSON.parse(first)).toEqual({
      cut: expect.stringContaining('{"level":50,"time":7,"msg":"start ä'),
    });
  });

  test("begins a line anew behind one of which a full disk took only a part", () => {
    const data = scratchFolder();
    let room = Number.POSITIVE_INFINITY;
    const log = openKeptLog(data, {
      append(file, text) {
        appendFileSync(file, text.slice(0, room));
        if (text.length > room) throw new Error("ENOSPC: no space left on device");
      },
    });
    log.write('{"msg":"one"}\n');
    room = 5;
    log.write('{"msg":"two"}\n');
    room = 0;
    log.write('{"msg":"three"}\n');
    room = Number.POSITIVE_INFINITY;
    log.write('{"msg":"four"}\n');
    log.write('{"msg":"five"}\n');
    expect(readKeptLog(data)).toEqual(['{"msg":"one"}', '{"msg":"four"}', '{"msg":"five"}']);
  });

  test("keeps nothing from going on if there is no folder for it", () => {
    openKeptLog("/proc/none").write("line\n");
    expect(readKeptLog("/proc/none")).toEqual([]);
  });
});

describe("sluice support", () => {
  const ENCRYPTION_KEY = Buffer.from("an-encryption-key-of-32-bytes-xx").toString("base64");
  const HUSH = {
    env: "hush-of-a-variable-4711",
    logged: "hush-in-a-signature-4712",
    shell: "hush-of-the-shell-4713",
    old: "hush-of-the-key-of-before-4714",
    context: "hush-of-a-context-4715",
    printed: "hush-in-a-header-4716",
  };
  let server: DevServer;
  let folder: string;

  beforeAll(async () => {
    folder = scratchFolder();
    server = await startDevServer({
      variables: {
        SLUICE_ENCRYPTION_KEY: ENCRYPTION_KEY,
        SLUICE_REQUEST_LOG: "on",
        SLUICE_ACCESS_KEY_ID_PREVIOUS: "before",
        SLUICE_SECRET_ACCESS_KEY_PREVIOUS: HUSH.old,
      },
    });
  });
  afterAll(() => server?.stop());

  async function support(args: readonly string[], more: Record<string, string> = {}) {
    const env = { ...sluiceEnv(server), AWS_SECRET_ACCESS_KEY: HUSH.shell, XDG_CONFIG_HOME: folder, ...more };
    return await run(sluiceCommand(["support", ...args]), { cwd: folder, env });
  }

  function expectNoSecret(parts: Map<string, string>, more: readonly string[] = []): void {
    const all = [...parts.values()].join("\n");
    const secrets = [...Object.values(HUSH), server.secretAccessKey, ENCRYPTION_KEY, ...more];
    const forms = secrets.flatMap((secret) => [secret, Buffer.from(secret).toString("base64")]);
    expect(forms.filter((form) => all.includes(form))).toEqual([]);
  }

  test(
    "writes all that helps into one file, which has none of the secrets that lie in every place",
    REST,
    async () => {
      await sluiceOk(server, "mb", "s3://master.texts");
      const spec = {
        pipeline: { name: "count" },
        inputs: [{ repo: { name: "texts" }, glob: "/*" }],
        transform: { image: "busybox", cmd: ["sh", "-c", `echo ${HUSH.env}`], env: { DB_URL: HUSH.env } },
      };
      writeFileSync(join(folder, "count.json"), JSON.stringify(spec));
      await sluiceOk(server, "pipeline", "create", "-f", join(folder, "count.json"));
      writeFileSync(join(folder, "a"), "a");
      await sluiceOk(server, "cp", join(folder, "a"), "s3://master.texts/a");
      const made = JSON.parse(await sluiceOk(server, "key", "create", "--level", "read", "--json"));
      const env = { ...sluiceEnv(server), XDG_CONFIG_HOME: folder, SECRET: HUSH.context };
      const added = await run(
        [
          "sh",
          "-c",
          'printf %s "$SECRET" | "$@"',
          "sh",
          ...sluiceCommand(["context", "add", "other"]),
          "--endpoint",
          "http://127.0.0.1:1",
          "--key",
          "other-key",
        ],
        { cwd: folder, env },
      );
      expect(added.stderr.toString()).not.toContain("unknown");
      // As if requests had been told with all that they carry.
      const log = openKeptLog(server.data);
      log.write(`{"level":30,"msg":"GET /master.texts/a?X-Amz-Signature=${HUSH.logged}&x=1"}\n`);
      log.write(
        `{"level":30,"msg":"authorization: AWS4-HMAC-SHA256 Signature=${HUSH.printed}, ${HUSH.env}"}\n`,
      );
      // Nobody knows this secret any more: it goes by the name of its field.
      log.write(`${JSON.stringify({ level: 30, msg: `answered ${JSON.stringify(made)}` })}\n`);
      // What the gateway itself writes lacks the secrets that only it knows.
      for (const agent of [HUSH.old, ENCRYPTION_KEY, server.secretAccessKey]) {
        await (await fetch(`${server.endpoint}/master.texts/a`, { headers: { "user-agent": agent } })).text();
      }
      await eventually("the requests are in the log", async () => {
        const lines = readKeptLog(server.data);
        return lines.filter((line) => line.includes("[redacted]") && line.includes("agent")).length >= 3;
      });
      const kept = readKeptLog(server.data).join("\n");
      for (const secret of [HUSH.old, ENCRYPTION_KEY, server.secretAccessKey])
        expect(kept).not.toContain(secret);

      const out = join(folder, "all.tar.gz");
      const { code, stdout, stderr } = await support(["--out", out]);
      expect({ code, stderr }).toMatchObject({ code: 0 });
      expect(stdout.toString()).toMatch(new RegExp(`^${out}  `));
      expect(statSync(out).mode & 0o777).toBe(0o600);
      const parts = partsOf(out);
      // The folder of a gateway is looked into if it is named.
      expect([...parts.keys()]).toEqual([
        "README.txt",
        ...["doctor.json", "jobs.json", "key.json", "log.txt", "nodes.json", "now.json", "pipelines.json"],
        ...["ready.json", "settings.json", "usage.json", "versions.json"],
      ]);
      expectNoSecret(parts, [made.secret]);
      const json = (name: string) => JSON.parse(parts.get(name) ?? "null");
      expect(json("versions.json")).toMatchObject({
        sluice: expect.any(String),
        workerd: expect.any(String),
      });
      expect(json("pipelines.json").pipelines).toMatchObject([
        {
          ...{ name: "count", variables: ["DB_URL"] },
          loops: {
            loops: expect.arrayContaining([expect.objectContaining({ name: "inputs", tries: 0 })]),
          },
        },
      ]);
      expect(json("jobs.json").jobs[0].reason).toContain("no live runner");
      expect(json("settings.json").variables).toMatchObject({ AWS_SECRET_ACCESS_KEY: "[redacted]" });
      expect(json("ready.json")).toMatchObject({ ready: true });
      expect(parts.get("log.txt")).toContain("/master.texts/a?X-Amz-Signature=[redacted]&x=1");
      expect(parts.get("log.txt")).toContain(made.id);
      for (const name of parts.keys())
        expect(parts.get("README.txt")).toContain(name === "README.txt" ? "" : name);

      // It replaces nothing.
      const again = await support(["--out", out]);
      expect({ code: again.code, stderr: again.stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("is there already"),
      });
    },
  );

  test("has what this machine tells if the gateway is down, its log too", REST, async () => {
    await server.kill9();
    openKeptLog(server.data).write(`{"level":60,"msg":"it ended: X-Amz-Signature=${HUSH.logged}"}\n`);
    const { code, stdout } = await support(["--data", server.data, "--json"]);
    expect(code).toBe(0);
    const { file, missing } = JSON.parse(stdout.toString()) as { file: string; missing: { part: string }[] };
    expect(existsSync(file)).toBe(true);
    expect(missing).toEqual([{ part: "what the gateway tells", why: expect.any(String) }]);
    const parts = partsOf(file);
    expect(parts.get("log.txt")).toContain("it ended: X-Amz-Signature=[redacted]");
    expect(JSON.parse(parts.get("data-folder.json") ?? "null")).toMatchObject({ path: server.data });
    expect(parts.get("README.txt")).toContain("What could not be collected:");
    expectNoSecret(parts);
    await server.restart();
  });

  test("the gateway's log is for admins of all repos alone", REST, async () => {
    const key = JSON.parse(await sluiceOk(server, "key", "create", "--level", "write", "--json"));
    const limited = new Control({ ...server, accessKeyId: key.id, secretAccessKey: key.secret });
    expect((await limited.ask("GET", "/admin/log")).status).toBe(403);
    expect((await new Control(server).ask("GET", "/admin/log")).status).toBe(200);
  });
});
