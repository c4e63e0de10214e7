import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { afterAll, describe, expect, test } from "vitest";
import { sluice } from "../../support/dev-server.ts";

/*
 * Gateways that refuse, or fail at what the command line asks beside the thing itself. Each is a stand-in that answers a few calls
 * in the words of a gateway.
 */

const stops: (() => void)[] = [];
afterAll(() => {
  for (const stop of stops) stop();
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

describe("rb without --force", () => {
  test("leaves it to the gateway whether the bucket is empty, in the call that deletes it", async () => {
    const { door, asked } = await standIn((call) => {
      if (call.startsWith("DELETE")) return refusal(409, "NotEmpty");
      return good({ pipelines: [] });
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
