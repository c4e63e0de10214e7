import { describe, expect, test } from "vitest";
import type { Payload } from "../../../../worker/app.ts";
import { callerOf, EXAMPLE_KEY, EXAMPLE_SCOPE, EXAMPLE_TIME, targetOf } from "../auth/support.ts";
import { drained, faultOf, joined, opened } from "./support.ts";

/**
 * The worked examples of AWS, "Signature Calculations for the Authorization Header: Transferring Payload in Multiple
 * Chunks" without and with trailing headers: 66,560 times the letter a, in chunks of 64 KiB and 1 KiB.
 */
const CONTENT = new Uint8Array(66_560).fill(97);

const EXAMPLES = [
  {
    name: "signed chunks",
    headers: {
      "content-encoding": "aws-chunked",
      "content-length": "66824",
      "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
      "x-amz-decoded-content-length": "66560",
      "x-amz-storage-class": "REDUCED_REDUNDANCY",
    },
    signature: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
    chunks: [
      "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
      "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
      "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ],
    trailer: "\r\n",
    checksum: undefined,
  },
  {
    name: "signed chunks with a trailer",
    headers: {
      "content-encoding": "aws-chunked",
      "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
      "x-amz-decoded-content-length": "66560",
      "x-amz-storage-class": "REDUCED_REDUNDANCY",
      "x-amz-trailer": "x-amz-checksum-crc32c",
    },
    signature: "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    chunks: [
      "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
      "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
      "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ],
    trailer:
      "x-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n",
    checksum: "sOO8/Q==",
  },
] as const;

type Example = (typeof EXAMPLES)[number];

async function payloadOf({ headers, signature }: Example): Promise<Payload> {
  const sent = new Map<string, string>(
    Object.entries({ ...headers, host: "s3.amazonaws.com", "x-amz-date": EXAMPLE_TIME }),
  );
  const signedHeaders = [...sent.keys()].sort().join(";");
  sent.set(
    "authorization",
    `AWS4-HMAC-SHA256 Credential=${EXAMPLE_KEY.id}/${EXAMPLE_SCOPE},SignedHeaders=${signedHeaders},Signature=${signature}`,
  );
  const target = targetOf("/examplebucket/chunkObject.txt", "s3.amazonaws.com");
  return (await callerOf({ method: "PUT", target, headers: sent })).payload;
}

function bodyOf({ chunks, trailer }: Example, content = CONTENT): Uint8Array {
  const [first, second, last] = chunks;
  return joined(
    `10000;chunk-signature=${first}\r\n`,
    content.subarray(0, 65_536),
    `\r\n400;chunk-signature=${second}\r\n`,
    content.subarray(65_536),
    `\r\n0;chunk-signature=${last}\r\n`,
    trailer,
  );
}

describe.each(EXAMPLES)("AWS's worked example of $name", (example) => {
  test("is let in and comes out whole", async () => {
    const body = opened(await payloadOf(example), { headers: example.headers, body: bodyOf(example) });
    if (body.source === null) throw new Error("no body");
    expect(body.declaredSize).toBe(66_560);
    expect(await drained(body.source, () => 0.5)).toEqual(CONTENT);
    expect(body.fault()).toBeUndefined();
    expect(body.expect.checksum?.value()).toBe(example.checksum);
  });

  test.each([0, 65_535, 66_559])("is refused with another byte %i", async (at) => {
    const payload = await payloadOf(example);
    const other = CONTENT.slice();
    other[at] = 98;
    const fault = await faultOf(() =>
      opened(payload, { headers: example.headers, body: bodyOf(example, other) }),
    );
    expect(fault.code).toBe("SignatureDoesNotMatch");
  });

  test("is refused with two signatures exchanged", async () => {
    const payload = await payloadOf(example);
    const [first, second, last] = example.chunks;
    const body = bodyOf({ ...example, chunks: [second, first, last] } as unknown as Example);
    const fault = await faultOf(() => opened(payload, { headers: example.headers, body }));
    expect(fault.code).toBe("SignatureDoesNotMatch");
  });
});

test("the signed trailer is refused with another value or signature", async () => {
  const example = EXAMPLES[1];
  const payload = await payloadOf(example);
  for (const trailer of [
    example.trailer.replace("sOO8/Q==", "sOO8/A=="),
    example.trailer.replace("d81f", "d81e"),
  ]) {
    const body = bodyOf({ ...example, trailer } as unknown as Example);
    const fault = await faultOf(() => opened(payload, { headers: example.headers, body }));
    expect(fault.code).toBe("SignatureDoesNotMatch");
  }
});
