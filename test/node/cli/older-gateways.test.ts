import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { afterAll, describe, expect, test } from "vitest";
import { sluice } from "../../support/dev-server.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

/*
 * Gateways that do not know what this command line asks, or fail at what it asks beside the thing itself. Each is a stand-in that
 * answers a few calls in the words of a gateway.
 */

const stops: (() => void)[] = [];
const folder = scratchFolder();
afterAll(() => {
  for (const stop of stops) stop();
  removeScratch(folder);
});

interface Call {
  /** Method, path below `/api/v1`, and query. */
  readonly call: string;
  readonly body: unknown;
}

interface Reply {
  readonly status: number;
  /** A text is XML. */
  readonly body: unknown;
}

/** A gateway that answers by this rule, and what it was asked. */
async function standIn(answer: (call: string) => Reply) {
  const asked: Call[] = [];
  const server = createServer(async (request, response) => {
    const call = `${request.method} ${(request.url ?? "").replace("/api/v1", "")}`;
    asked.push({ call, body: request.method === "POST" ? await json(request) : undefined });
    const { status, body } = answer(call);
    const [type, text] =
      typeof body === "string" ? ["application/xml", body] : ["application/json", JSON.stringify(body)];
    response.writeHead(status, { "content-type": type }).end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { door: { endpoint, accessKeyId: "key", secretAccessKey: "secret" }, asked };
}

function good(body: unknown): Reply {
  return { status: 200, body };
}

function refusal(
  status: number,
  code: string,
  issues?: readonly { readonly path: string; readonly message: string }[],
): Reply {
  return { status, body: { error: { code, message: "The request has a problem.", issues }, requestId: "1" } };
}

/** A whole list of S3. */
function listing(keys: readonly string[]): Reply {
  const contents = keys.map(
    (key) =>
      `<Contents><Key>${key}</Key><Size>1</Size><ETag>"e"</ETag><LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>`,
  );
  return good(`<ListBucketResult><IsTruncated>false</IsTruncated>${contents.join("")}</ListBucketResult>`);
}

const SPEC = {
  pipeline: { name: "edges" },
  transform: { image: "busybox", cmd: ["true"] },
  inputs: [{ repo: { name: "images" }, glob: "/*" }],
};
const PIPELINE = {
  ...{ name: "edges", state: "active", version: 1, createdAt: 1, spec: SPEC },
  ...{ outputRepo: "edges", outputBranch: "master", reason: null },
};

function specFile(): string {
  const file = join(folder, "edges.json");
  writeFileSync(file, JSON.stringify(SPEC));
  return file;
}

describe("rb without --force", () => {
  test("leaves it to the gateway whether the bucket is empty, in the call that deletes it", async () => {
    const { door, asked } = await standIn((call) => {
      if (call.startsWith("DELETE")) return refusal(409, "NotEmpty");
      return call.startsWith("GET /master.images") ? listing([]) : good({ pipelines: [] });
    });
    const { code, stderr } = await sluice(door, "rb", "s3://images");
    expect([code, stderr]).toEqual([
      1,
      "error: s3://master.images holds files: add --force to remove them with it\n",
    ]);
    const deletions = asked.map(({ call }) => call).filter((call) => call.startsWith("DELETE"));
    expect(deletions).toEqual(["DELETE /repos/images/branches/master?empty=true"]);
  });
});

describe("a gateway that has no DELETE of branches", () => {
  test("is asked by rb --force as S3 has it", async () => {
    const { door, asked } = await standIn((call) => {
      if (call === "DELETE /repos/images/branches/master") return refusal(405, "MethodNotAllowed");
      return call === "DELETE /master.images" ? { status: 204, body: undefined } : good({ pipelines: [] });
    });
    const { code, stdout, stderr } = await sluice(door, "rb", "--force", "s3://images");
    expect([code, stdout.toString(), stderr]).toEqual([0, "removed s3://master.images\n", ""]);
    expect(asked.at(-1)?.call).toBe("DELETE /master.images");
  });

  test.each([
    { keys: [], exit: 0, says: "", last: "DELETE /master.images" },
    {
      ...{ keys: ["a"], exit: 1, last: "GET /master.images" },
      says: "error: s3://master.images holds files: add --force to remove them with it\n",
    },
  ])("is asked by rb what the bucket has before it is asked to delete it ($keys)", async ({
    keys,
    exit,
    says,
    last,
  }) => {
    const { door, asked } = await standIn((call) => {
      if (call.startsWith("DELETE /repos/")) return refusal(405, "MethodNotAllowed");
      if (call.startsWith("DELETE")) return { status: 204, body: undefined };
      return call.startsWith("GET /master.images") ? listing(keys) : good({ pipelines: [] });
    });
    const { code, stderr } = await sluice(door, "rb", "s3://images");
    expect([code, stderr]).toEqual([exit, says]);
    expect(asked.at(-1)?.call.split("?")[0]).toBe(last);
  });

  test("makes no plain bucket, and mb --plain says why", async () => {
    const message = "there is no field 'emptyOnly': leave it out; there are name, from";
    const { door, asked } = await standIn(() =>
      refusal(400, "InvalidRequest", [{ path: "emptyOnly", message }]),
    );
    const { code, stderr } = await sluice(door, "mb", "--plain", "s3://images");
    expect([code, stderr]).toEqual([
      1,
      "error: the gateway is of a release that makes no plain buckets: leave out --plain\n",
    ]);
    const settings = { keep: { days: 1 }, lastModified: "object", emptyOnly: true };
    expect(asked).toEqual([{ call: "POST /repos/images/branches", body: { name: "master", ...settings } }]);
  });
});

describe("a gateway of before texts of specifications", () => {
  const NO_TEXT = [
    { path: "text", message: "there is no field 'text': leave it out; there are dryRun, update, reprocess" },
  ];

  test.each([
    { verb: "create", query: "", says: "created edges; its output is s3://master.edges\n" },
    { verb: "update", query: "update=true", says: "edges is at version 1 of its spec\n" },
  ])("is given the specification without it by pipeline $verb, which says so", async ({
    verb,
    query,
    says,
  }) => {
    const { door, asked } = await standIn((call) => {
      if (call.includes("text=true")) return refusal(400, "InvalidRequest", NO_TEXT);
      return call.includes("dryRun") ? refusal(404, "NotFound") : good(PIPELINE);
    });
    const { code, stdout, stderr } = await sluice(door, "pipeline", verb, "-f", specFile());
    expect({ code, stdout: stdout.toString(), stderr }).toEqual({
      code: 0,
      stdout: says,
      stderr: "the text of the spec is not kept: the gateway is of a release that keeps none\n",
    });
    const last = asked.filter(({ call }) => !call.includes("dryRun")).at(-1);
    expect(last).toEqual({ call: `POST /pipelines${query === "" ? "" : `?${query}`}`, body: SPEC });
  });

  test("is not asked again if the specification is what it refuses", async () => {
    const { door, asked } = await standIn(() =>
      refusal(400, "InvalidRequest", [
        { path: "text", message: "comes to another specification than 'spec'" },
      ]),
    );
    const { code, stderr } = await sluice(door, "pipeline", "create", "-f", specFile());
    expect([code, stderr]).toEqual([1, expect.stringContaining("comes to another specification")]);
    expect(asked.filter(({ call }) => !call.includes("dryRun"))).toHaveLength(1);
  });

  test.each([404, 400])("shows what holds now to pipeline inspect --spec (%i)", async (status) => {
    const { door } = await standIn((call) =>
      call === "GET /pipelines/edges" ? good(PIPELINE) : refusal(status, "NotFound"),
    );
    const { code, stdout, stderr } = await sluice(door, "pipeline", "inspect", "edges", "--spec");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout.toString())).toMatchObject(SPEC);
  });

  test("does not let pipeline inspect --spec print what lacks variables that the key may not see", async () => {
    const hiding = { ...PIPELINE, hidden: ["transform.env"] };
    const { door } = await standIn((call) =>
      call === "GET /pipelines/edges" ? good(hiding) : refusal(404, "NotFound"),
    );
    const { code, stdout, stderr } = await sluice(door, "pipeline", "inspect", "edges", "--spec");
    expect({ code, stdout: stdout.toString() }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain("may not see transform.env");
  });
});

describe("what keys are for, beside a list of commits", () => {
  const COMMIT = {
    ...{ id: "01KAR0000000000000000000ZZ", parent: null, createdAt: 1, job: null, message: null, meta: {} },
    ...{ key: "ROOT", changes: { written: 1, ended: 0 } },
  };

  test.each([403, 404, 503])("is left out if the gateway does not tell it (%i)", async (status) => {
    const { door } = await standIn((call) =>
      call.startsWith("GET /keys") ? refusal(status, "Refused") : good({ commits: [COMMIT], next: null }),
    );
    const { code, stdout, stderr } = await sluice(door, "commit", "list", "master.images", "--json");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(stdout.toString()).commits).toEqual([expect.objectContaining({ key: "ROOT" })]);
  });

  test("is asked of one page of keys, also if a key of a commit is in no page", async () => {
    const { door, asked } = await standIn((call) => {
      if (!call.startsWith("GET /keys")) return good({ commits: [COMMIT], next: null });
      return good({ keys: [], next: call.includes("after=") ? null : "A" });
    });
    const { code } = await sluice(door, "commit", "list", "master.images", "--json");
    const pages = asked.map(({ call }) => call).filter((call) => call.startsWith("GET /keys"));
    expect([code, pages]).toEqual([0, ["GET /keys?limit=1000"]]);
  });
});
