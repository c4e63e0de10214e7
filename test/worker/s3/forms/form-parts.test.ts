import { describe, expect, test } from "vitest";
import { S3Error } from "../../../../worker/s3/answer/errors.ts";
import {
  Delimiter,
  type FormField,
  FormFile,
  FormHeadReader,
  parsePartHead,
} from "../../../../worker/s3/forms/form-parts.ts";
import { seededRandom, testSeed } from "../../../support/random.ts";
import { ArrivingBytes, joined } from "../body/support.ts";
import { BOUNDARY, type Field, formBody } from "./support.ts";

type Bytes = Uint8Array<ArrayBuffer>;

interface Parsed {
  readonly fields: readonly FormField[];
  readonly filename: string;
  readonly length: number;
  readonly file: Bytes;
}

/** Reads a form whose bytes come in pieces of random sizes, into buffers of random sizes. */
async function parsed(
  body: Bytes,
  {
    random,
    boundary = BOUNDARY,
    max = Number.POSITIVE_INFINITY,
  }: { random: () => number; boundary?: string; max?: number },
): Promise<Parsed> {
  const delimiter = new Delimiter(boundary);
  const raw = new ArrivingBytes(body, random);
  const reader = new FormHeadReader(delimiter);
  let head: ReturnType<FormHeadReader["push"]>;
  while (head === undefined) {
    const bytes = await raw.read(new Uint8Array(1 + Math.floor(random() ** 3 * 20_000)), 1);
    head = reader.push(bytes);
    if (head === undefined && bytes.length === 0) throw new Error("no file");
  }
  const tooLarge = () => new S3Error("EntityTooLarge");
  const file = new FormFile({ raw, delimiter, ahead: reader.rest, max, tooLarge });
  const pieces: Bytes[] = [];
  for (;;) {
    const space = new Uint8Array(1 + Math.floor(random() ** 2 * 50_000));
    const atLeast = 1 + Math.floor(random() * space.length);
    const piece = await file.read(space, atLeast);
    pieces.push(piece.slice());
    if (piece.length < atLeast) break;
  }
  return { ...head, file: joined(...pieces) };
}

/** Bytes that are full of what looks like the delimiter and is not. */
function confusing(length: number, random: () => number): Bytes {
  const delimiter = `\r\n--${BOUNDARY}`;
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; ) {
    const upTo = Math.floor(random() * delimiter.length);
    const piece =
      random() < 0.5
        ? delimiter.slice(0, upTo)
        : (["\r", "\n", "\r\n", "-", "a\r\r\n-"][Math.floor(random() * 5)] ?? "");
    const some = new TextEncoder().encode(`${piece}x`).subarray(0, length - at);
    bytes.set(some, at);
    at += some.length;
  }
  return bytes;
}

const FIELDS: readonly Field[] = [
  ["key", "a/file"],
  ["empty", ""],
  ["lines", "one\r\ntwo\r\n--three"],
  ["x-amz-meta-name", "Zoë €"],
];

describe("a form", () => {
  test("is the same however its bytes come and are asked for, and whatever its file looks like", async () => {
    const seed = testSeed();
    const random = seededRandom(seed);
    for (let turn = 0; turn < 120; turn++) {
      const file = confusing(Math.floor(random() ** 3 * 120_000), random);
      const behind =
        ["--\r\n", "--", "--\r\nepilogue", "\r\nContent-Disposition: form-data; name=late\r\n\r\nx"][
          turn % 4
        ] ?? "";
      const found = await parsed(formBody(FIELDS, { file, behind }), { random });
      expect(found.fields, `seed ${seed}, turn ${turn}`).toEqual(
        FIELDS.map(([name, value]) => ({ name, value })),
      );
      expect(found.filename).toBe("file.txt");
      expect(found.file.length, `seed ${seed}, turn ${turn}`).toBe(file.length);
      expect(found.file.every((byte, index) => byte === file[index])).toBe(true);
    }
  });

  test.each([
    "\r\n",
    "This is a form.\r\n",
    `\r\n--${BOUNDARY.slice(0, -1)}\r\n--\r\n`,
  ])("may have something before its first boundary, which is ignored: %j", async (before) => {
    const body = formBody(FIELDS, { file: "content" });
    for (const turn of [0, 0.1, 0.9]) {
      const found = await parsed(joined(before, body), { random: () => turn });
      expect(found.fields).toEqual(FIELDS.map(([name, value]) => ({ name, value })));
      expect(new TextDecoder().decode(found.file)).toBe("content");
      expect(found.length).toBe(before.length + (await parsed(body, { random: () => turn })).length);
    }
  });

  test("whose boundary is another, or begins in the middle of a line, is malformed, however much comes", async () => {
    const large = formBody([["x-ignore-a", "x".repeat(30_000)]], { file: "content" });
    for (const [before, boundary] of [
      ["", "other"],
      ["x", BOUNDARY],
    ] as const)
      await expect(parsed(joined(before, large), { random: () => 0.9, boundary })).rejects.toMatchObject({
        code: "MalformedPOSTRequest",
      });
  });

  test("tells how many bytes came before its file", async () => {
    const body = formBody(FIELDS, { file: "content" });
    const { length } = await parsed(body, { random: () => 0 });
    expect(new TextDecoder().decode(body.subarray(length, length + 7))).toBe("content");
  });

  test("may have any boundary that RFC 2046 has", async () => {
    for (const boundary of ["x", "--custom", "a'b(c)+_,-./:=?d", "y".repeat(70)]) {
      const { file } = await parsed(formBody(FIELDS, { file: `\r\n--${boundary.slice(0, -1)}`, boundary }), {
        random: () => 0.5,
        boundary,
      });
      expect(new TextDecoder().decode(file)).toBe(`\r\n--${boundary.slice(0, -1)}`);
    }
  });

  const cut = formBody(FIELDS, { file: "content" });
  test("whose file does not end is malformed, wherever it is cut, and its file is never taken for whole", async () => {
    const { length } = await parsed(cut, { random: () => 0 });
    const whole = length + "content\r\n--".length + BOUNDARY.length + 2;
    for (let end = length; end < whole; end++)
      await expect(parsed(cut.slice(0, end), { random: () => 0.3 }), `cut at ${end}`).rejects.toMatchObject({
        code: "MalformedPOSTRequest",
      });
    expect((await parsed(cut.slice(0, whole), { random: () => 0.3 })).file.length).toBe(7);
  });

  test("whose boundary stands in its file with something behind it is malformed", async () => {
    const body = formBody(FIELDS, { file: `one\r\n--${BOUNDARY}two` });
    await expect(parsed(body, { random: () => 0.3 })).rejects.toMatchObject({ code: "MalformedPOSTRequest" });
  });

  test("gives out no more bytes of its file than it may have", async () => {
    const random = seededRandom(testSeed());
    for (const size of [0, 1, 9, 10, 11, 12, 5000, 100_000]) {
      const found = parsed(formBody(FIELDS, { file: "x".repeat(size) }), { random, max: 10 });
      if (size > 10) await expect(found).rejects.toMatchObject({ code: "EntityTooLarge" });
      else expect((await found).file.length).toBe(size);
    }
  });

  test.each([
    ["an empty body", ""],
    ["something behind a boundary", `--${BOUNDARY}x\r\n`],
    ["a part without headers", `--${BOUNDARY}\r\n\r\n\r\nvalue`],
    ["a part without a name", `--${BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nvalue`],
    ["a part of another kind", `--${BOUNDARY}\r\nContent-Disposition: attachment; name=a\r\n\r\nvalue`],
    ["a header without a colon", `--${BOUNDARY}\r\nContent-Disposition\r\n\r\nvalue`],
    [
      "a value that is not UTF-8",
      joined(
        `--${BOUNDARY}\r\nContent-Disposition: form-data; name=a\r\n\r\n`,
        new Uint8Array([0xff]),
        `\r\n--${BOUNDARY}\r\n`,
      ),
    ],
  ])("that has %s is malformed", async (_, text) => {
    const body = typeof text === "string" ? joined(text) : text;
    const found = parsed(body, { random: () => 0.9 });
    await expect(found).rejects.toThrow(body.length === 0 ? "no file" : /well-formed multipart\/form-data: /);
  });

  test("may have 20,000 bytes before its file, and no more", async () => {
    const { length } = await parsed(formBody([["key", ""]], { file: "" }), { random: () => 0.9 });
    const fields = (more: number): Field[] => [["key", "x".repeat(20_000 - length + more)]];
    expect((await parsed(formBody(fields(0), { file: "" }), { random: () => 0.9 })).length).toBe(20_000);
    for (const more of [1, 100_000])
      await expect(parsed(formBody(fields(more), { file: "" }), { random: () => 0.9 })).rejects.toMatchObject(
        {
          code: "MaxPostPreDataLengthExceededError",
        },
      );
  });
});

describe("the name of a part", () => {
  test.each([
    ['form-data; name="file"; filename="a b.txt"', "file", "a b.txt"],
    ["form-data; name=file; filename=a.txt", "file", "a.txt"],
    ['FORM-DATA ;name="file";filename="x"', "file", "x"],
    ['form-data; name="a"', "a", undefined],
    ['form-data; name="f"; filename="C:\\dir\\a.txt"', "f", "C:\\dir\\a.txt"],
    ['form-data; name="f"; filename="say \\"hi\\""', "f", 'say "hi"'],
    ['form-data; name="f"; filename="a;b=c.txt"', "f", "a;b=c.txt"],
    ['form-data; name="f"; filename="Zoë.txt"', "f", "Zoë.txt"],
    [`form-data; name="f"; filename="x"; filename*=UTF-8''Zo%C3%AB.txt`, "f", "Zoë.txt"],
    [`form-data; name="f"; filename="x"; filename*=UTF-8''%FF`, "f", "x"],
  ])("is read from %s", (disposition, name, filename) => {
    expect(parsePartHead(`Content-Type: text/plain\r\nContent-Disposition: ${disposition}`)).toEqual({
      name,
      filename,
    });
  });
});
