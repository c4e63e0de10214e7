import { bucketName } from "../../protocol/names.ts";
import type { BigBody } from "./big-body.ts";
import { Connections } from "./closed-loop.ts";
import { Control } from "./control.ts";
import type { Sides } from "./pairs.ts";
import type { BenchGateway, Server } from "./servers.ts";
import { signed } from "./signing.ts";
import { transfer } from "./transfer.ts";

/** The gateway, and a bare Worker over the same kind of store that gets the same bodies. */
export interface Contest {
  readonly gateway: BenchGateway;
  readonly bare: Server;
}

let branches = 0;

/** The path of an object in a branch that holds nothing yet: what a branch has already would not be kept twice. */
async function newObject({ door }: BenchGateway): Promise<string> {
  branches += 1;
  const address = { repo: `large-${branches}`, branch: "master" };
  const control = new Control(door);
  await control.createBranch(address);
  await control.close();
  return `/${bucketName(address)}/object`;
}

/** PUTs of one body, in MB/s. `payload`: its SHA-256 in hex, or UNSIGNED-PAYLOAD. */
export function putRates(
  { gateway, bare }: Contest,
  { body, payload }: { body: BigBody; payload: string },
): Sides {
  const rate = async ({ endpoint, dropBlobs }: Server): Promise<number> => {
    const path = await newObject(gateway);
    const request = await signed(gateway.door, { method: "PUT", path, payload });
    const { seconds } = await transfer(endpoint, { request, pieces: body.pieces(), size: body.size });
    dropBlobs();
    return megabytesPerSecond(body.size, seconds);
  };
  return { ours: () => rate(gateway), other: () => rate(bare) };
}

/** GETs of one body, which both get beforehand, in MB/s. */
export async function getRates({ gateway, bare }: Contest, body: BigBody): Promise<Sides> {
  const path = await newObject(gateway);
  for (const { endpoint } of [gateway, bare]) {
    const request = await signed(gateway.door, { method: "PUT", path });
    await transfer(endpoint, { request, pieces: body.pieces(), size: body.size });
  }
  const rate = async ({ endpoint }: Server): Promise<number> => {
    const request = await signed(gateway.door, { method: "GET", path });
    const { seconds, bodyBytes } = await transfer(endpoint, { request });
    if (bodyBytes !== body.size) throw new Error(`GET answered ${bodyBytes} bytes of ${body.size}`);
    return megabytesPerSecond(body.size, seconds);
  };
  return { ours: () => rate(gateway), other: () => rate(bare) };
}

/** Multipart uploads, all parts at once, from the beginning to the end of Complete, in MB/s; against as many PUTs at once. */
export function multipartRates({ gateway, bare }: Contest, parts: readonly BigBody[]): Sides {
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  const sendAll = async ({ endpoint }: Server, pathOf: (number: number) => string): Promise<void> => {
    await Promise.all(
      parts.map(async (part, i) => {
        const request = await signed(gateway.door, { method: "PUT", path: pathOf(i + 1) });
        await transfer(endpoint, { request, pieces: part.pieces(), size: part.size });
      }),
    );
  };
  const timed = async (server: Server, act: () => Promise<void>): Promise<number> => {
    const startedAt = performance.now();
    await act();
    const seconds = (performance.now() - startedAt) / 1000;
    server.dropBlobs();
    return megabytesPerSecond(size, seconds);
  };
  return {
    async ours() {
      const path = await newObject(gateway);
      const connections = new Connections(gateway.endpoint, { count: 1 });
      try {
        return await timed(gateway, async () => {
          const upload = await beginUpload(gateway, { path, connections });
          await sendAll(gateway, (number) => `${upload}&partNumber=${number}`);
          await complete(gateway, { upload, connections, count: parts.length });
        });
      } finally {
        await connections.close();
      }
    },
    async other() {
      const path = await newObject(gateway);
      return timed(bare, () => sendAll(bare, (number) => `${path}-${number}`));
    },
  };
}

/** The target of the upload's further requests. */
async function beginUpload(
  { door }: BenchGateway,
  { path, connections }: { path: string; connections: Connections },
): Promise<string> {
  const answer = await connections.send(await signed(door, { method: "POST", path: `${path}?uploads=` }));
  const id = /<UploadId>([^<]+)<\/UploadId>/.exec(answer.toString())?.[1];
  if (id === undefined) throw new Error(`no upload was begun: ${answer}`);
  return `${path}?uploadId=${encodeURIComponent(id)}`;
}

async function complete(
  { door }: BenchGateway,
  { upload, connections, count }: { upload: string; connections: Connections; count: number },
): Promise<void> {
  // ETags that are not of the gateway's form are not looked at.
  const part = (_: unknown, i: number) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>any</ETag></Part>`;
  const xml = `<CompleteMultipartUpload>${Array.from({ length: count }, part).join("")}</CompleteMultipartUpload>`;
  const request = await signed(door, { method: "POST", path: upload, body: Buffer.from(xml) });
  const answer = await connections.send(request);
  if (!answer.includes("<CompleteMultipartUploadResult")) throw new Error(`not completed: ${answer}`);
}

function megabytesPerSecond(bytes: number, seconds: number): number {
  return bytes / 1e6 / seconds;
}
